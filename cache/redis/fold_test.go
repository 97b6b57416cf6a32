package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// still keeps a store's own pushes and folds away until the test ends.
func still(t testing.TB, s *Store) *ledger {
	s.ledger.turn <- struct{}{}
	t.Cleanup(func() { <-s.ledger.turn }) // before Close
	return &s.ledger
}

// However the steps of nodes that fold at once are mixed, and wherever one
// stops, each element counts once.
func TestFoldsMixed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	raw := server.Client()
	nodes := make([]*ledger, 3)
	for n := range nodes {
		nodes[n] = still(t, mustOpen(t, "redis://"+server.Addr, Options{}))
	}
	now := time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		raw.FlushAll(context.Background())
		want := account{}
		tails := make([][]unfolded, len(nodes))
		buckets := make([][]*bucket, len(nodes))
		steps := rapid.IntRange(1, 60).Draw(rt, "steps")
		for range steps {
			n := rapid.IntRange(0, len(nodes)-1).Draw(rt, "node")
			l := nodes[n]
			var err error
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0, 1: // something is booked
				shard := rapid.IntRange(0, 2).Draw(rt, "shard")
				of := line(now.Add(-time.Duration(rapid.IntRange(0, 2).Draw(rt, "ago"))*time.Minute), rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "model"), 1<<40)
				want.add(cache.Minute, nil, of)
				err = raw.RPush(context.Background(), tailName(shard), l.s.encodeLines([]cache.Line{of})).Err()
			case 2: // a pass begins; one that did not end is given up
				var far [tags]string
				if far, _, err = l.folded(true); err == nil {
					tails[n], err = l.peek(far)
				}
				buckets[n] = nil
			case 3: // it adds
				if tails[n] == nil {
					continue
				}
				var sums cache.Tally
				for i := range tails[n] {
					tails[n][i].taken = 0
					l.take(&tails[n][i], &sums)
				}
				buckets[n] = l.buckets(&sums)
				err = l.add(buckets[n])
			case 4: // and writes, perhaps not the first time
				if buckets[n] != nil {
					_, err = l.write(tails[n], buckets[n])
				}
			case 5: // a whole one
				err = l.fold(context.Background(), true)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		if err := nodes[0].fold(context.Background(), true); err != nil {
			rt.Fatal(err)
		}
		folded(rt, nodes[0].s).same(rt, "minutes", want)
	})
}

// folded is what the minutes have, whatever is still to be folded.
func folded(t interface{ Fatal(...any) }, s *Store) account {
	got := account{}
	err := s.scan(context.Background(), cache.Minute, time.Time{}, time.Unix(1<<36, 0), func(begin time.Time, of cache.Series, f *cache.Figures) {
		got[entry{begin.Unix(), of}] = *f
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// booked settles and books on nodes until each of them did so many times, and
// gives what the ledger must have. What is not acknowledged is sent again.
func booked(t *testing.T, times int, nodes ...*Store) account {
	var (
		mu   sync.Mutex
		want = account{}
		wg   sync.WaitGroup
		key  atomic.Int64
		now  = time.Now()
	)
	again := func(do func() error) {
		for err := do(); err != nil; err = do() {
			if !errors.Is(err, cache.ErrAway) || t.Context().Err() != nil {
				t.Error(err)
				return
			}
		}
	}
	for _, s := range nodes {
		for range 4 {
			wg.Go(func() {
				for n := range times {
					l := line(now.Add(-time.Duration(rand.IntN(3))*time.Minute), strconv.Itoa(n%7), 1<<40)
					mu.Lock()
					want.add(cache.Minute, nil, l)
					mu.Unlock()
					if n%4 == 0 {
						s.Book(l)
						continue
					}
					c := claim(0)
					id := key.Add(1)
					c.Key = cache.Key{byte(id), byte(id >> 8), 9}
					var g cache.Grant
					again(func() (err error) { g, err = s.Claim(t.Context(), c); return err })
					set := answer("a")
					set.Lines = []cache.Line{l}
					again(func() error { return s.Settle(t.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, set) })
				}
			})
		}
	}
	wg.Wait()
	return want
}

// scanned tries until the store answers.
func scanned(t *testing.T, s *Store, want account) {
	t.Helper()
	var got account
	eventually(t, 10*time.Second, "the store answers", func() (ok bool) {
		var err error
		got, err = tryScan(t, s, cache.Minute)
		if err != nil && !errors.Is(err, cache.ErrAway) {
			t.Fatal(err)
		}
		return err == nil
	})
	got.same(t, "minutes", want)
}

// Each line counts once, though nodes fold at once and every few answers are
// lost: of settlements, pushes and folds.
func TestLedgerWhenRepliesAreLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var nodes []*Store
	for n := range 3 {
		p := redistest.NewProxy(t, server.Addr)
		p.Lose(everyNth(5 + n))
		nodes = append(nodes, mustOpen(t, "redis://"+p.Addr, Options{KeepLost: true, Oops: func(string, error) {}}))
	}
	stop := make(chan struct{})
	var folding sync.WaitGroup
	for _, s := range nodes { // as fast as they can
		folding.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = s.ledger.work(t.Context(), true)
				}
			}
		})
	}
	want := booked(t, 100, nodes...)
	close(stop)
	folding.Wait()
	for _, s := range nodes { // pushes what it has
		eventually(t, 10*time.Second, "it is pushed", func() bool { return s.ledger.work(t.Context(), true) == nil })
	}
	scanned(t, mustOpen(t, "redis://"+server.Addr, Options{}), want)
}

func TestLedgerOnAClusterWhoseConnectionsAreKilled(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, nil)
	for _, server := range servers {
		killing(t, server)
	}
	quiet := Options{KeepLost: true, Oops: func(string, error) {}}
	a, b := mustOpen(t, servers.URL(), quiet), mustOpen(t, servers.URL(), quiet)
	want := booked(t, 60, a, b)
	eventually(t, 10*time.Second, "it is pushed", func() bool { return a.ledger.work(t.Context(), true) == nil })
	scanned(t, b, want)
}

// A Redis that keeps what it acknowledged is killed in the middle, twice.
func TestLedgerOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	quiet := Options{KeepLost: true, Oops: func(string, error) {}}
	a, b := mustOpen(t, "redis://"+server.Addr, quiet), mustOpen(t, "redis://"+server.Addr, quiet)
	var killed sync.WaitGroup
	killed.Go(func() {
		for range 2 {
			<-time.After(400 * time.Millisecond)
			server.Restart()
		}
	})
	want := booked(t, 250, a, b)
	killed.Wait()
	eventually(t, 10*time.Second, "it is pushed", func() bool { return a.ledger.work(t.Context(), true) == nil })
	scanned(t, b, want)
}

// What is booked while Redis refuses is in the ledger afterwards, and in
// between nothing is asked all the time.
func TestLedgerWaitsForRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	mustSecret(t, s)
	now := time.Now()
	want := account{}
	for _, c := range [][2][]any{
		{{"config", "set", "maxmemory", "1"}, {"config", "set", "maxmemory", "0"}},
		{{"replicaof", "127.0.0.1", "1"}, {"replicaof", "no", "one"}},
	} {
		server.Do(c[0]...)
		for n := range 2000 {
			l := line(now.Add(-time.Duration(n)*time.Minute), "m", 1)
			s.Book(l)
			want.add(cache.Minute, nil, l)
		}
		for s.away(0) == nil {
			if _, err := s.Claim(t.Context(), claim(1)); !errors.Is(err, cache.ErrAway) {
				t.Fatal(err)
			}
		}
		if _, err := tryScan(t, s, cache.Minute); !errors.Is(err, cache.ErrAway) {
			t.Errorf("a scan: %v", err)
		}
		server.Do("config", "resetstat")
		asked := time.NewTimer(1500 * time.Millisecond)
		<-asked.C
		if n := server.Calls("evalsha"); n > 8 {
			t.Errorf("it was asked %d times meanwhile", n)
		}
		server.Do(c[1]...)
		eventually(t, 5*time.Second, "it is back", func() bool { return s.away(0) == nil })
		scan(t, s, cache.Minute).same(t, "afterwards", want)
	}
}

// Close writes what was booked. Another node goes on folding, at once after a
// Close, and soon after a death.
func TestAnotherNodeFolds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	folds := func() string { who, _ := server.Do("get", folderName).(string); return who }
	dead := "a node that died"
	server.Do("set", folderName, dead, "px", 1500)
	a, b := mustOpen(t, "redis://"+server.Addr, Options{}), mustOpen(t, "redis://"+server.Addr, Options{})
	eventually(t, 5*time.Second, "one of them folds", func() bool { return folds() != dead && folds() != "" })
	if folds() == b.node {
		a, b = b, a
	}
	l := line(time.Now(), "m", 1)
	want := account{}
	want.add(cache.Minute, nil, l)
	a.Book(l)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Second, "the other folds", func() bool { return folds() == b.node })
	eventually(t, 3*time.Second, "and did", func() bool { return server.Do("exists", listNames[cache.Minute]) == int64(1) })
	scan(t, b, cache.Minute).same(t, "afterwards", want)
}

// What is damaged is told, and left out; what is around it is not.
func TestDamagedSums(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var told atomic.Int64
	s := mustOpen(t, "redis://"+server.Addr, Options{Oops: func(_ string, err error) {
		if !errors.Is(err, cache.ErrCodec) && !errors.Is(err, cache.ErrLine) {
			t.Error(err)
		}
		told.Add(1)
	}})
	l := still(t, s)
	now := time.Now()
	want := account{}
	good := line(now, "m", 1)
	for _, element := range []string{"", "x", string(s.encodeLines([]cache.Line{good})), "\xff\xff\xff\xff", string(s.encodeLines([]cache.Line{good})) + "x", string(s.encodeLines([]cache.Line{good}))} {
		server.Do("rpush", tailName(3), element)
	}
	for range 3 {
		want.add(cache.Minute, nil, good)
	}
	fold := func() account {
		t.Helper()
		if err := l.fold(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		return folded(t, s)
	}
	fold().same(t, "a damaged tail", want)
	if n := told.Load(); n != 3 {
		t.Errorf("it was told %d times of 3", n)
	}
	fold().same(t, "folded once", want)
	if n := told.Load(); n != 3 {
		t.Errorf("it was told %d times of 3", n)
	}
	// A sum that is damaged in its bucket begins anew.
	name := bucketName(cache.Minute, cache.Minute.Begin(now, nil).Unix())
	server.Do("hset", name, string(cache.AppendSeries(nil, &good.Series)), "x", "y", "z")
	fold().same(t, "a damaged sum", account{})
	server.Do("rpush", tailName(3), s.encodeLines([]cache.Line{good}))
	want = account{}
	want.add(cache.Minute, nil, good)
	fold().same(t, "begun anew", want)
}

// A shard whose tail, or head, or both were lost goes on: what is there is
// counted, once.
func TestTailsAreLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	now := time.Now()
	want := account{}
	book := func(n int) {
		for range n {
			l := line(now, "m", 1)
			want.add(cache.Minute, nil, l)
			server.Do("rpush", tailName(0), s.encodeLines([]cache.Line{l}))
		}
	}
	check := func(when string) {
		t.Helper()
		scan(t, s, cache.Minute).same(t, when, want)
		scan(t, s, cache.Minute).same(t, when+", again", want)
	}
	book(5)
	check("at first")
	for _, c := range []struct {
		name string
		keys []any
	}{
		{"the tail", []any{tailName(0)}},
		{"the head", []any{headName(0)}},
		{"both", []any{tailName(0), headName(0)}},
	} {
		server.Do(append([]any{"del"}, c.keys...)...)
		book(3)
		check(c.name + " was lost")
	}
	// The buckets' server was restored, and knows less: what is off the tail
	// is not booked again.
	before, _ := server.Do("hget", foldedName, "0").(string)
	book(4)
	check("before")
	server.Do("hset", foldedName, "0", before)
	book(1)
	check("restored")
}

// Nodes that have nothing to do hardly ask.
func TestIdleLedgers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const nodes = 4
	for range nodes {
		s := mustOpen(t, "redis://"+server.Addr, Options{})
		mustSecret(t, s)
		s.Book(line(time.Now(), "m", 1))
	}
	eventually(t, 5*time.Second, "all pushed", func() bool { return len(server.Do("keys", tagNames[0][:9]+"*pushed:*").([]any)) == nodes })
	eventually(t, 5*time.Second, "all is folded", func() bool {
		n, _ := server.Do("hlen", foldedName).(int64)
		return n > 0
	})
	server.Do("config", "resetstat")
	<-time.After(3 * time.Second)
	if n := server.Calls("evalsha"); n > 3*(nodes+1)*2 || n == 0 {
		t.Errorf("%d nodes asked %d times in 3 s", nodes, n)
	}
}

// A bucket's series are limited over all shards, and in one pass that has more.
func TestManySeries(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	now := time.Now()
	total := account{}
	pipe := server.Client().Pipeline()
	for n := range 3 * cache.MostSeries {
		if n == cache.MostSeries/2 { // the next pass is one that fills the bucket
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			scan(t, s, cache.Minute)
		}
		l := busy(now, n)
		if n%100 == 99 { // who is called so
			l.Series = cache.OtherSeries(l.Series)
		}
		pipe.RPush(t.Context(), tailName(n%tags), s.encodeLines([]cache.Line{l}))
		l.Series = cache.Series{}
		total.add(cache.Minute, nil, l)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, sum := scan(t, s, cache.Minute), account{}
	for e, f := range got {
		sum.add(cache.Minute, nil, cache.Line{At: time.Unix(e.begin, 0), Figures: f})
	}
	sum.same(t, "the total", total)
	if other := got[entry{cache.Minute.Begin(now, nil).Unix(), cache.OtherSeries(busy(now, 1).Series)}]; len(got) < cache.MostSeries || len(got) > cache.MostSeries+1 || other.Requests < 2*cache.MostSeries {
		t.Errorf("%d series, and %d requests are in the other one", len(got), other.Requests)
	}
}
