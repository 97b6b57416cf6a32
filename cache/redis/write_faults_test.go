package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/cache/redis/redistest"
)

// write is a claim of one.
func write(k byte) cache.Claim {
	c := claim(k)
	c.Explicit, c.Write = true, &cache.Write{About: cache.About{Tool: "payments", Principal: "p"}}
	return c
}

// executed is a settlement of a write.
func executed(texts ...string) cache.Settlement {
	s := answer(texts...)
	s.Memory, s.Result.Status = time.Hour, 201
	return s
}

func ended(state cache.State) cache.Settlement {
	return cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: state}}
}

func stateOf(t testing.TB, s *Store, k cache.Key) cache.State {
	t.Helper()
	r, err := s.Record(t.Context(), k)
	if err != nil && !errors.Is(err, cache.ErrNone) {
		t.Fatal(err)
	}
	return r.State
}

// The steps of a write are three round trips, and ask nothing else.
func TestWriteIsThreeRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	s := mustOpen(t, server.URL(), Options{})
	still(t, s)
	run := func(c cache.Claim) {
		t.Helper()
		h := mustClaim(t, s, c, cache.Lead)
		if err := s.Dispatch(t.Context(), h, cache.NewNonce()); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), h, executed("a")); err != nil {
			t.Fatal(err)
		}
	}
	run(write(1)) // the scripts are known then
	server.Do("config", "resetstat")
	run(write(2))
	if n := server.Calls("evalsha"); n != 3 {
		t.Errorf("it took %d round trips", n)
	}
	for _, other := range []string{"eval", "wait", "config|get", "get"} {
		if other != "get" && server.Calls(other) != 0 {
			t.Errorf("and called %s %d times", other, server.Calls(other))
		}
	}
	server.Do("config", "resetstat")
	if g, err := s.Claim(t.Context(), write(2)); err != nil || g.Role != cache.Replay || text(g.Result.Frames) != "a" {
		t.Errorf("%+v, %v", g, err)
	}
	if n := server.Calls("evalsha"); n != 1 {
		t.Errorf("a replay took %d round trips", n)
	}
}

// lossy gives a store on a way where replies of a step can be lost or held back,
// and another that goes straight.
func lossy(t *testing.T, o Options) (s, other *Store, p *redistest.Proxy) {
	server := redistest.Start(t)
	p = redistest.NewProxy(t, server.Addr)
	s, other = mustOpen(t, "redis://"+p.Addr, o), mustOpen(t, server.URL(), Options{})
	still(t, s)
	still(t, other)
	h := mustClaim(t, s, write(99), cache.Lead) // the scripts are known
	if err := errors.Join(s.Dispatch(t.Context(), h, cache.NewNonce()), s.Settle(t.Context(), h, ended(cache.Released))); err != nil {
		t.Fatal(err)
	}
	return s, other, p
}

func wasLost(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, cache.ErrAway) || !errors.Is(err, cache.ErrLost) {
		t.Errorf("%s: %v, want that its answer was lost", what, err)
	}
}

func TestLostWriteClaimIsGivenBack(t *testing.T) {
	t.Parallel()
	s, other, p := lossy(t, Options{})
	var lose atomic.Bool
	p.Lose(func(reply []byte) bool { return lose.Load() && strings.HasPrefix(string(reply), "*6\r\n:") })
	lose.Store(true)
	_, err := s.Claim(t.Context(), write(1))
	wasLost(t, "a claim", err)
	lose.Store(false)
	eventually(t, 2*time.Second, "it is given back", func() bool { return waiting(s) == 0 })
	mustClaim(t, other, write(1), cache.Lead)

	// Over an outcome in doubt it leaves that.
	first := mustClaim(t, other, write(2), cache.Lead)
	if err := errors.Join(other.Dispatch(t.Context(), first, cache.NewNonce()), other.Settle(t.Context(), first, ended(cache.Unknown))); err != nil {
		t.Fatal(err)
	}
	c := write(2)
	c.Write.Knowingly = true
	lose.Store(true)
	_, err = s.Claim(t.Context(), c)
	wasLost(t, "a claim", err)
	lose.Store(false)
	eventually(t, 2*time.Second, "it is given back", func() bool { return waiting(s) == 0 })
	mustClaim(t, other, write(2), cache.InDoubt)

	// One that arrives after it was given back leads nothing.
	late := write(3)
	s.GiveBack(late, nil)
	eventually(t, 2*time.Second, "it is given back", func() bool { return waiting(s) == 0 })
	if _, err := s.Claim(t.Context(), late); !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), "new nonce") {
		t.Errorf("a claim that was given back: %v", err)
	}
}

// A dispatch whose answer was lost, or late, counts as none: its holder gives the
// claim up, wherever it is then.
func TestLostDispatch(t *testing.T) {
	t.Parallel()
	s, other, p := lossy(t, Options{})
	for n, how := range []func(h cache.Hold) error{
		func(h cache.Hold) error { // after its effect
			var lose atomic.Bool
			lose.Store(true)
			p.Lose(func(reply []byte) bool { return lose.Swap(false) })
			return s.Dispatch(t.Context(), h, cache.NewNonce())
		},
		func(h cache.Hold) error { // late
			p.Delay(timeout + 50*time.Millisecond)
			defer p.Delay(0)
			return s.Dispatch(t.Context(), h, cache.NewNonce())
		},
		func(h cache.Hold) error { // before it
			p.Hang(true)
			defer func() { p.Cut(); p.Hang(false) }()
			return s.Dispatch(t.Context(), h, cache.NewNonce())
		},
	} {
		h := mustClaim(t, s, write(byte(n)), cache.Lead)
		wasLost(t, "a dispatch", how(h))
		want := cache.Dispatched
		if n == 2 {
			want = cache.Claimed
		}
		if got := stateOf(t, other, h.Key); got != want {
			t.Errorf("dispatch %d left state %d, want %d", n, got, want)
		}
		mustClaim(t, other, write(byte(n)), cache.Follow) // nobody runs it meanwhile
		eventually(t, 5*time.Second, "it is given up", func() bool { return s.Settle(t.Context(), h, ended(cache.Released)) == nil })
		mustClaim(t, other, write(byte(n)), cache.Lead)
	}
}

// A dispatch that was withdrawn has no second effect when it is sent again.
func TestWithdrawnDispatchSentAgain(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, redistest.Start(t).URL(), Options{})
	h, n, err := sends(t, s, 1)
	if err == nil {
		err = s.Withdraw(t.Context(), h, cache.NewNonce())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Dispatch(t.Context(), h, n); !errors.Is(err, cache.ErrFenced) {
		t.Errorf("sent again: %v", err)
	}
	if got := stateOf(t, s, h.Key); got != cache.Claimed {
		t.Errorf("it is in state %d", got)
	}
	if err := s.Dispatch(t.Context(), h, cache.NewNonce()); err != nil {
		t.Errorf("dispatched anew: %v", err)
	}
}

// A Redis that stands still confirms nothing, within a second. What it does when
// it goes on, in whichever order, lets nothing run twice.
func TestRedisStandsStillAtADispatch(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, server.URL(), Options{Oops: func(string, error) {}})
	var holds []cache.Hold
	for n := range byte(8) {
		holds = append(holds, mustClaim(t, s, write(n), cache.Lead))
	}
	server.Pause()
	begin := time.Now()
	for n, h := range holds {
		if err := s.Dispatch(t.Context(), h, cache.NewNonce()); !errors.Is(err, cache.ErrAway) {
			t.Fatalf("dispatch %d: %v", n, err)
		}
	}
	if took := time.Since(begin); took > failuresAway*stepTimeout+time.Second {
		t.Errorf("it took %v to know that", took)
	}
	for _, h := range holds {
		if err := s.Settle(t.Context(), h, ended(cache.Released)); !errors.Is(err, cache.ErrAway) {
			t.Fatalf("released: %v", err)
		}
	}
	server.Continue()
	eventually(t, 5*time.Second, "it is back", func() bool { return s.away(0) == nil })
	for n, h := range holds {
		if err := s.Settle(t.Context(), h, ended(cache.Released)); err != nil && !errors.Is(err, cache.ErrFenced) {
			t.Errorf("released: %v", err)
		}
		next := mustClaim(t, s, write(byte(n)), cache.Lead)
		if err := s.Dispatch(t.Context(), h, cache.NewNonce()); !errors.Is(err, cache.ErrFenced) {
			t.Errorf("the old holder dispatches: %v", err)
		}
		if err := s.Dispatch(t.Context(), next, cache.NewNonce()); err != nil {
			t.Errorf("the new one: %v", err)
		}
	}
}

// runsOnce has callers on all stores claim few keys, over and over, and send
// what they were let send. Some are slow, past their lease where there is a
// clock; some die. Whatever
// is lost on the way, and however the clock goes, no key is sent twice unless
// the first was said not to be executed.
func runsOnce(t *testing.T, clock *redistest.Clock, rounds int, stores ...*Store) {
	const callers, keys = 12, 48
	type key struct {
		sent      atomic.Int64 // and not known to be undone
		completed atomic.Bool
	}
	var (
		all                            = make([]key, keys)
		wg                             sync.WaitGroup
		sends, replays, doubts, fences atomic.Int64
	)
	again := func(do func() error) error { // until it was answered
		for begin := time.Now(); ; time.Sleep(time.Millisecond) {
			err := do()
			if !errors.Is(err, cache.ErrAway) {
				return err
			}
			if time.Since(begin) > 30*time.Second {
				t.Errorf("for half a minute: %v", err)
				return err
			}
		}
	}
	for caller := range callers {
		wg.Go(func() {
			s := stores[caller%len(stores)]
			rnd := rand.New(rand.NewPCG(uint64(caller), 7))
			for range rounds {
				n := rnd.IntN(keys)
				k := &all[n]
				c := write(byte(n))
				g, err := s.Claim(t.Context(), c)
				switch {
				case errors.Is(err, cache.ErrAway):
					s.GiveBack(c, nil)
					continue
				case err != nil:
					t.Error(err)
				case g.Role == cache.Replay:
					replays.Add(1)
					if !k.completed.Load() || text(g.Result.Frames) != fmt.Sprint(n) {
						t.Errorf("key %d replays %q", n, text(g.Result.Frames))
					}
				case g.Role == cache.InDoubt:
					doubts.Add(1)
				}
				if g.Role != cache.Lead {
					continue
				}
				h := cache.Hold{Key: c.Key, Fence: g.Fence}
				pass := func() {
					if clock != nil {
						clock.Pass(lease)
					}
				}
				if rnd.IntN(4) == 0 {
					pass()
				}
				if err := s.Dispatch(t.Context(), h, cache.NewNonce()); err != nil {
					fences.Add(1)
					_ = again(func() error { return s.Settle(t.Context(), h, ended(cache.Released)) })
					continue
				}
				sends.Add(1)
				if k.sent.Add(1) > 1 {
					t.Errorf("key %d was sent twice", n)
				}
				if rnd.IntN(4) == 0 {
					pass()
				}
				switch rnd.IntN(8) {
				case 0: // dies
				case 1:
					_ = again(func() error { return s.Settle(t.Context(), h, ended(cache.Unknown)) })
				case 2:
					k.completed.Store(true)
					set := executed(fmt.Sprint(n))
					set.Keep = 1000 * time.Hour
					set.Memory = set.Keep
					if err := again(func() error { return s.Settle(t.Context(), h, set) }); err != nil {
						t.Errorf("a late result: %v", err)
					}
				default: // refused by its upstream: it may run again
					k.sent.Add(-1)
					set := ended(cache.Released)
					// One whose answer was lost is not remembered for ever.
					if err := again(func() error { return s.Settle(t.Context(), h, set) }); err != nil && !errors.Is(err, cache.ErrFenced) {
						t.Errorf("a release: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d sent, %d replays, %d in doubt, %d dispatches refused or lost", sends.Load(), replays.Load(), doubts.Load(), fences.Load())
	if sends.Load() < keys {
		t.Error("hardly anything was sent")
	}
}

func TestWritesRunOnce(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		server := clock.Start()
		killing(t, server)
		quiet := Options{KeepLost: true, Oops: func(string, error) {}}
		runsOnce(t, clock, 200, mustOpen(t, server.URL(), quiet), mustOpen(t, server.URL(), quiet))
	})
	t.Run("replies are lost", func(t *testing.T) {
		t.Parallel()
		server := clock.Start()
		p := redistest.NewProxy(t, server.Addr)
		quiet := Options{KeepLost: true, Oops: func(string, error) {}}
		stores := []*Store{mustOpen(t, "redis://"+p.Addr, quiet), mustOpen(t, "redis://"+p.Addr, quiet)}
		mustSecret(t, stores[0])
		p.Lose(everyNth(7))
		runsOnce(t, clock, 200, stores...)
	})
}

// Whatever is lost on the way, what callers were told of writes is one history.
func TestWriteHistory(t *testing.T) {
	t.Parallel()
	t.Run("replies are lost", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		var stores []cache.Store
		for n := range 2 {
			p := redistest.NewProxy(t, server.Addr)
			p.Lose(everyNth(7 + n))
			stores = append(stores, mustOpen(t, "redis://"+p.Addr, Options{KeepLost: true}))
		}
		cachetest.WriteHistory(t, 120, stores...)
	})
	t.Run("connections are killed", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		killing(t, server)
		cachetest.WriteHistory(t, 120, mustOpen(t, server.URL(), Options{KeepLost: true}), mustOpen(t, server.URL(), Options{KeepLost: true}))
	})
}
