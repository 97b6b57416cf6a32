package policy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// fixture reads a provider's answer, in its shape, from testdata.
func fixture(t *testing.T, name string) (status int, h map[string][]string, body []byte) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "ratelimit", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err = io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header, body
}

func TestRateLimitsOfProviders(t *testing.T) {
	// Our clock is an hour off: dates are by the upstream's.
	now := time.Date(2025, 3, 14, 14, 9, 26, 0, time.UTC)
	for name, c := range map[string]struct {
		limits []RateLimit
		wait   time.Duration // of the next call, at most
		hold   time.Duration // by what an error says
	}{
		"openai": {limits: []RateLimit{
			{"requests", 60, 59, time.Second}, {"tokens", 150000, 0, 6 * time.Minute},
		}, wait: paceReset + 900*time.Millisecond - 1},
		"azure": {limits: []RateLimit{
			{"requests", -1, 29, 0}, {"tokens", -1, 0, 55 * time.Second},
		}, wait: paceReset + 900*time.Millisecond - 1},
		"anthropic": {limits: []RateLimit{
			{"requests", 50, 4, 46 * time.Second}, {"tokens", 48000, 41000, 9 * time.Second},
			{"input-tokens", 40000, 33000, 10 * time.Second}, {"output-tokens", 8000, 8000, 0},
		}, wait: time.Second}, // the second call: 46 requests come back in 46 s
		"gemini": {hold: 34400 * time.Millisecond},
		"groq": {limits: []RateLimit{
			{"requests", 14400, 14370, 179560 * time.Millisecond}, {"tokens", 18000, 17997, 7660 * time.Millisecond},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			status, h, body := fixture(t, name)
			var found [len(rateHeaders)]RateLimit
			if n := rateLimits(h, now, &found); !slices.Equal(found[:n], c.limits) {
				t.Errorf("%+v", found[:n])
			}
			a := target("a", 1)
			a.Observe(0, h, now)
			wait, _ := a.pace(now, 0, dice["high"])
			if wait == 0 { // the first of those that are spaced goes at once
				wait, _ = a.pace(now, 0, dice["high"])
			}
			if wait != c.wait {
				t.Errorf("the next call waits %v, want %v", wait, c.wait)
			}
			if c.hold > 0 {
				d, ok := RetryAfter(h, body, status == 429, now)
				if !ok || d != c.hold || SpentQuota(status, body) {
					t.Errorf("told %v, %v", d, ok)
				}
			}
		})
	}
}

func TestCase29UsedUpOnASuccess(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			for reset, want := range map[string]struct{ from, to time.Duration }{
				"6m0s": {paceReset, paceMost}, "2s": {2 * time.Second, 2250 * time.Millisecond}, "0s": {0, 0},
			} {
				a := target("a", 1)
				h := says(200, "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", reset).header
				do := func() Result {
					return e.Do(t.Context(), Call{Kind: Completion, Targets: []*Target{a}, Readers: patient(time.Minute)}, func(_ context.Context, at Attempt) *Failure {
						at.Target.Observe(at.Credential, h, time.Now())
						h = nil
						return nil
					})
				}
				do()
				start := time.Now()
				if res := do(); res.Reason != "" || time.Since(start) < want.from || time.Since(start) > want.to {
					t.Errorf("reset %s: %+v after %v", reset, res, time.Since(start))
				}
				start = time.Now()
				if do(); time.Since(start) != 0 {
					t.Errorf("reset %s: the one after it went after %v", reset, time.Since(start))
				}
			}
		})
	})
}

// A hint is no reason to refuse a call: who has less time than it goes
// earlier. Nor does it count for longer than a minute.
func TestHintsAreHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		used := says(200, "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "9s").header
		a.Observe(0, used, time.Now())
		start := time.Now()
		u := scripted(map[string][]answer{"a": {fine}})
		if res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a}, Readers: patient(4 * time.Second)}, u); res.Reason != "" || time.Since(start) != 3*time.Second {
			t.Errorf("%+v after %v", res, time.Since(start))
		}
		few := says(200, "X-Ratelimit-Limit-Requests", "10", "X-Ratelimit-Remaining-Requests", "1", "X-Ratelimit-Reset-Requests", "81s").header
		a.Observe(0, few, time.Now())
		start = time.Now()
		for i := range 3 { // a tenth of what is missing in 81 s
			do(t, new(Engine), Call{Targets: []*Target{a}}, u)
			if d := time.Since(start); d != time.Duration(i)*9*time.Second {
				t.Errorf("call %d went after %v", i, d)
			}
		}
		time.Sleep(paceFresh)
		start = time.Now()
		for range 3 {
			do(t, new(Engine), Call{Targets: []*Target{a}}, u)
		}
		if time.Since(start) != 0 {
			t.Errorf("an old hint made them wait %v", time.Since(start))
		}
		a.Observe(0, used, time.Now())
		a.Observe(0, says(200, "Content-Type", "x").header, time.Now())
		if wait, _ := a.pace(time.Now(), 0, dice["low"]); wait != 9*time.Second {
			t.Errorf("an answer without limits changed the wait to %v", wait)
		}
		a.Observe(0, says(200, "X-Ratelimit-Remaining-Requests", "7", "X-Ratelimit-Reset-Requests", "9s").header, time.Now())
		if wait, _ := a.pace(time.Now(), 0, dice["low"]); wait != 0 {
			t.Errorf("with some left it waits %v", wait)
		}
	})
}

// With another credential that has something left nobody waits.
func TestPacedCredentialIsAvoided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 3)
		used := says(200, "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "9s").header
		a.Observe(0, used, time.Now())
		a.Observe(1, used, time.Now())
		start := time.Now()
		u := scripted(map[string][]answer{"a": {fine}})
		if _, went := do(t, new(Engine), Call{Targets: []*Target{a}}, u); !slices.Equal(went, []string{"a2"}) || time.Since(start) != 0 {
			t.Errorf("went %v after %v", went, time.Since(start))
		}
		a.hold(2).put(time.Now().Add(time.Hour), time.Now().Add(time.Hour), 429)
		if _, went := do(t, new(Engine), Call{Targets: []*Target{a}}, u); !slices.Equal(went, []string{"a0"}) || time.Since(start) < 9*time.Second {
			t.Errorf("went %v after %v", went, time.Since(start))
		}
	})
}

// Whatever an upstream says: a wait is from 0 to 10 s.
func TestAnyHint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1741964966, 0)
		a := target("a", 1)
		text := rapid.OneOf(rapid.SampledFrom([]string{"0", "1", "-1", "100", "6m0s", "7.66s", "1ms", "NaN", "99999999999999999999", "1741964976", "2025-03-14T15:09:46Z", "0001-01-01T00:00:00Z", ""}), rapid.String())
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "pause")))
			h := map[string][]string{}
			for _, names := range rateHeaders {
				for _, n := range []string{names.limit, names.remaining, names.reset} {
					if rapid.Bool().Draw(t, n) {
						h[n] = []string{text.Draw(t, "value")}
					}
				}
			}
			a.Observe(0, h, now)
			for range rapid.IntRange(0, 5).Draw(t, "calls") {
				wait, avoid := a.pace(now, 0, func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "rnd") })
				if wait < 0 || wait > paceMost || avoid != 0 {
					t.Fatalf("wait %v, avoid %b", wait, avoid)
				}
			}
			for _, l := range a.Status(now).RateLimits {
				if l.Limit < -1 || l.Remaining < 0 || l.Reset < 0 || l.Seen < 0 {
					t.Fatalf("%+v", l)
				}
			}
		}
	})
}
