package cache_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
	"oncegate/cache/local"
)

// twoNodes are two processes' worth of Records over one store.
func twoNodes(t *testing.T, f func(t *testing.T, a, b *cache.Records)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := local.Open(t.TempDir(), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		node := func() *cache.Records {
			return &cache.Records{Store: s, Lease: lease, Window: window, Debt: 2 * time.Minute,
				Oops: func(step string, err error) { t.Errorf("%s: %v", step, err) }}
		}
		f(t, node(), node())
	})
}

func opened(t *testing.T, r *cache.Records, c cache.Claim, role cache.Role) *cache.Entry {
	t.Helper()
	e, err := r.Open(t.Context(), c, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Role != role {
		t.Fatalf("role %d, want %d", e.Role, role)
	}
	return e
}

// sofar gives what a reader was shown until nothing more comes at once.
func sofar(e *cache.Entry) (text string, ended bool) {
	var b strings.Builder
	for {
		synctest.Wait()
		frames, _, over := e.Reader.Take(nil)
		for _, f := range frames {
			b.Write(f.Data)
		}
		if len(frames) == 0 || over {
			return b.String(), over
		}
	}
}

func TestAFollowerElsewhereGetsTheBeginningAndTheRestLive(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		lead.Log().Append(t.Context(), frame("one "))
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		second := opened(t, b, claim(cache.Duplicates), cache.Follow)
		if !follower.Away() || !second.Away() {
			t.Error("they do not know that the call is led elsewhere")
		}
		synctest.Wait()
		a.Wanted(lead.Hold()) // as an engine tells at once
		time.Sleep(25 * time.Millisecond)
		if got, _ := sofar(follower); got != "one " {
			t.Errorf("the beginning: %q", got)
		}
		lead.Log().Append(t.Context(), frame("two "))
		time.Sleep(25 * time.Millisecond)
		if got, _ := sofar(follower); got != "two " {
			t.Errorf("live: %q", got)
		}
		lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("three"))
		if got, ended := sofar(follower); got != "three" || !ended {
			t.Errorf("the end: %q %v", got, ended)
		}
		if got, ended := sofar(second); got != "one two three" || !ended {
			t.Errorf("another one: %q %v", got, ended)
		}
		if follower.Log().Lost() {
			t.Error("a whole answer counts as lost")
		}
	})
}

func TestWithoutANoticeTheRenewalTells(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		lead.Log().Append(t.Context(), frame("one "))
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		time.Sleep(lease/3 + 50*time.Millisecond)
		if got, _ := sofar(follower); got != "one " {
			t.Errorf("after a renewal: %q", got)
		}
		lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("two"))
		if got, ended := sofar(follower); got != "two" || !ended {
			t.Errorf("the end: %q %v", got, ended)
		}
	})
}

// A leader that died: its followers elsewhere are told, and the next claim
// leads.
func TestALostLeaderIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := local.Open(t.TempDir(), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		dead, err := s.Claim(t.Context(), claim(cache.Duplicates)) // and never renews
		if err != nil {
			t.Fatal(err)
		}
		b := &cache.Records{Store: s, Lease: lease, Window: window, Debt: 2 * time.Minute}
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		second := opened(t, b, claim(cache.Duplicates), cache.Follow)
		start := time.Now()
		<-follower.Log().Done()
		if took := time.Since(start); took > lease+time.Second {
			t.Errorf("it took %v to notice", took)
		}
		if !follower.Log().Lost() || !second.Log().Lost() {
			t.Error("the copy did not end as lost")
		}
		again := opened(t, b, claim(cache.Duplicates), cache.Lead)
		if !again.Lapsed || again.Fence <= dead.Fence {
			t.Errorf("taken over as %+v", again.Grant)
		}
		other := opened(t, b, claim(cache.Duplicates), cache.Follow)
		if other.Away() {
			t.Error("the new leader is here")
		}
		if err := s.Settle(t.Context(), cache.Hold{Key: cache.Key{1}, Fence: dead.Fence}, cache.Settlement{
			Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Completed, Frames: []cache.Frame{frame("late")}}, Keep: keep}); err == nil {
			t.Error("the dead leader settled after all")
		}
		again.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
		if got, _ := sofar(other); got != "x" {
			t.Errorf("%q", got)
		}
	})
}

func TestACopyThatNobodyReadsIsLetGo(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		follower.Reader.Leave()
		synctest.Wait()
		<-follower.Log().Done()
		again := opened(t, b, claim(cache.Duplicates), cache.Follow)
		lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
		if got, ended := sofar(again); got != "x" || !ended {
			t.Errorf("%q %v", got, ended)
		}
	})
}

// A log that nobody elsewhere reads any more is no longer published, so that it
// counts as left by all; whoever comes back gets it from its beginning.
func TestALogThatNobodyElsewhereReadsIsLeft(t *testing.T) {
	for name, leaderLast := range map[string]bool{"leader's client last": true, "follower last": false} {
		t.Run(name, func(t *testing.T) {
			twoNodes(t, func(t *testing.T, a, b *cache.Records) {
				lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
				idle := make(chan time.Time, 8)
				lead.Log().OnIdle(func() { idle <- time.Now() })
				lead.Log().Append(t.Context(), frame("one "))
				follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
				synctest.Wait()
				a.Wanted(lead.Hold())
				first, last := lead, follower
				if leaderLast {
					first, last = follower, lead
				}
				first.Reader.Leave()
				for range 40 {
					time.Sleep(lease / 10)
					lead.Log().Append(t.Context(), frame("."))
				}
				if len(idle) > 0 {
					t.Fatal("it counts as left though one reads")
				}
				last.Reader.Leave()
				left := time.Now()
				if d := (<-idle).Sub(left); d > 5*time.Second {
					t.Errorf("it counts as left after %v", d)
				}
				time.Sleep(2 * lease)
				again := opened(t, b, claim(cache.Duplicates), cache.Follow)
				time.Sleep(lease/3 + 50*time.Millisecond) // this engine tells by a renewal
				if got, _ := sofar(again); got != "one "+strings.Repeat(".", 40) {
					t.Errorf("who comes back gets %q", got)
				}
				if len(idle) > 0 {
					t.Error("it counted as left meanwhile")
				}
				lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("end"))
				if got, ended := sofar(again); got != "end" || !ended || again.Log().Lost() {
					t.Errorf("the end: %q %v", got, ended)
				}
			})
		})
	}
}

// A reader elsewhere that takes nothing for long holds the copy up, and reads
// all the same.
func TestASlowReaderElsewhereIsHeard(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		lead.Log().OnIdle(func() { t.Error("it counts as left though one reads") })
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		synctest.Wait()
		a.Wanted(lead.Hold())
		lead.Reader.Leave()
		big := strings.Repeat("x", window/2-100)
		go func() {
			for range 6 {
				lead.Log().Append(t.Context(), frame(big))
			}
		}()
		time.Sleep(time.Minute)
		var all string
		for len(all) < 6*len(big) {
			got, ended := sofar(follower)
			if all += got; ended {
				t.Fatal("the copy ended")
			}
			time.Sleep(50 * time.Millisecond)
		}
		if all != strings.Repeat(big, 6) {
			t.Errorf("%d bytes of another text", len(all))
		}
		lead.Log().OnIdle(func() {})
		lead.Settle(cache.Result{State: cache.Released}, 0, false)
		<-follower.Log().Done()
	})
}

// unread is a store that says what it is told to of who reads elsewhere.
type unread struct {
	cache.Store
	says atomic.Pointer[func() (bool, error)]
}

func (s *unread) Ask(context.Context, cache.Hold) (bool, error) { return (*s.says.Load())() }

// Who is announced while the store is asked came after the answer; and while
// the store is away nobody who reads can say so, nor for a moment afterwards.
func TestAnAnswerThatNobodyReadsMayBeOld(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, _ *cache.Records) {
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		idle := make(chan struct{}, 8)
		lead.Log().OnIdle(func() { idle <- struct{}{} })
		store := &unread{Store: a.Store}
		a.Store, a.Oops = store, nil
		says := func(f func() (bool, error)) { store.says.Store(&f) }
		is := func(when string, left int) {
			t.Helper()
			time.Sleep(5 * time.Second)
			if len(idle) != left {
				t.Errorf("%s: it counted as left %d times", when, len(idle))
			}
		}
		a.Wanted(lead.Hold())
		says(func() (bool, error) { a.Wanted(lead.Hold()); return false, nil })
		lead.Reader.Leave()
		is("announced while it was asked", 0)
		says(func() (bool, error) { return false, cache.ErrAway })
		is("away", 0)
		says(func() (bool, error) { return false, nil })
		is("just back", 0)
		is("back for long", 1)
		a.Wanted(lead.Hold())
		is("announced, and nobody came", 2)
		lead.Settle(cache.Result{State: cache.Released}, 0, false)
	})
}

// An answer owed on one node is taken on another, once.
func TestADebtIsTakenOnAnotherNode(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		lead := opened(t, a, claim(cache.Retries), cache.Lead)
		lead.Owe()
		lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
		if e := opened(t, b, claim(cache.Retries), cache.Replay); e.Share != cache.ByDebt {
			t.Errorf("shared as %s", e.Share)
		}
		opened(t, a, claim(cache.Retries), cache.Lead).Settle(cache.Result{State: cache.Released}, 0, false)
	})
}

// A failure goes to followers on all nodes, though it is not kept.
func TestAFailureIsReadElsewhere(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		synctest.Wait()
		a.Wanted(lead.Hold())
		time.Sleep(25 * time.Millisecond)
		lead.Settle(cache.Result{State: cache.Released}, 0, false, frame("400"))
		if got, ended := sofar(follower); got != "400" || !ended || follower.Log().Lost() {
			t.Errorf("%q %v", got, ended)
		}
	})
}

// What a client left open of a call that has grown too large meanwhile: who asks
// next for it is told by the store to follow, and finds nothing to join.
func TestADebtOfACallThatGrewTooLarge(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, _ *cache.Records) {
		a.Shared = true
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		left := opened(t, a, claim(cache.Duplicates), cache.Follow)
		lead.Log().Append(t.Context(), frame(strings.Repeat("x", window+1)))
		left.Reader.Leave()
		left.Owe()
		for range 2 { // the first takes the debt
			opened(t, a, claim(cache.Duplicates), cache.Twin)
		}
		lead.Reader.Leave()
		lead.Settle(cache.Result{State: cache.Released}, 0, false)
	})
}

// So does an answer that is not kept, though its leader was not told in time that
// somebody reads it: the notice was lost, and no renewal was due yet.
func TestAnAnswerThatIsNotKeptIsReadElsewhere(t *testing.T) {
	twoNodes(t, func(t *testing.T, a, b *cache.Records) {
		lead := opened(t, a, claim(cache.Duplicates), cache.Lead)
		lead.Log().Append(t.Context(), frame("one "))
		follower := opened(t, b, claim(cache.Duplicates), cache.Follow)
		synctest.Wait()
		lead.Settle(cache.Result{State: cache.Completed}, 0, false, frame("two"))
		if got, ended := sofar(follower); got != "one two" || !ended || follower.Log().Lost() {
			t.Errorf("%q %v, lost: %v", got, ended, follower.Log().Lost())
		}
		opened(t, b, claim(cache.Duplicates), cache.Lead).Settle(cache.Result{State: cache.Released}, 0, false)
	})
}
