package policy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// between is a wait of [from, to).
type between struct{ from, to float64 }

const second = float64(time.Second)

const (
	spentBody  = `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`
	googleBody = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[
		{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},
		{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.4s"}]}}`
)

// dates gives a Date header by an upstream whose clock is two minutes behind
// ours, and a Retry-After three seconds after it, in one of the three forms.
func dates(layout string) answer {
	date := time.Now().UTC().Add(-2 * time.Minute)
	const imf = "Mon, 02 Jan 2006 15:04:05 GMT"
	return says(503, "Date", date.Format(imf), "Retry-After", date.Add(3*time.Second).Format(layout))
}

// The cases of the policy's table, by their numbers: base 500 ms, throttle
// base 1 s, 3 attempts, a deadline of 60 s, no fallback, a completion.
func TestCases(t *testing.T) {
	jitter1, jitter2 := between{0, .5}, between{0, 1}
	type kase struct {
		name     string
		deadline time.Duration // 60 s
		script   func() []answer
		waits    []between
		status   int // what comes of it: 200, or that of the failure
		reason   Reason
		after    time.Duration // Result.RetryAfter
		memo     time.Duration
		next     int // the status of the next call, made at once: 0 is not asked
	}
	script := func(a ...answer) func() []answer { return func() []answer { return a } }
	cases := []kase{
		{name: "1", script: script(says(503), fine), waits: []between{jitter1}, status: 200},
		{name: "2", script: script(says(500), says(500), fine), waits: []between{jitter1, jitter2}, status: 200},
		{name: "3", script: script(says(500), says(500), says(500)), waits: []between{jitter1, jitter2}, status: 500, reason: AttemptsExhausted, memo: 2 * time.Second},
		{name: "4", script: script(says(429, "Retry-After", "2"), fine), waits: []between{{2, 2.25}}, status: 200},
		{name: "5", script: script(says(429), fine), waits: []between{{0, 1}}, status: 200},
		{name: "7", script: script(says(429, "Retry-After-Ms", "1500", "Retry-After", "30"), fine), waits: []between{{1.5, 1.75}}, status: 200},
		{name: "10", deadline: 20 * time.Second, script: script(says(429, "Retry-After", "50")), status: 429, reason: RetryAfterExceedsDeadline, after: 50 * time.Second},
		{name: "11", script: script(says(429, "Retry-After", "1", "Retry-After", "4"), fine), waits: []between{{4, 4.4}}, status: 200},
		{name: "12", script: script(says(429, "Retry-After", "1").with(spentBody)), status: 429, reason: QuotaSpent, after: 5 * time.Minute, memo: 5 * time.Second, next: 429},
		{name: "13", script: script(says(429).with(googleBody), fine), waits: []between{{34.4, 37.84}}, status: 200},
		{name: "16", script: script(says(500, "X-Should-Retry", "false")), status: 500, reason: AttemptsExhausted, memo: 2 * time.Second},
		{name: "20", script: script(reset1, reset1), waits: []between{jitter1}, status: 0, reason: AttemptsExhausted, memo: 2 * time.Second},
		{name: "20 answered", script: script(reset1, fine), waits: []between{jitter1}, status: 200},
	}
	for _, value := range []string{"0", "-5", "abc", "1e3", "NaN", "0x10"} {
		cases = append(cases, kase{name: "6 " + value, script: script(says(429, "Retry-After", value), fine), waits: []between{{0, 1}}, status: 200})
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		cases = append(cases, kase{name: "8 " + layout, script: func() []answer { return []answer{dates(layout), fine} }, waits: []between{{3, 3.3}}, status: 200})
	}
	for _, value := range []string{"86400", "9223372037", "99999999999999999999"} {
		cases = append(cases, kase{name: "9 " + value, script: script(says(429, "Retry-After", value)), status: 429, reason: RetryAfterExceedsCap, after: 24 * time.Hour, memo: 5 * time.Second, next: 429})
	}
	for _, status := range []int{400, 404, 413, 422} {
		cases = append(cases, kase{name: "15 " + says(status).failure(time.Time{}).Result(), script: script(says(status)), status: status})
	}
	for _, status := range []int{401, 403} {
		cases = append(cases, kase{name: "15 " + says(status).failure(time.Time{}).Result(), script: script(says(status)), status: status, reason: UpstreamCredential, next: 503})
	}
	for _, status := range []int{501, 505} {
		cases = append(cases, kase{name: "15 " + says(status).failure(time.Time{}).Result(), script: script(says(status)), status: status, reason: AttemptsExhausted, memo: 2 * time.Second})
	}

	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			eachDice(t, func(t *testing.T, e *Engine) {
				synctest.Test(t, func(t *testing.T) {
					u := scripted(map[string][]answer{"a": c.script()})
					deadline := c.deadline
					if deadline == 0 {
						deadline = 60 * time.Second
					}
					call := Call{Kind: Completion, Targets: []*Target{target("a", 1)}, Readers: patient(deadline), Deadline: time.Now().Add(10 * time.Minute)}
					start := time.Now()
					res := e.Do(t.Context(), call, u.try)

					waits := u.waits()
					if res.Attempts != len(c.waits)+1 || len(u.attempts) != res.Attempts {
						t.Fatalf("attempts: %d told, %d made, want %d", res.Attempts, len(u.attempts), len(c.waits)+1)
					}
					for i, w := range c.waits {
						if s := float64(waits[i]) / second; s < w.from || s >= w.to {
							t.Errorf("wait %d: %v, want [%v, %v) s", i+1, waits[i], w.from, w.to)
						}
					}
					if len(c.waits) == 0 && time.Since(start) > 5*time.Millisecond {
						t.Errorf("took %v, want an answer at once", time.Since(start))
					}
					status := 200
					if res.Failure != nil {
						status = res.Failure.Status
						if last := u.attempts[len(u.attempts)-1].failure; res.Failure != last {
							t.Error("the failure is not that of the last attempt")
						}
					}
					if status != c.status || res.Reason != c.reason || res.RetryAfter != c.after || res.Memo != c.memo || res.ShouldRetry {
						t.Errorf("got %d %+v\nwant status %d, reason %q, retry after %v, memo %v, should retry false", status, res, c.status, c.reason, c.after, c.memo)
					}
					if c.next != 0 {
						made := len(u.attempts)
						res := e.Do(t.Context(), call, u.try)
						if len(u.attempts) != made || res.Attempts != 0 || res.Failure != nil || res.Reason != TargetHeld || res.Status != c.next || res.RetryAfter < 5*time.Minute || res.ShouldRetry {
							t.Errorf("the next call: %+v after %d attempts", res, len(u.attempts)-made)
						}
					}
				})
			})
		})
	}
}

// Case 4: the target is on hold for others for as long as it said.
func TestCase4Others(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			a := target("a", 1)
			u := scripted(map[string][]answer{"a": {says(429, "Retry-After", "2"), fine}})
			start := time.Now()
			var first, other Result
			done := make(chan struct{})
			go func() {
				defer close(done)
				first = e.Do(t.Context(), Call{Targets: []*Target{a}}, u.try)
			}()
			synctest.Wait()
			v := scripted(map[string][]answer{"a": {fine}})
			other = e.Do(t.Context(), Call{Targets: []*Target{a}, Readers: patient(time.Minute)}, v.try)
			<-done
			if first.Failure != nil || other.Failure != nil || other.Reason != "" || other.Attempts != 1 {
				t.Fatalf("first %+v, other %+v", first, other)
			}
			if waited := v.attempts[0].at.Sub(start); waited < 2*time.Second || waited >= 3500*time.Millisecond {
				t.Errorf("the other call went after %v", waited)
			}
		})
	})
}

func TestCase14OverloadedWithFallback(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			u := scripted(map[string][]answer{"a": {says(529)}, "b": {fine}})
			res := e.Do(t.Context(), Call{Kind: Completion, Targets: []*Target{target("a", 1), target("b", 1)}}, u.try)
			if res.Failure != nil || res.Attempts != 2 || u.asked["a"] != 1 || u.waits()[0] != 0 || u.attempts[1].Index != 1 {
				t.Errorf("%+v, %v", res, u.attempts)
			}
		})
	})
}

func TestCase21OnlyClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := scripted(map[string][]answer{"a": {says(429, "Retry-After", "30"), fine}})
		w := patient(time.Minute)
		a := target("a", 1)
		start := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			close(w.gone)
		}()
		res := new(Engine).Do(t.Context(), Call{Kind: Completion, Targets: []*Target{a}, Readers: w}, u.try)
		if s := a.Status(time.Now()); s.Budget != 20 || s.Breaker != Closed || s.Streak != 0 || s.InFlight != 0 {
			t.Errorf("the target is left as %+v", s)
		}
		if res.Reason != ClientGone || res.Attempts != 1 || res.Memo != 0 || res.Failure == nil || res.Failure.Status != 429 {
			t.Errorf("%+v", res)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("the wait ended %v after the call began, the client left after 3 s", took)
		}
	})
}

// Case 28's part that is decided here: after the memo a new call makes new
// attempts.
func TestCase28AfterMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := scripted(map[string][]answer{"a": {says(500), says(500), says(500), fine}})
		call := Call{Kind: Completion, Targets: []*Target{target("a", 1)}}
		res := new(Engine).Do(context.Background(), call, u.try)
		if res.Memo != 2*time.Second {
			t.Fatalf("memo %v", res.Memo)
		}
		time.Sleep(res.Memo)
		if res := new(Engine).Do(context.Background(), call, u.try); res.Failure != nil || res.Attempts != 1 {
			t.Errorf("%+v", res)
		}
	})
}
