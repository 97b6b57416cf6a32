package cache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

// slowSettle is a store that takes 30 ms for a settlement, and notes when it
// was asked for one.
type slowSettle struct {
	cache.Store
	begun time.Time
	asked chan time.Duration // since begun
	set   cache.Settlement   // the last one
	owes  int                // debts that it was told of by themselves
}

const slow = 30 * time.Millisecond

func (s *slowSettle) Settle(ctx context.Context, h cache.Hold, set cache.Settlement) error {
	s.set = set
	s.asked <- time.Since(s.begun)
	time.Sleep(slow)
	return s.Store.Settle(ctx, h, set)
}

func (s *slowSettle) Owe(ctx context.Context, h cache.Hold, n cache.Nonce, d time.Duration) error {
	s.owes++
	return s.Store.Owe(ctx, h, n, d)
}

// ending runs f in a bubble with a call that leads, and that ends as f begins.
func ending(t *testing.T, c cache.Claim, f func(h *house, s *slowSettle, lead *cache.Entry)) {
	t.Helper()
	inHouse(t, func(h *house) {
		lead := h.is(c, cache.Lead, "")
		s := &slowSettle{Store: h.Store, begun: time.Now(), asked: make(chan time.Duration, 1)}
		h.Store = s
		done := make(chan struct{})
		go func() {
			h.settle(lead, frame("x"))
			close(done)
		}()
		f(h, s, lead)
		<-done
	})
}

// ended waits for a reader's end, and says when it came.
func ended(e *cache.Entry, s *slowSettle) time.Duration {
	for {
		if _, _, over := e.Reader.Take(nil); over {
			return time.Since(s.begun)
		}
		<-e.Reader.Woken()
	}
}

func TestADerivedKeySettlesOnceItsReadersHaveTheirs(t *testing.T) {
	for _, leaves := range []time.Duration{0, 10 * time.Millisecond, time.Minute} {
		ending(t, claim(cache.Duplicates), func(h *house, s *slowSettle, lead *cache.Entry) {
			if at := ended(lead, s); at != 0 {
				h.Errorf("the end came after %v", at)
			}
			time.AfterFunc(leaves, lead.Reader.Leave)
			want := min(leaves, 20*time.Millisecond)
			if at := <-s.asked; at != want {
				h.Errorf("a reader that leaves after %v: settled after %v", leaves, at)
			}
			time.Sleep(leaves)
		})
	}
}

func TestAnExplicitKeySettlesBeforeItsEnd(t *testing.T) {
	ending(t, keyed(1), func(h *house, s *slowSettle, lead *cache.Entry) {
		if at := ended(lead, s); at != slow {
			h.Errorf("the end came after %v", at)
		}
		if at := <-s.asked; at != 0 {
			h.Errorf("settled after %v", at)
		}
	})
}

// Whoever asks between the end and its record is not one of the call's readers
// any more: what it is shows once the store knows the end.
func TestWhoAsksBetweenEndAndRecord(t *testing.T) {
	for name, c := range map[string]struct {
		claim cache.Claim
		role  cache.Role
		share cache.Share
	}{
		"the same again":           {claim(cache.Duplicates), cache.Lead, ""},
		"the same again, retries":  {claim(cache.Retries), cache.Lead, ""},
		"a marked retry":           {marked(), cache.Replay, cache.RetryMarked},
		"who takes any duplicate":  {claim(cache.Always), cache.Replay, cache.WithinTTL},
		"with another's debt open": {claim(cache.Duplicates), cache.Replay, cache.ByDebt},
	} {
		t.Run(name, func(t *testing.T) {
			ending(t, claim(cache.Duplicates), func(h *house, s *slowSettle, lead *cache.Entry) {
				ended(lead, s)
				if c.share == cache.ByDebt {
					lead.Owe()
				}
				e := h.is(c.claim, c.role, c.share)
				if at := time.Since(s.begun); at != 20*time.Millisecond+slow {
					h.Errorf("it was told after %v", at)
				}
				lead.Reader.Leave()
				if e.Role == cache.Lead {
					<-s.asked
					h.settle(e)
				} else if got := read(e); got != "x" {
					h.Errorf("it got %q", got)
				}
			})
		})
	}
}

// A client that turns out to be left without its end is in the settlement; a
// later one is told by itself.
func TestDebtsOfAnEnd(t *testing.T) {
	ending(t, claim(cache.Retries), func(h *house, s *slowSettle, lead *cache.Entry) {
		ended(lead, s)
		time.Sleep(5 * time.Millisecond)
		lead.Owe()
		lead.Reader.Leave()
		<-s.asked
		if len(s.set.Owed) != 1 || s.owes != 0 {
			h.Errorf("%d debts with the settlement, %d by themselves", len(s.set.Owed), s.owes)
		}
		lead.Owe()
		time.Sleep(slow)
		if s.owes != 1 {
			h.Errorf("%d debts by themselves", s.owes)
		}
		h.is(claim(cache.Retries), cache.Replay, cache.ByDebt)
		h.is(claim(cache.Retries), cache.Replay, cache.ByDebt)
		next := h.is(claim(cache.Retries), cache.Lead, "")
		next.Reader.Leave()
		h.settle(next)
	})
}

// Readers on other nodes have the end from the store, so that is told at once.
func TestAFollowedCallSettlesAtItsEnd(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		h.Wanted(lead.Hold())
		synctest.Wait()
		s := &slowSettle{Store: h.Store, begun: time.Now(), asked: make(chan time.Duration, 1)}
		h.Store = s
		h.settle(lead, frame("x"))
		if at := <-s.asked; at != 0 || time.Since(s.begun) != slow {
			h.Errorf("settled after %v", at)
		}
	})
}

// On another node the store hears of an end a moment after its readers. Who
// asks there in between follows nothing, and asks anew; who asked before does
// follow.
func TestWhoAsksElsewhereAfterTheEnd(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		s := &slowSettle{Store: a.Store, begun: time.Now(), asked: make(chan time.Duration, 1)}
		a.Store = s
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		time.Sleep(time.Second)
		before := opened(t, b, claim(cache.Duplicates), cache.Follow)
		time.Sleep(time.Second)
		done := make(chan struct{})
		go func() {
			lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
			close(done)
		}()
		synctest.Wait()
		after := opened(t, b, claim(cache.Duplicates), cache.Follow)
		retry := opened(t, b, marked(), cache.Follow)
		lead.Reader.Leave()
		<-done
		for name, e := range map[string]*cache.Entry{"before": before, "after": after, "a retry": retry} {
			if got := read(e); got != "x" || e.Late() != (e == after) {
				t.Errorf("%s: %q, late %v", name, got, e.Late())
			}
		}
		again := opened(t, b, claim(cache.Duplicates), cache.Lead)
		again.Reader.Leave()
		again.Settle(cache.Result{State: cache.Released}, 0, false)
	})
}

// The first that asks there is judged by when the store granted its claim.
func TestWhoAsksElsewhereFirst(t *testing.T) {
	for _, wait := range []time.Duration{-time.Second, 0, 10 * time.Millisecond} {
		twoNodes(t, func(t *testing.T, a, b *cache.Records) {
			s := &slowSettle{Store: a.Store, begun: time.Now(), asked: make(chan time.Duration, 1)}
			a.Store = s
			lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
			done := make(chan struct{})
			time.AfterFunc(2*time.Second, func() {
				lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
				close(done)
			})
			time.Sleep(2*time.Second + wait)
			synctest.Wait()
			e := opened(t, b, claim(cache.Duplicates), cache.Follow)
			<-done
			if got := read(e); got != "x" || e.Late() != (wait >= 0) {
				t.Errorf("asked %v after the end: %q, late %v", wait, got, e.Late())
			}
		})
	}
}
