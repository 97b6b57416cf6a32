package redis

import (
	"context"
	"errors"
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
			l.User = cache.Other
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
	others := busy(now, 1).Series
	others.User = cache.Other
	if other := got[entry{cache.Minute.Begin(now, nil).Unix(), others}]; len(got) < cache.MostSeries || len(got) > cache.MostSeries+1 || other.Requests < 2*cache.MostSeries {
		t.Errorf("%d series, and %d requests are in the other one", len(got), other.Requests)
	}
}
