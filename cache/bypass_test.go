package cache_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/cache/local"
)

// lossy are two nodes on one store. The answer to the first claim of one of
// them is lost: before it had its effect, or after.
func lossy(t *testing.T, before, after bool, f func(t *testing.T, a, b *cache.Records, bypassed *cache.Entry, given *atomic.Int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := local.Open(t.TempDir(), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var lost atomic.Bool
		first := func(on bool) func(string) bool {
			return func(step string) bool { return on && step == "claim" && lost.CompareAndSwap(false, true) }
		}
		var given atomic.Int64
		node := func(s cache.Store) *cache.Records {
			return &cache.Records{Store: s, Lease: lease, Window: window, Debt: 2 * time.Minute,
				Oops: func(step string, err error) { t.Errorf("%s: %v", step, err) }}
		}
		a, b := node(&cachetest.Faulty{Store: s, Before: first(before), After: first(after)}), node(s)
		a.GiveBack = func(c cache.Claim, set *cache.Settlement) { // as an engine does, that finds out what landed
			given.Add(1)
			if g, err := s.Claim(context.Background(), c); err != nil || g.Role != cache.Lead {
				t.Errorf("the claim did not land: %+v, %v", g, err)
			} else if err := s.Settle(context.Background(), cache.Hold{Key: c.Key, Fence: g.Fence}, *set); err != nil {
				t.Error(err)
			}
		}
		a.Landed = func(c cache.Claim) (cache.Hold, bool, error) {
			g, err := s.Claim(context.Background(), c)
			return cache.Hold{Key: c.Key, Fence: g.Fence}, after, err
		}
		e, err := a.Open(t.Context(), claim(cache.Duplicates), time.Time{})
		if !errors.Is(err, cache.ErrAway) || errors.Is(err, cache.ErrLost) != after || e == nil || e.Role != cache.Lead || !e.Private() {
			t.Fatalf("%+v, %v", e, err)
		}
		f(t, a, b, e, &given)
	})
}

func TestABypassedCallSettlesIntoItsClaim(t *testing.T) {
	lossy(t, false, true, func(t *testing.T, a, b *cache.Records, e *cache.Entry, _ *atomic.Int64) {
		elsewhere := opened(t, b, claim(cache.Duplicates), cache.Follow)
		here := opened(t, a, claim(cache.Duplicates), cache.Follow)
		e.Log().Append(t.Context(), frame("one "))
		e.Settle(cache.Result{State: cache.Completed}, keep, false, frame("two"))
		for _, follower := range []*cache.Entry{elsewhere, here} {
			if got := read(follower); got != "one two" || follower.Log().Lost() {
				t.Errorf("a follower got %q", got)
			}
		}
		if got := read(e); got != "one two" {
			t.Errorf("its own client got %q", got)
		}
		for _, r := range []*cache.Records{a, b} {
			if got := read(opened(t, r, marked(), cache.Replay)); got != "one two" {
				t.Errorf("kept is %q", got)
			}
		}
	})
}

// A call that runs for longer than the lease keeps its claim.
func TestABypassedCallKeepsItsClaim(t *testing.T) {
	for name, landed := range map[string]bool{"landed": true, "did not land": false} {
		t.Run(name, func(t *testing.T) {
			lossy(t, !landed, landed, func(t *testing.T, a, b *cache.Records, e *cache.Entry, given *atomic.Int64) {
				if !landed {
					time.Sleep(4 * lease)
					opened(t, b, claim(cache.Duplicates), cache.Lead).Settle(cache.Result{State: cache.Released}, 0, false)
					e.Settle(cache.Result{State: cache.Completed}, keep, false)
					return
				}
				follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
				time.Sleep(4 * lease)
				opened(t, b, claim(cache.Duplicates), cache.Follow)
				e.Settle(cache.Result{State: cache.Completed}, keep, false, frame("late"))
				if got := read(follower); got != "late" || follower.Log().Lost() || given.Load() != 1 {
					t.Errorf("a follower got %q, lost %v, given back %d times", got, follower.Log().Lost(), given.Load())
				}
			})
		})
	}
}

// What a client left without is there for its next try.
func TestABypassedCallIsOwed(t *testing.T) {
	lossy(t, false, true, func(t *testing.T, a, b *cache.Records, e *cache.Entry, _ *atomic.Int64) {
		e.Owe()
		e.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
		e.Owe() // too late to be told: it changes nothing
		if again := opened(t, b, claim(cache.Retries), cache.Replay); again.Share != cache.ByDebt || read(again) != "x" {
			t.Errorf("shared as %s", again.Share)
		}
		opened(t, b, claim(cache.Retries), cache.Lead)
	})
}

// One that comes to nothing holds nobody up.
func TestABypassedCallThatFails(t *testing.T) {
	lossy(t, false, true, func(t *testing.T, a, b *cache.Records, e *cache.Entry, _ *atomic.Int64) {
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		synctest.Wait()
		e.Settle(cache.Result{State: cache.Failed}, 0, false, frame("502"))
		if got := read(follower); got != "502" {
			t.Errorf("who follows it got %q", got)
		}
		opened(t, b, claim(cache.Duplicates), cache.Lead)
	})
}

// A claim that was refused needs no end.
func TestABypassedCallWithoutAClaim(t *testing.T) {
	lossy(t, true, false, func(t *testing.T, a, b *cache.Records, e *cache.Entry, given *atomic.Int64) {
		e.Owe()
		e.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
		if n := given.Load(); n != 0 {
			t.Errorf("it was given back %d times", n)
		}
		opened(t, b, claim(cache.Duplicates), cache.Lead)
	})
}
