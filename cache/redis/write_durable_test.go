package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// acknowledged is what writes were told of, each of a key of its own, while
// something goes wrong.
type acknowledged struct {
	key atomic.Uint64

	mu  sync.Mutex
	all map[cache.Key]told
}

type told struct {
	fence cache.Fence
	state cache.State
	text  string
}

func (a *acknowledged) tell(k cache.Key, v told) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[cache.Key]told)
	}
	a.all[k] = v
}

// forget what may be either, until it is acknowledged.
func (a *acknowledged) forget(k cache.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, k)
}

func (a *acknowledged) count(state cache.State) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range a.all {
		if v.state == state {
			n++
		}
	}
	return n
}

// begin has callers write until stop is called, which waits for them.
func (a *acknowledged) begin(t *testing.T, s *Store) (stop func()) {
	var callers sync.WaitGroup
	over := make(chan struct{})
	for range 16 {
		callers.Go(func() {
			for pause := time.Duration(0); ; {
				select {
				case <-over:
					return
				case <-time.After(pause):
				}
				pause = 0
				if a.one(t, s) != nil {
					pause = 5 * time.Millisecond
				}
			}
		})
	}
	return func() { close(over); callers.Wait() }
}

func (a *acknowledged) one(t *testing.T, s *Store) error {
	n := a.key.Add(1)
	c := write(byte(n))
	binary.BigEndian.PutUint64(c.Key[1:], n)
	c.Lease = time.Hour
	g, err := s.Claim(t.Context(), c)
	if err != nil {
		return err
	}
	h := cache.Hold{Key: c.Key, Fence: g.Fence}
	if err := s.Dispatch(t.Context(), h, cache.NewNonce()); err != nil {
		return err
	}
	a.tell(c.Key, told{g.Fence, cache.Dispatched, ""})
	end, text := []cache.State{cache.Completed, cache.Unknown, cache.Dispatched, cache.Released}[n%4], fmt.Sprint(n)
	if end == cache.Dispatched {
		return nil
	}
	a.forget(c.Key)
	set := executed(text)
	set.Keep, set.Result.State = time.Hour, end
	if err := s.Settle(t.Context(), h, set); err != nil {
		return err
	}
	a.tell(c.Key, told{g.Fence, end, text})
	return nil
}

// check holds the store against what was acknowledged.
func (a *acknowledged) check(t *testing.T, s *Store) {
	t.Helper()
	for k, v := range a.all {
		r, err := s.Record(t.Context(), k)
		if v.state == cache.Released {
			if !errors.Is(err, cache.ErrNone) {
				t.Fatalf("%+v was released and is %+v, %v", v, r, err)
			}
			continue
		}
		if err != nil || r.State != v.state || r.Fence != v.fence || v.state == cache.Completed && text(r.Frames) != v.text {
			t.Fatalf("%+v was acknowledged and is %+v, %v", v, r, err)
		}
	}
	doubts, err := s.Doubts(t.Context())
	if n := int64(a.count(cache.Unknown)); err != nil || doubts["payments"] < n {
		t.Errorf("%v are in doubt, %v; acknowledged are %d", doubts, err, n)
	}
	if all, _ := listing(t, s, cache.Filter{State: cache.Unknown}, 200); int64(len(all)) != doubts["payments"] {
		t.Errorf("%d are listed, %d counted", len(all), doubts["payments"])
	}
	t.Logf("acknowledged: %d completed, %d unknown, %d dispatched, %d released",
		a.count(cache.Completed), a.count(cache.Unknown), a.count(cache.Dispatched), a.count(cache.Released))
}

// What was acknowledged is there after a kill -9 of a Redis that writes first.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := mustOpen(t, server.URL(), Options{Oops: func(string, error) {}})
	mustSecret(t, s)
	if got := s.Durability(); got != "strict" {
		t.Fatal(got)
	}
	var a acknowledged
	for range 3 {
		already := a.count(cache.Completed)
		stop := a.begin(t, s)
		eventually(t, 20*time.Second, "some completed", func() bool { return a.count(cache.Completed) > already+50 })
		server.Kill()
		stop()
		server.Restart()
		eventually(t, 10*time.Second, "it is back", func() bool {
			_, err := s.Doubts(t.Context())
			return err == nil
		})
		a.check(t, s)
	}
}

// What a replica must have had is there after a failover: of a master that died,
// and of one that did not and takes writes for a while longer.
func TestFailoverLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(master, sentinel *redistest.Server){
		"it dies": func(master, _ *redistest.Server) { master.Kill() },
		"it lives": func(_, sentinel *redistest.Server) {
			c := sentinel.Client()
			defer c.Close()
			eventually(t, 10*time.Second, "it knows of a replica to promote", func() bool {
				return c.Do(t.Context(), "sentinel", "failover", "main").Err() == nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master := redistest.Start(t)
			r := replica(t, master)
			sentinel := redistest.StartSentinel(t, "main", master)
			sentinel.Do("sentinel", "set", "main", "down-after-milliseconds", 500)
			eventually(t, 20*time.Second, "the sentinel knows the replica", func() bool {
				known, _ := sentinel.Do("sentinel", "replicas", "main").([]any)
				return len(known) == 1
			})
			s := mustOpen(t, "redis+sentinel://"+sentinel.Addr+"/main", Options{Replicas: 1, Oops: func(string, error) {}})
			still(t, s)
			var a acknowledged
			stop := a.begin(t, s)
			eventually(t, 20*time.Second, "some completed", func() bool { return a.count(cache.Completed) > 50 })
			fail(master, sentinel)
			eventually(t, 30*time.Second, "the replica is the master", func() bool { return r.Info("replication", "role") == "master" })
			stop()
			after := mustOpen(t, r.URL(), Options{Oops: func(string, error) {}})
			still(t, after)
			a.check(t, after)
		})
	}
}
