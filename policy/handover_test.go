package policy

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// room is those who wait for an answer, as a record's log tells of them: when
// the last one leaves what Gone gave is closed, and who joins after that is
// told of by another one.
type room struct {
	mu   sync.Mutex
	n    int
	gone chan struct{}
}

func occupied() *room { return &room{n: 1, gone: make(chan struct{})} }

// handOver has one join as the last one leaves: before anybody can look.
func (r *room) handOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.gone)
	r.gone = make(chan struct{})
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n = 0
	close(r.gone)
}

func (r *room) Left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.n) * time.Minute
}

func (r *room) Gone() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

// after has f called at these times from now on.
func after(f func(), times ...time.Duration) {
	for _, d := range times {
		time.AfterFunc(d, f)
	}
}

// Somebody who joins as the last one leaves, while the call waits for its next
// attempt, keeps it going: it is neither given up nor hurried.
func TestHandoverDuringABackoff(t *testing.T) {
	for name, times := range map[string][]time.Duration{
		"never": nil, "once": {10 * time.Millisecond}, "often": {1, 2, 3, 50 * time.Millisecond, 100 * time.Millisecond, 600 * time.Millisecond},
	} {
		for _, c := range []struct {
			script []answer
			waits  []time.Duration
			reason Reason
		}{
			{[]answer{says(503), says(503), fine}, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}, ""},
			{[]answer{says(503)}, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}, AttemptsExhausted},
			{[]answer{says(503, "Retry-After", "2"), fine}, []time.Duration{2*time.Second + spread(2*time.Second, 0.5)}, ""},
		} {
			t.Run(fmt.Sprint(name, len(c.script), c.reason), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					readers, u := occupied(), scripted(map[string][]answer{"a": c.script})
					after(readers.handOver, times...)
					res, _ := do(t, &Engine{Rand: dice["middle"]}, Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Readers: readers}, u)
					if res.Reason != c.reason || (res.Failure == nil) != (c.reason == "") || !slices.Equal(u.waits(), c.waits) {
						t.Errorf("%+v after waits of %v, want %q after %v", res, u.waits(), c.reason, c.waits)
					}
					time.Sleep(time.Second) // the hand-overs are over too
				})
			})
		}
	}
}

// The same while it waits for a hold to end before its first attempt: there is
// no success that nothing was tried for.
func TestHandoverDuringAHoldWait(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			a, u := target("a", 1), scripted(map[string][]answer{"a": {fine}})
			free := time.Now().Add(3 * time.Second)
			a.hold(0).put(free, free, 429)
			readers := occupied()
			after(readers.handOver, 3*time.Millisecond, time.Second, 2*time.Second)
			res, went := do(t, e, Call{Kind: Completion, Targets: []*Target{a}, Readers: readers}, u)
			if len(went) != 1 || res.Failure != nil || res.Reason != "" || u.attempts[0].at.Before(free) {
				t.Errorf("%+v went %v, %v before it was free", res, went, time.Until(free))
			}
		})
	})
}

// One who joined and leaves again ends it all the same, at once.
func TestTheLastOfAHandoverLeaves(t *testing.T) {
	for name, prepare := range map[string]func(*Target) []answer{
		"backoff": func(*Target) []answer { return []answer{says(503, "Retry-After", "3"), fine} },
		"hold": func(a *Target) []answer {
			free := time.Now().Add(3 * time.Second)
			a.hold(0).put(free, free, 429)
			return []answer{fine}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, readers, begun := target("a", 1), occupied(), time.Now()
				u := scripted(map[string][]answer{"a": prepare(a)})
				after(readers.handOver, 100*time.Millisecond)
				after(readers.leave, 200*time.Millisecond)
				res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a}, Readers: readers}, u)
				if d := time.Since(begun); res.Reason != ClientGone || d != 200*time.Millisecond {
					t.Errorf("%+v after %v", res, d)
				}
				if res.Memo != 0 {
					t.Errorf("what nobody waited for answers others for %v", res.Memo)
				}
			})
		})
	}
}

// A hand-over in an earlier Do, and the attempts that were made in it, count
// into the attempts that there are for the record.
func TestHandoverAfterAttemptsMadeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readers, u := occupied(), scripted(map[string][]answer{"a": {says(503)}})
		after(readers.handOver, 10*time.Millisecond)
		call := Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Readers: readers, Made: 3}
		res := (&Engine{Rand: dice["middle"]}).Do(t.Context(), call, u.try)
		if len(u.attempts) != 2 || u.attempts[1].N != 5 || res.Attempts != 5 || res.Reason != AttemptsExhausted {
			t.Errorf("%+v after %d attempts of its own, want 2 of 5", res, len(u.attempts))
		}
	})
}

// What came to nothing for want of time makes no memo, whoever was short of
// it: the client, or the record itself.
func TestNoMemoForWantOfTime(t *testing.T) {
	slow := says(503)
	slow.takes = time.Second
	for name, c := range map[string]struct {
		says   answer
		reason Reason
	}{
		"deadline":         {slow, Deadline},
		"reset":            {answer{phase: Sent, takes: time.Second}, Deadline},
		"told to wait":     {says(503, "Retry-After", "3"), RetryAfterExceedsDeadline},
		"told to throttle": {says(429, "Retry-After", "3"), RetryAfterExceedsDeadline},
	} {
		for who, call := range map[string]func(Call) Call{
			"client": func(c Call) Call { c.Readers = patient(1500 * time.Millisecond); return c },
			"record": func(c Call) Call { c.Deadline = time.Now().Add(1500 * time.Millisecond); return c },
		} {
			t.Run(name+" of the "+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					u := scripted(map[string][]answer{"a": {c.says, fine}})
					res, went := do(t, new(Engine), call(Call{Kind: Completion, Targets: []*Target{target("a", 1)}}), u)
					if len(went) != 1 || res.Reason != c.reason || res.Memo != 0 {
						t.Errorf("%+v after %v, want %q without a memo", res, went, c.reason)
					}
				})
			})
		}
	}
}

// A 401 is about the key: it is left alone wherever it would be used. A 403
// may be about one model: it closes the key for this target only.
func TestWhereARefusedCredentialIsHeld(t *testing.T) {
	for _, c := range []struct {
		status int
		others bool // the provider's other targets are held too
	}{{401, true}, {403, false}} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := target("a", 1), target("b", 0)
				b.Credentials = a.Credentials
				u := scripted(map[string][]answer{"a": {says(c.status)}, "b": {fine}})
				e := new(Engine)
				if res, _ := do(t, e, Call{Targets: []*Target{a}}, u); res.Reason != UpstreamCredential {
					t.Errorf("the first: %+v", res)
				}
				if res, went := do(t, e, Call{Targets: []*Target{a}}, u); res.Reason != TargetHeld || len(went) != 0 {
					t.Errorf("the same again: %+v went %v", res, went)
				}
				if res, went := do(t, e, Call{Targets: []*Target{b}}, u); (res.Reason == TargetHeld) != c.others || (len(went) == 0) != c.others {
					t.Errorf("another target: %+v went %v", res, went)
				}
			})
		})
		t.Run(fmt.Sprint(c.status, " of one of two keys"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := target("a", 2), target("b", 0)
				b.Credentials = a.Credentials
				u := scripted(map[string][]answer{"a/0": {says(c.status)}, "a/1": {fine}, "b": {fine}})
				e := new(Engine)
				for _, want := range [][]string{{"a0", "a1"}, {"a1"}} {
					if res, went := do(t, e, Call{Targets: []*Target{a}}, u); res.Failure != nil || !slices.Equal(went, want) {
						t.Errorf("%+v went %v, want %v", res, went, want)
					}
				}
				want := "b0"
				if c.others {
					want = "b1"
				}
				if _, went := do(t, e, Call{Targets: []*Target{b}}, u); !slices.Equal(went, []string{want}) {
					t.Errorf("another target went %v, want %v", went, want)
				}
			})
		})
	}
}
