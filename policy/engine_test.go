package policy

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// do runs one call over an upstream script and gives where its attempts went:
// "a0" is target a with its first credential.
func do(t *testing.T, e *Engine, c Call, u *upstream) (Result, []string) {
	t.Helper()
	made := len(u.attempts)
	res := e.Do(t.Context(), c, u.try)
	var went []string
	for i, a := range u.attempts[made:] {
		went = append(went, a.Target.Name+string(rune('0'+a.Credential)))
		if a.N != i+1 || c.Targets[a.Index] != a.Target {
			t.Errorf("attempt %d is told as %+v", i+1, a.Attempt)
		}
	}
	if res.Attempts != len(went) {
		t.Errorf("%d attempts told, %d made", res.Attempts, len(went))
	}
	return res, went
}

func TestCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		script map[string][]answer
		went   []string // by the first call
		next   []string // by the second, at once
		reason Reason
		status int
	}{
		"429 rotates": {
			script: map[string][]answer{"a/0": {says(429)}, "a/1": {fine}},
			went:   []string{"a0", "a1"}, next: []string{"a1"},
		},
		"429 with a time rotates": {
			script: map[string][]answer{"a/0": {says(429, "Retry-After", "30")}, "a/1": {fine}},
			went:   []string{"a0", "a1"}, next: []string{"a1"},
		},
		"401 rotates": {
			script: map[string][]answer{"a/0": {says(401)}, "a/1": {fine}},
			went:   []string{"a0", "a1"}, next: []string{"a1"},
		},
		"a spent quota rotates": {
			script: map[string][]answer{"a/0": {says(429).with(spentBody)}, "a/1": {fine}},
			went:   []string{"a0", "a1"}, next: []string{"a1"},
		},
		"the last 401 is passed on": {
			script: map[string][]answer{"a/0": {says(403)}, "a/1": {says(401)}},
			went:   []string{"a0", "a1"}, reason: UpstreamCredential, status: 401,
		},
		"500 does not rotate": {
			script: map[string][]answer{"a/0": {says(500), fine}, "a/1": {says(400)}},
			went:   []string{"a0", "a0"}, next: []string{"a0"},
		},
		"529 does not rotate": {
			script: map[string][]answer{"a/0": {says(529), fine}, "a/1": {says(400)}},
			went:   []string{"a0", "a0"}, next: []string{"a0"},
		},
		"all throttled: a wait, then the first again": {
			script: map[string][]answer{"a/0": {says(429), fine}, "a/1": {says(429)}},
			went:   []string{"a0", "a1", "a0"}, next: []string{"a0"},
		},
		"all throttled: the one that is free first": {
			script: map[string][]answer{"a/0": {says(429, "Retry-After", "2"), fine}, "a/1": {says(429, "Retry-After", "50")}},
			went:   []string{"a0", "a1", "a0"}, next: []string{"a0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachDice(t, func(t *testing.T, e *Engine) {
				synctest.Test(t, func(t *testing.T) {
					u := scripted(c.script)
					call := Call{Kind: Completion, Targets: []*Target{target("a", 2)}, Readers: patient(time.Minute)}
					res, went := do(t, e, call, u)
					if !slices.Equal(went, c.went) || res.Reason != c.reason || c.status != 0 && res.Failure.Status != c.status {
						t.Errorf("%+v went %v, want %v", res, went, c.went)
					}
					if len(c.went) == 2 && c.script["a/0"][0].status != 500 && c.script["a/0"][0].status != 529 && u.waits()[0] != 0 {
						t.Errorf("another credential was tried after %v, not at once", u.waits()[0])
					}
					res, went = do(t, e, call, u)
					if !slices.Equal(went, c.next) {
						t.Errorf("the next call: %+v went %v, want %v", res, went, c.next)
					}
				})
			})
		})
	}
}

// A refused credential is on hold for all targets of its provider, a
// throttled one only for the target that said so.
func TestCredentialIsSharedByTargets(t *testing.T) {
	for name, c := range map[string]struct {
		says answer
		held bool
	}{
		"401":        {says(401), true},
		"quota":      {says(429).with(spentBody), true},
		"rate limit": {says(429, "Retry-After", "100"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := target("a", 1), target("b", 0)
				b.Credentials = a.Credentials
				u := scripted(map[string][]answer{"a": {c.says}, "b": {fine}})
				do(t, new(Engine), Call{Targets: []*Target{a}}, u)
				res, _ := do(t, new(Engine), Call{Targets: []*Target{b}}, u)
				if held := res.Reason == TargetHeld; held != c.held {
					t.Errorf("%+v", res)
				}
				if !c.held {
					return
				}
				time.Sleep(credentialHold)
				if res, _ := do(t, new(Engine), Call{Targets: []*Target{b}}, u); res.Failure != nil || res.Attempts != 1 {
					t.Errorf("after the hold: %+v", res)
				}
			})
		})
	}
}

func TestFallback(t *testing.T) {
	for name, c := range map[string]struct {
		script  map[string][]answer
		went    []string
		atOnce  bool // the last attempt follows at once
		status  int  // of the failure
		reason  Reason
		targets []*Target
	}{
		"one more try, then the next":     {script: map[string][]answer{"a": {says(500)}, "b": {fine}}, went: []string{"a0", "a0", "b0"}, atOnce: true},
		"the one more try succeeds":       {script: map[string][]answer{"a": {says(500), fine}, "b": {says(400)}}, went: []string{"a0", "a0"}},
		"refused dial":                    {script: map[string][]answer{"a": {refusedDial}, "b": {fine}}, went: []string{"a0", "a0", "b0"}, atOnce: true},
		"a lost answer":                   {script: map[string][]answer{"a": {reset1}, "b": {fine}}, went: []string{"a0", "a0", "b0"}, atOnce: true},
		"short Retry-After":               {script: map[string][]answer{"a": {says(503, "Retry-After", "5"), fine}, "b": {says(400)}}, went: []string{"a0", "a0"}},
		"long Retry-After":                {script: map[string][]answer{"a": {says(503, "Retry-After", "5.1")}, "b": {fine}}, went: []string{"a0", "b0"}, atOnce: true},
		"spent quota":                     {script: map[string][]answer{"a": {says(429).with(spentBody)}, "b": {fine}}, went: []string{"a0", "b0"}, atOnce: true},
		"refused credential":              {script: map[string][]answer{"a": {says(401)}, "b": {fine}}, went: []string{"a0", "b0"}, atOnce: true},
		"told not to retry":               {script: map[string][]answer{"a": {says(500, "X-Should-Retry", "false")}, "b": {fine}}, went: []string{"a0", "b0"}, atOnce: true},
		"a client's mistake":              {script: map[string][]answer{"a": {says(400)}, "b": {fine}}, went: []string{"a0"}, status: 400},
		"five in all":                     {script: map[string][]answer{"a": {says(500)}, "b": {says(500)}, "c": {says(502)}}, targets: []*Target{target("a", 1), target("b", 1), target("c", 1)}, went: []string{"a0", "a0", "b0", "b0", "c0"}, atOnce: true, status: 502, reason: AttemptsExhausted},
		"three on the last":               {script: map[string][]answer{"a": {says(529)}, "b": {says(500)}}, went: []string{"a0", "b0", "b0", "b0"}, status: 500, reason: AttemptsExhausted},
		"a status beats a refused dial":   {script: map[string][]answer{"a": {says(503)}, "b": {refusedDial}}, went: []string{"a0", "a0", "b0", "b0", "b0"}, status: 503, reason: AttemptsExhausted},
		"a status beats a dead key":       {script: map[string][]answer{"a": {says(529)}, "b": {says(401)}}, went: []string{"a0", "b0"}, atOnce: true, status: 529, reason: AttemptsExhausted},
		"a spent quota beats a dead dial": {script: map[string][]answer{"a": {says(429).with(spentBody)}, "b": {refusedDial}}, went: []string{"a0", "b0", "b0", "b0"}, status: 429, reason: QuotaSpent},
	} {
		t.Run(name, func(t *testing.T) {
			eachDice(t, func(t *testing.T, e *Engine) {
				synctest.Test(t, func(t *testing.T) {
					u := scripted(c.script)
					// Fresh ones for each roll: holds stay.
					targets := []*Target{target("a", 1), target("b", 1)}
					if c.targets != nil {
						targets = []*Target{target("a", 1), target("b", 1), target("c", 1)}
					}
					res, went := do(t, e, Call{Kind: Completion, Targets: targets, Readers: patient(time.Minute)}, u)
					status := 0
					if res.Failure != nil {
						status = res.Failure.Status
					}
					if !slices.Equal(went, c.went) || status != c.status || res.Reason != c.reason || res.ShouldRetry {
						t.Errorf("%+v (%d) went %v, want %v", res, status, went, c.went)
					}
					if waits := u.waits(); c.atOnce && waits[len(waits)-1] != 0 {
						t.Errorf("the fallback was tried after %v, not at once", waits[len(waits)-1])
					}
				})
			})
		})
	}
}

func TestHeldTargetFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := target("a", 1), target("b", 1)
		u := scripted(map[string][]answer{"a": {says(503, "Retry-After", "100"), fine}, "b": {fine}})
		call := Call{Kind: Completion, Targets: []*Target{a, b}}
		for i, want := range [][]string{{"a0", "b0"}, {"b0"}} {
			if res, went := do(t, new(Engine), call, u); !slices.Equal(went, want) || res.Failure != nil {
				t.Errorf("call %d: %+v went %v", i+1, res, went)
			}
		}
		time.Sleep(100 * time.Second)
		if _, went := do(t, new(Engine), call, u); !slices.Equal(went, []string{"a0"}) {
			t.Errorf("after the hold the call went %v", went)
		}
	})
}

// A call to a target on hold waits for its end if that is near, and is
// answered at once otherwise.
func TestHeldTargetAlone(t *testing.T) {
	for name, c := range map[string]struct {
		says   answer
		later  time.Duration // the second call comes so long after the first
		waits  time.Duration // the client does
		status int           // what it gets: 0 for success
		should bool
		after  time.Duration // at least
	}{
		"near":                    {says: says(429, "Retry-After", "65"), later: 56 * time.Second, waits: time.Minute},
		"far":                     {says: says(429, "Retry-After", "65"), later: 10 * time.Second, waits: time.Minute, status: 429, should: true, after: 55 * time.Second},
		"farther":                 {says: says(429, "Retry-After", "65"), later: time.Second, waits: time.Minute, status: 429, after: 64 * time.Second},
		"59 s":                    {says: says(503, "Retry-After", "65"), later: 6 * time.Second, waits: time.Minute, status: 503, should: true, after: 59 * time.Second},
		"impatient":               {says: says(503, "Retry-After", "65"), later: 56 * time.Second, waits: 5 * time.Second, status: 503, should: true, after: 9 * time.Second},
		"overloaded":              {says: says(529, "Retry-After", "80"), later: 0, waits: time.Minute, status: 503, after: 80 * time.Second},
		"too near the deadline":   {says: says(503, "Retry-After", "65"), later: 62 * time.Second, waits: 3500 * time.Millisecond, status: 503, should: true, after: 3 * time.Second},
		"longer than a hold may":  {says: says(503, "Retry-After", "7200"), later: 14 * time.Minute, waits: time.Minute, status: 503, after: 7200*time.Second - 14*time.Minute},
		"after the longest hold":  {says: says(503, "Retry-After", "7200"), later: 15 * time.Minute, waits: time.Minute},
		"after a refused one":     {says: says(401), later: time.Minute, waits: time.Minute, status: 503, after: 4 * time.Minute},
		"the end of a refused":    {says: says(401), later: 4*time.Minute + 55*time.Second, waits: time.Minute},
		"soon after a spent one":  {says: says(402), later: 4*time.Minute + 45*time.Second, waits: time.Minute, status: 429, should: true, after: 15 * time.Second},
		"long before a spent one": {says: says(402), waits: time.Minute, status: 429, after: 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			eachDice(t, func(t *testing.T, e *Engine) {
				synctest.Test(t, func(t *testing.T) {
					a := target("a", 1)
					u := scripted(map[string][]answer{"a": {c.says, fine}})
					if res, _ := do(t, e, Call{Targets: []*Target{a}}, u); res.Failure == nil {
						t.Fatalf("the first call: %+v", res)
					}
					told := time.Now().Add(c.says.failure(time.Now()).told())
					time.Sleep(c.later)
					start := time.Now()
					res, went := do(t, e, Call{Targets: []*Target{a}, Readers: patient(c.waits)}, u)
					if c.status == 0 {
						if res != (Result{Attempts: 1}) {
							t.Errorf("%+v", res)
						}
						if at := u.attempts[1].at; at.Before(told) && told.Sub(start) < time.Minute {
							t.Errorf("the call went %v early", told.Sub(at))
						}
						return
					}
					if len(went) != 0 || res.Failure != nil || res.Reason != TargetHeld || res.Status != c.status || res.ShouldRetry != c.should || res.Memo != 0 {
						t.Errorf("%+v", res)
					}
					// Near ones are spread over 1 to 7 s, never shorter than known.
					if res.RetryAfter < c.after || res.RetryAfter > max(c.after, 7*time.Second) {
						t.Errorf("come back after %v, known are %v", res.RetryAfter, c.after)
					}
					if time.Since(start) != 0 {
						t.Errorf("the refusal took %v", time.Since(start))
					}
				})
			})
		})
	}
}

// After a hold one call goes first; the others follow once it came out well,
// or has been under way longer than a refusal takes.
func TestOneProbeAfterHold(t *testing.T) {
	for name, c := range map[string]struct {
		probe  answer
		others time.Duration // after the probe was sent, those that arrive meanwhile go no earlier
	}{
		"quick": {answer{status: 200, takes: 100 * time.Millisecond}, 100 * time.Millisecond},
		"slow":  {answer{status: 200, takes: time.Minute}, probeLead},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := target("a", 1)
				do(t, new(Engine), Call{Targets: []*Target{a}}, scripted(map[string][]answer{"a": {says(503, "Retry-After", "61")}}))
				time.Sleep(61 * time.Second)
				start := time.Now()
				went := make(chan time.Duration, 50)
				for range cap(went) {
					go new(Engine).Do(t.Context(), Call{Targets: []*Target{a}, Readers: patient(time.Minute)}, func(ctx context.Context, a Attempt) *Failure {
						went <- time.Since(start)
						time.Sleep(c.probe.takes)
						return nil
					})
				}
				synctest.Wait()
				if len(went) != 1 {
					t.Fatalf("%d calls went at the end of the hold", len(went))
				}
				<-went
				for range cap(went) - 1 {
					if at := <-went; at < c.others {
						t.Errorf("a call went %v after the probe", at)
					}
				}
				if time.Since(start) > 2*time.Second {
					t.Errorf("the last call went %v after the hold's end", time.Since(start))
				}
				time.Sleep(2 * time.Minute)
			})
		})
	}
}

// A probe that is told a new time holds all others anew; one that is
// cancelled leaves its place to the next.
func TestProbeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		call := Call{Targets: []*Target{a}}
		u := scripted(map[string][]answer{"a": {says(503, "Retry-After", "61"), says(503, "Retry-After", "90"), fine}})
		do(t, new(Engine), call, u)
		time.Sleep(61 * time.Second)
		do(t, new(Engine), call, u)
		if res, went := do(t, new(Engine), call, u); res.Reason != TargetHeld || len(went) != 0 {
			t.Errorf("after the probe was refused: %+v", res)
		}
		time.Sleep(90 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		new(Engine).Do(ctx, call, func(context.Context, Attempt) *Failure {
			cancel()
			return &Failure{Phase: Sent, Cancelled: true}
		})
		var p pass
		if is := a.admit(time.Now(), "", 0, original, nil, &p, new(news)); is.wait > 0 || p.hold[1] == nil {
			t.Error("the next call is not the probe")
		}
	})
}

// A hold that another call is told about meanwhile is waited for too.
func TestHoldDuringOwnWait(t *testing.T) {
	for name, c := range map[string]struct {
		told     time.Duration
		attempts int
		reason   Reason
		after    time.Duration
	}{
		"short": {20 * time.Second, 2, "", 0},
		"long":  {100 * time.Second, 1, RetryAfterExceedsCap, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := target("a", 1)
				u := scripted(map[string][]answer{"a": {says(503, "Retry-After", "2"), fine}})
				start := time.Now()
				go func() {
					time.Sleep(time.Second)
					a.hold(0).put(start.Add(c.told), start.Add(c.told), 503)
				}()
				res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a}}, u)
				if res.Attempts != c.attempts || res.Reason != c.reason {
					t.Errorf("%+v", res)
				}
				if c.attempts == 2 && u.waits()[0] < c.told {
					t.Errorf("the retry went after %v", u.waits()[0])
				}
				if c.attempts == 1 && (res.RetryAfter < 97*time.Second || res.RetryAfter > 98*time.Second) {
					t.Errorf("come back after %v", res.RetryAfter)
				}
			})
		})
	}
}

func TestDeadlines(t *testing.T) {
	t.Run("every attempt times out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			u := scripted(map[string][]answer{"a": {hang}})
			res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{target("a", 1)}}, u)
			if res.Attempts != 2 || res.Reason != AttemptsExhausted || !res.Failure.Timeout || res.Memo != memoShort {
				t.Errorf("%+v", res)
			}
		})
	})
	t.Run("a refused dial", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			u := scripted(map[string][]answer{"a": {refusedDial}})
			res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{target("a", 1)}}, u)
			if res.Attempts != 3 || res.Reason != Unreachable || res.Memo != memoShort {
				t.Errorf("%+v", res)
			}
		})
	})
	t.Run("an impatient client gets the last real error in time", func(t *testing.T) {
		eachDice(t, func(t *testing.T, e *Engine) {
			synctest.Test(t, func(t *testing.T) {
				slow := says(503)
				slow.takes = time.Second
				u := scripted(map[string][]answer{"a": {slow}})
				start := time.Now()
				res, _ := do(t, e, Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Readers: patient(3 * time.Second)}, u)
				if time.Since(start) > 3*time.Second || res.Failure == nil || res.Failure.Status != 503 {
					t.Errorf("%+v after %v", res, time.Since(start))
				}
				for _, a := range u.attempts[1:] {
					if left := start.Add(3 * time.Second).Sub(a.at); left < time.Second {
						t.Errorf("a retry began with %v left", left)
					}
				}
			})
		})
	})
	t.Run("the record's deadline keeps the last real error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			u := scripted(map[string][]answer{"a": {says(500), {phase: Sent, takes: time.Hour}}})
			res := new(Engine).Do(ctx, Call{Kind: Completion, Targets: []*Target{target("a", 1)}}, u.try)
			if res.Reason != Deadline || res.Attempts != 2 || res.Failure.Status != 500 || res.ShouldRetry || res.Memo != 0 {
				t.Errorf("%+v", res)
			}
		})
	})
	t.Run("a deadline told by a cancelled context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for name, leaves := range map[string]bool{"with a reader": false, "without": true} {
				ctx, cancel := context.WithCancel(t.Context())
				w := patient(time.Minute)
				u := scripted(map[string][]answer{"a": {{phase: Sent, takes: time.Hour}}})
				time.AfterFunc(10*time.Second, func() {
					if leaves {
						close(w.gone)
					}
					cancel()
				})
				call := Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Readers: w, Deadline: time.Now().Add(10 * time.Second)}
				if res := new(Engine).Do(ctx, call, u.try); res.Reason != Deadline || res.Attempts != 1 || !res.Failure.Cancelled || res.Memo != 0 {
					t.Errorf("%s: %+v", name, res)
				}
			}
		})
	})
	t.Run("an ended context makes no attempt", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		res := new(Engine).Do(ctx, Call{Targets: []*Target{target("a", 1)}}, func(context.Context, Attempt) *Failure {
			t.Error("an attempt was made")
			return nil
		})
		if res != (Result{Reason: Deadline}) {
			t.Errorf("%+v", res)
		}
	})
	t.Run("the client leaves during the attempt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := patient(time.Minute)
			u := scripted(map[string][]answer{"a": {{status: 503, takes: 5 * time.Second}}})
			go func() {
				time.Sleep(time.Second)
				close(w.gone)
			}()
			res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{target("a", 1), target("b", 1)}, Readers: w}, u)
			if res.Reason != ClientGone || res.Attempts != 1 || res.Memo != 0 {
				t.Errorf("%+v", res)
			}
		})
	})
	t.Run("the patient reader leaves during the wait, an impatient one stays", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := patient(time.Minute)
			u := scripted(map[string][]answer{"a": {says(503, "Retry-After", "20")}})
			go func() {
				time.Sleep(10 * time.Second)
				w.patience(5 * time.Second)
			}()
			res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Readers: w}, u)
			if res.Reason != Deadline || res.Attempts != 1 || res.Failure.Status != 503 || res.Memo != 0 {
				t.Errorf("%+v", res)
			}
		})
	})
	t.Run("content was sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			u := scripted(map[string][]answer{"a": {{status: 200, commits: true}}})
			res, _ := do(t, new(Engine), Call{Kind: Read, Targets: []*Target{target("a", 1), target("b", 1)}}, u)
			if res.Reason != StreamBroken || res.Attempts != 1 || res.Memo != 0 || res.ShouldRetry {
				t.Errorf("%+v", res)
			}
		})
	})
}

// Attempts that an earlier Do made for the record count: into what is told,
// and into the five that there are in all.
func TestAttemptsMadeBefore(t *testing.T) {
	for _, c := range []struct {
		made   int
		script []answer
		now    int // attempts of this call
		status int
		reason Reason
	}{
		{made: 1, script: []answer{says(500), fine}, now: 2},
		{made: 2, script: []answer{says(500)}, now: 3, status: 500, reason: AttemptsExhausted},
		{made: 4, script: []answer{says(500), fine}, now: 1, status: 500, reason: AttemptsExhausted},
		{made: 4, script: []answer{fine}, now: 1},
		{made: 5, script: []answer{fine}, reason: AttemptsExhausted},
		{made: 6, script: []answer{fine}, reason: AttemptsExhausted},
	} {
		synctest.Test(t, func(t *testing.T) {
			u := scripted(map[string][]answer{"a": c.script})
			res := new(Engine).Do(t.Context(), Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Made: c.made}, u.try)
			status := 0
			if res.Failure != nil {
				status = res.Failure.Status
			}
			if len(u.attempts) != c.now || res.Attempts != c.made+c.now || res.Reason != c.reason || status != c.status || res.ShouldRetry {
				t.Errorf("%d made before: %+v after %d attempts, want %d", c.made, res, len(u.attempts), c.now)
			}
			for i, a := range u.attempts {
				if a.N != c.made+i+1 {
					t.Errorf("%d made before: attempt %d is told as %d", c.made, i+1, a.N)
				}
			}
		})
	}
}

// A call that meets a hold is not one that nothing was tried for, if an
// earlier Do tried.
func TestHeldAfterAttemptsMadeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		a.hold(0).put(time.Now().Add(30*time.Second), time.Now().Add(30*time.Second), 503)
		for made, should := range []bool{true, false} {
			res := new(Engine).Do(t.Context(), Call{Targets: []*Target{a}, Made: made}, nil)
			if res.Reason != TargetHeld || res.Attempts != made || res.ShouldRetry != should {
				t.Errorf("%d made before: %+v", made, res)
			}
		}
	})
}

// The memo is for what any client would have met. One that could not wait
// makes none for the others.
func TestImpatienceMakesNoMemo(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			call := Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Readers: patient(1500 * time.Millisecond)}
			u := scripted(map[string][]answer{"a": {says(503, "Retry-After", "3"), fine}})
			if res := e.Do(t.Context(), call, u.try); res.Reason != RetryAfterExceedsDeadline || res.Memo != 0 {
				t.Errorf("%+v", res)
			}
			slow := says(503)
			slow.takes = time.Second
			call.Targets, call.Readers = []*Target{target("a", 1)}, patient(1500*time.Millisecond)
			u = scripted(map[string][]answer{"a": {slow}})
			if res := e.Do(t.Context(), call, u.try); res.Reason != Deadline || res.Failure.Status != 503 || res.Memo != 0 {
				t.Errorf("%+v", res)
			}
		})
	})
}

// Each retry and each hold is told of once, with its cause.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := target("a", 2), target("b", 1)
		u := scripted(map[string][]answer{"a/0": {says(429, "Retry-After", "30")}, "a/1": {says(401)}, "b": {refusedDial, fine}})
		var events []Event
		res, _ := do(t, &Engine{Rand: dice["middle"]}, Call{Kind: Completion, Targets: []*Target{a, b}, On: func(e Event) { events = append(events, e) }}, u)
		want := []Event{
			{Kind: Held, Target: a, Cause: "429", For: 30 * time.Second},
			{Kind: Retried, Target: a, Cause: "429"},
			{Kind: Held, Target: a, Cause: "401", For: credentialHold},
			{Kind: Retried, Target: a, Cause: "401"},
			{Kind: Retried, Target: b, Cause: "unreachable", Of: 500 * time.Millisecond},
		}
		if res.Failure != nil || !slices.Equal(events, want) {
			t.Errorf("%+v\n%+v", res, events)
		}
	})
}

func BenchmarkDo(b *testing.B) {
	e := new(Engine)
	call := Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Deadline: time.Now().Add(time.Hour), Readers: patient(time.Hour), On: func(Event) {}}
	try := func(context.Context, Attempt) *Failure { return nil }
	ctx, cancel := context.WithDeadline(context.Background(), call.Deadline)
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if res := e.Do(ctx, call, try); res.Failure != nil {
			b.Fatal(res)
		}
	}
}

func TestDoAllocatesNothing(t *testing.T) {
	e := new(Engine)
	call := Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Deadline: time.Now().Add(time.Hour), Readers: patient(time.Hour), On: func(Event) {}}
	try := func(context.Context, Attempt) *Failure { return nil }
	if n := testing.AllocsPerRun(100, func() { e.Do(t.Context(), call, try) }); n != 0 {
		t.Errorf("%v allocations on the happy path", n)
	}
}
