package cache_test

import (
	"strings"
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
