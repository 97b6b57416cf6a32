package redis

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

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
			<-time.After(2 * time.Millisecond)
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
	quiet := Options{KeepLost: true, Oops: func(string, error) {}}
	a, b := mustOpen(t, servers.URL(), quiet), mustOpen(t, servers.URL(), quiet)
	var want account
	t.Run("killing", func(t *testing.T) {
		for _, server := range servers {
			killing(t, server)
		}
		want = booked(t, 60, a, b)
	})
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
