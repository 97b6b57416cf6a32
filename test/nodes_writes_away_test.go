package test

import (
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

var storeAway = problem{status: 503, retry: "true", outcome: "refused", reason: "store_away"}

// B077 for writes: without the store nothing is sent, and none of its errors is
// a verdict. What had been recorded replays once it is back.
func TestStoreAwayWritesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range outages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			u.Choose(paid)
			r := redistest.Start(t, c.settings...)
			a, b := pair(t, u, r.URL(), paying(u))
			wantPaid(t, charge(a, "before"), 1, "executed")

			c.away(r)
			for _, key := range []string{"away", "away", "another", "before", "away"} {
				ans := charge(a, key)
				storeAway.head(t, ans)
				if ans.Field("code").String() != "store_unavailable" {
					t.Errorf("%s", ans.Body)
				}
				if ans.Took > 1500*time.Millisecond {
					t.Errorf("refused after %v", ans.Took)
				}
			}
			storeAway.head(t, a.Post(payments, bill("no key")))
			wantWrites(t, u, 1, a)
			if ans := a.Get("/tools/payments/v1/payments?ref=1"); ans.Status != 201 { // a read needs no store
				t.Errorf("a read got %d %s", ans.Status, ans.Body)
			}

			c.back(r)
			for i, key := range []string{"away", "another"} {
				g := []*harness.Gateway{a, b}[i]
				ans := soon(t, 8*time.Second, g, key, 201, 503, 409)
				wantPaid(t, ans, 3+i, "executed")
				wantPaid(t, charge(g, key), 3+i, "replayed")
			}
			if !c.loses {
				wantPaid(t, charge(b, "before"), 1, "replayed")
				wantListed(t, a)
				wantWrites(t, u, 3, a, b)
			}
			a.Stop()
			wantNone(t, "the log", a.Log(), storePassword)
		})
	}
}

// The store goes away while the upstream works: the caller gets the answer, and
// is told that it is not recorded yet. It is once the store is back.
func TestStoreAwayUnderAWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ away, back func(*redistest.Server) }{
		"refused": {(*redistest.Server).Kill, func(r *redistest.Server) { r.Restart() }},
		"hanging": {(*redistest.Server).Pause, (*redistest.Server).Continue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t)
			u.Choose(paidAfter(gate))
			r := redistest.Start(t, durable...)
			a, b := pair(t, u, r.URL(), paying(u, patient))
			first := charges(a, "k")
			u.Call(1)
			c.away(r)
			close(gate)
			ans := first.Answer()
			wantPaid(t, ans, 1, "executed")
			if ans.Header.Get("Oncegate-Recorded") != "false" {
				t.Errorf("Oncegate-Recorded: %q", ans.Header.Get("Oncegate-Recorded"))
			}
			if ans.Took > 15*time.Second {
				t.Errorf("it took %v", ans.Took)
			}
			storeAway.head(t, charge(b, "k"))
			c.back(r)
			for _, g := range []*harness.Gateway{b, a} {
				wantPaid(t, soon(t, 15*time.Second, g, "k", 201, 503, 409, 424), 1, "replayed")
			}
			wantWrites(t, u, 1, a, b)
			wantListed(t, b)
		})
	}
}

// A dispatch that the store does not confirm in time is none: nothing is sent,
// and the record is free again, whether or when the store did it.
func TestStoreAwayUnderADispatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after bool // the store has done it
		cut   bool // the connection ends
	}{
		"confirmed late":         {after: true},
		"done late":              {},
		"its confirmation lost":  {after: true, cut: true},
		"the connection is lost": {cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			way, a, b := behind(t, u, redistest.Start(t))
			came, release := way.Hold(c.after, ofStep(t, "dispatch"))
			first := charges(a, "k")
			wait(t, came)
			if c.cut {
				way.Cut()
				release()
			}
			ans := first.Answer()
			storeAway.head(t, ans)
			release()
			wantWrites(t, u, 1, a) // the one with the key "warm"
			wantPaid(t, soon(t, takeover, b, "k", 201, 503, 409), 2, "executed")
			wantPaid(t, soon(t, 5*time.Second, a, "k", 201, 503), 2, "replayed")
			wantWrites(t, u, 2, a, b)
			wantListed(t, b)
		})
	}
}

// Between two attempts a write is claimed again. Where the store has done that
// and could not say so, the next attempt is none that nobody knows of: either it
// is dispatched anew, or nothing is sent.
func TestStoreAwayUnderAWithdrawal(t *testing.T) { // alone: what else runs must not make the store slow
	u := up.New(t)
	r := redistest.Start(t)
	way, a, b := behind(t, u, r)
	const later = 2 * time.Second
	u.Choose(func(c *up.Call) up.Step {
		if c.N == 2 {
			return up.Fail(429, "later", "Retry-After: 1")
		}
		return paid(c)
	})
	wantPaid(t, charge(a, "warmer"), 3, "executed") // 2 and 3: the server knows the step
	came, release := way.Hold(true, ofStep(t, "withdraw"))
	defer release()
	u.Choose(func(c *up.Call) up.Step {
		switch {
		case c.N == 4:
			return up.Fail(429, "later", "Retry-After: 2")
		case c.N == 5: // longer than the lease of who stands still
			return up.Seq(up.Pause(lease+3*time.Second), paid(c))
		}
		return paid(c)
	})
	first := charges(a, "k")
	wait(t, came)
	<-time.After(time.Until(u.Call(4).At.Add(later + time.Second))) // its next attempt is due, and may be under way
	a.Pause()
	var ans *harness.Answer
	harness.Eventually(t, takeover+lease+5*time.Second, "the other node knows", func() bool {
		ans = charge(b, "k")
		return ans.Status == 201 || ans.Status == 424
	})
	a.Continue()
	if got := first.Answer(); got.Status != 201 && got.Status != 503 && got.Status != 429 {
		t.Errorf("the first client got %d %s", got.Status, got.Body)
	}
	wantWrites(t, u, 5, a, b)
	if ans = soon(t, 10*time.Second, b, "k", 201, 424, 409, 503); ans.Body != payment(5) {
		t.Errorf("in the end it is %s", ans.Body)
	}
	wantListed(t, b)
}
