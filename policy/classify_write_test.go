package policy

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestClassifyWrite(t *testing.T) {
	answered := func(status int) Failure { return Failure{Phase: Answered, Status: status, Throttle: status == 429} }
	listed := func(f Failure) Failure { f.NotExecuted = true; return f }
	told := func(f Failure, xsr int8) Failure { f.ShouldRetry = xsr; return f }
	type judged struct {
		name                  string
		failure               Failure
		dedup, write, unkeyed bool   // goes again
		reason                Reason // of the plain write
	}
	cases := []judged{
		{"not sent", Failure{Phase: NotSent}, true, true, true, Unreachable},
		{"no answer", Failure{Phase: Sent}, true, false, false, OutcomeUnknown},
		{"no answer, asked to", told(Failure{Phase: Sent}, 1), true, false, false, OutcomeUnknown},
		{"a 2xx that broke off", Failure{Phase: Broken}, true, false, false, ResponseLost},
		{"a 500 that broke off", Failure{Phase: Broken, Status: 500}, true, false, false, OutcomeUnknown},
		{"an unreadable 2xx", Failure{Phase: Answered, BadAnswer: true}, true, false, false, ResponseLost},
		{"425", answered(425), true, true, false, AttemptsExhausted},
		{"429", answered(429), true, true, false, AttemptsExhausted},
		{"429, asked not to", told(answered(429), -1), false, false, false, AttemptsExhausted},
		{"a spent quota", Failure{Phase: Answered, Status: 429, Quota: true}, false, false, false, QuotaSpent},
		{"401", Failure{Phase: Answered, Status: 401, Credential: true}, false, false, false, UpstreamCredential},
		{"503, never executed", listed(answered(503)), true, true, false, AttemptsExhausted},
		{"500, never executed", listed(answered(500)), true, true, false, AttemptsExhausted},
		{"503, asked to", told(answered(503), 1), true, false, false, OutcomeUnknown},
		{"409", answered(409), true, false, false, ""},
		{"400, asked to", told(answered(400), 1), true, false, false, ""},
		{"content was sent", Failure{Phase: Broken, Committed: true}, false, false, false, StreamBroken},
	}
	for _, status := range []int{408, 500, 502, 503, 504, 524, 529, 599} {
		cases = append(cases, judged{strconv.Itoa(status), answered(status), true, false, false, OutcomeUnknown})
	}
	for _, status := range []int{501, 505, 511} {
		cases = append(cases, judged{strconv.Itoa(status), answered(status), false, false, false, AttemptsExhausted})
	}
	for _, status := range []int{400, 404, 413, 422} {
		cases = append(cases, judged{strconv.Itoa(status), answered(status), false, false, false, ""})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dedup, write, unkeyed := Classify(DedupWrite, &c.failure, 5), Classify(Write, &c.failure, 0), Classify(UnkeyedWrite, &c.failure, 0)
			if dedup.Same != c.dedup || write.Same != c.write || unkeyed.Same != c.unkeyed || write.Reason != c.reason {
				t.Errorf("goes again: %v with an upstream key, %v plain, %v unkeyed, reason %q; want %v, %v, %v, %q",
					dedup.Same, write.Same, unkeyed.Same, write.Reason, c.dedup, c.write, c.unkeyed, c.reason)
			}
			if dedup.Fallback || write.Fallback || unkeyed.Fallback {
				t.Error("a write changes its target")
			}
		})
	}
}

func TestCase17PlainWriteNotSent(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			u := scripted(map[string][]answer{"a": {refusedDial, fine}})
			res, _ := do(t, e, Call{Kind: Write, Targets: []*Target{target("a", 1)}}, u)
			if res.Failure != nil || res.Attempts != 2 || u.waits()[0] >= 500*time.Millisecond {
				t.Errorf("%+v after %v", res, u.waits())
			}
		})
	})
}

func TestCase18PlainWriteSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := scripted(map[string][]answer{"a": {reset1, fine}, "b": {fine}})
		res, _ := do(t, new(Engine), Call{Kind: Write, Targets: []*Target{target("a", 1), target("b", 1)}}, u)
		if res.Reason != OutcomeUnknown || res.Attempts != 1 || res.Memo != 0 || res.ShouldRetry {
			t.Errorf("%+v", res)
		}
	})
}

func TestCase19DeduplicatingWriteSent(t *testing.T) {
	eachDice(t, func(t *testing.T, e *Engine) {
		synctest.Test(t, func(t *testing.T) {
			u := scripted(map[string][]answer{"a": {reset1, fine}})
			res, _ := do(t, e, Call{Kind: DedupWrite, Targets: []*Target{target("a", 1)}}, u)
			if res.Failure != nil || res.Attempts != 2 || u.waits()[0] >= 500*time.Millisecond {
				t.Errorf("%+v after %v", res, u.waits())
			}
		})
	})
}

// Whatever an upstream says, and asks for: a plain write's body is written at
// most once, but where it says that nothing was done.
func TestPlainWriteIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			gen := rapid.Custom(func(t *rapid.T) answer {
				a := says(rapid.SampledFrom([]int{200, 400, 401, 408, 409, 425, 429, 500, 501, 502, 503, 504, 529}).Draw(t, "status"))
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					return refusedDial
				case 1:
					return reset1
				case 2:
					a.bad = true
				case 3:
					a.header["X-Should-Retry"] = []string{"true"}
				}
				if s := rapid.SampledFrom([]string{"", "1", "70"}).Draw(t, "retry after"); s != "" {
					a.header["Retry-After"] = []string{s}
				}
				return a
			})
			u := scripted(map[string][]answer{"a": rapid.SliceOfN(gen, 1, 4).Draw(t, "script"), "b": {fine}})
			kind := rapid.SampledFrom([]Kind{Write, UnkeyedWrite}).Draw(t, "kind")
			res := new(Engine).Do(t.Context(), Call{Kind: kind, Targets: []*Target{target("a", 2), target("b", 1)}}, u.try)
			written := 0
			for _, a := range u.attempts {
				if a.failure == nil || a.failure.Phase != NotSent && !(kind == Write && (a.failure.Status == 425 || a.failure.Status == 429)) {
					written++
				}
				if a.Target.Name != "a" {
					t.Fatal("the write changed its target")
				}
			}
			if written > 1 || res.Attempts > 3 {
				t.Fatalf("written %d times in %d attempts", written, res.Attempts)
			}
		})
	})
}
