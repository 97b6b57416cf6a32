package policy

import (
	"strconv"
	"testing"
)

func TestClassify(t *testing.T) {
	answered := func(status int) Failure {
		return Failure{Phase: Answered, Status: status, Throttle: status == 429 || status == 529}
	}
	told := func(f Failure, xsr int8) Failure { f.ShouldRetry = xsr; return f }
	type judged struct {
		name       string
		failure    Failure
		read, once string // what follows for a read; for a completion
		again      string // for a completion that lost an answer before
		reason     Reason
	}
	// s: the same target, c: another credential, f: another target, >: a larger one only, !: that at once
	const passing = "sf"
	cases := []judged{
		{"not sent", Failure{Phase: NotSent}, "sf", "sf", "sf", Unreachable},
		{"connect timed out", Failure{Phase: NotSent, Timeout: true}, "sf", "sf", "sf", Unreachable},
		{"no answer", Failure{Phase: Sent}, "sf", "sf", "f", AttemptsExhausted},
		{"no answer in time", Failure{Phase: Sent, Timeout: true}, "sf", "sf", "f", AttemptsExhausted},
		{"broken body", Failure{Phase: Broken, Status: 200}, "sf", "sf", "f", AttemptsExhausted},
		{"broken body of a 503", Failure{Phase: Broken, Status: 503}, "sf", "sf", "sf", AttemptsExhausted},
		{"broken body of a 400", Failure{Phase: Broken, Status: 400}, "", "", "", ""},
		{"429", answered(429), "scf", "scf", "scf", AttemptsExhausted},
		{"529", answered(529), "sf!", "sf!", "sf!", AttemptsExhausted},
		{"504", answered(504), "sf", "sf", "f", AttemptsExhausted},
		{"524", answered(524), "sf", "sf", "f", AttemptsExhausted},
		{"409", answered(409), "", "", "", ""},
		{"409, asked to", told(answered(409), 1), "s", "s", "s", ""},
		{"400, asked to", told(answered(400), 1), "s", "s", "s", ""},
		{"503, asked not to", told(answered(503), -1), "f", "f", "f", AttemptsExhausted},
		{"429, asked not to", told(answered(429), -1), "f", "f", "f", AttemptsExhausted},
		{"504, asked to", told(answered(504), 1), "sf", "sf", "sf", AttemptsExhausted},
		{"503 with a time", Failure{Phase: Answered, Status: 503, HasRetryAfter: true, RetryAfter: 1}, "scf", "scf", "scf", AttemptsExhausted},
		{"503 with a past time", Failure{Phase: Answered, Status: 503, HasRetryAfter: true, RetryAfter: -1}, "sf", "sf", "sf", AttemptsExhausted},
		{"empty 200", Failure{Phase: Answered, BadAnswer: true, Status: 502}, "sf", "sf", "sf", AttemptsExhausted},
		{"empty 200, unnamed", Failure{Phase: Answered, BadAnswer: true}, "sf", "sf", "sf", AttemptsExhausted},
		{"a 400 inside a 200", Failure{Phase: Answered, BadAnswer: true, Status: 400}, "sf", "", "", ""},
		{"a 429 inside a 200", Failure{Phase: Answered, BadAnswer: true, Status: 429, Throttle: true}, "scf", "scf", "scf", AttemptsExhausted},
		{"an error event", Failure{Phase: Broken, BadAnswer: true, Status: 500}, "sf", "sf", "sf", AttemptsExhausted},
		{"spent quota", Failure{Phase: Answered, Status: 429, Throttle: true, Quota: true}, "cf!", "cf!", "cf!", QuotaSpent},
		{"refused credential", Failure{Phase: Answered, Status: 401, Credential: true}, "cf!", "cf!", "cf!", UpstreamCredential},
		{"too long", Failure{Phase: Answered, Status: 400, ContextLength: true}, "f>!", "f>!", "f>!", ""},
		{"content was sent", Failure{Phase: Broken, Status: 200, Committed: true, ShouldRetry: 1}, "", "", "", StreamBroken},
		{"cancelled", Failure{Phase: Sent, Cancelled: true}, "", "", "", ""},
		{"a redirect", answered(302), "", "", "", ""},
	}
	for _, status := range []int{408, 425, 500, 502, 503, 507, 520, 599} {
		cases = append(cases, judged{strconv.Itoa(status), answered(status), passing, passing, passing, AttemptsExhausted})
	}
	for _, status := range []int{501, 505, 511} {
		cases = append(cases, judged{strconv.Itoa(status), answered(status), "", "", "", AttemptsExhausted})
	}
	for _, status := range []int{400, 404, 405, 413, 415, 422, 424, 451} {
		cases = append(cases, judged{strconv.Itoa(status), answered(status), "", "", "", ""})
	}
	word := func(v Verdict) (s string) {
		for _, letter := range []struct {
			is bool
			s  string
		}{{v.Same, "s"}, {v.Another, "c"}, {v.Fallback, "f"}, {v.Larger, ">"}, {v.AtOnce, "!"}} {
			if letter.is {
				s += letter.s
			}
		}
		return s
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			read, once, again := Classify(Read, &c.failure, 1), Classify(Completion, &c.failure, 0), Classify(Completion, &c.failure, 1)
			if word(read) != c.read || word(once) != c.once || word(again) != c.again {
				t.Errorf("read %q, completion %q, after a loss %q; want %q, %q, %q", word(read), word(once), word(again), c.read, c.once, c.again)
			}
			if once.Reason != c.reason {
				t.Errorf("reason %q, want %q", once.Reason, c.reason)
			}
		})
	}
}

func TestBillingAndResult(t *testing.T) {
	for _, c := range []struct {
		failure *Failure
		billing Billing
		result  string
	}{
		{nil, Billed, "ok"},
		{&Failure{Phase: NotSent}, Unbilled, "unreachable"},
		{&Failure{Phase: NotSent, Timeout: true}, Unbilled, "timeout"},
		{&Failure{Phase: NotSent, Cancelled: true}, Unbilled, "cancelled"},
		{&Failure{Phase: Sent}, Ambiguous, "reset"},
		{&Failure{Phase: Sent, Timeout: true}, Ambiguous, "timeout"},
		{&Failure{Phase: Sent, Cancelled: true}, Ambiguous, "cancelled"},
		{&Failure{Phase: Broken, Status: 200}, Ambiguous, "cut"},
		{&Failure{Phase: Broken, Status: 200, Committed: true}, Ambiguous, "cut"},
		{&Failure{Phase: Broken, Status: 200, Timeout: true}, Ambiguous, "timeout"},
		{&Failure{Phase: Broken, Status: 429}, Unbilled, "429"},
		{&Failure{Phase: Answered, Status: 502, BadAnswer: true}, Ambiguous, "bad_answer"},
		{&Failure{Phase: Answered, Status: 429, BadAnswer: true, Throttle: true}, Ambiguous, "bad_answer"},
		{&Failure{Phase: Answered, Status: 302}, Unbilled, "3xx"},
		{&Failure{Phase: Answered, Status: 400}, Unbilled, "400"},
		{&Failure{Phase: Answered, Status: 401, Credential: true}, Unbilled, "401"},
		{&Failure{Phase: Answered, Status: 408}, Ambiguous, "408"},
		{&Failure{Phase: Answered, Status: 429}, Unbilled, "429"},
		{&Failure{Phase: Answered, Status: 418}, Unbilled, "4xx"},
		{&Failure{Phase: Answered, Status: 500}, Ambiguous, "500"},
		{&Failure{Phase: Answered, Status: 501}, Unbilled, "501"},
		{&Failure{Phase: Answered, Status: 502}, Ambiguous, "502"},
		{&Failure{Phase: Answered, Status: 503}, Unbilled, "503"},
		{&Failure{Phase: Answered, Status: 504}, Ambiguous, "504"},
		{&Failure{Phase: Answered, Status: 522}, Ambiguous, "5xx"},
		{&Failure{Phase: Answered, Status: 524}, Ambiguous, "524"},
		{&Failure{Phase: Answered, Status: 529}, Unbilled, "529"},
		{&Failure{Phase: Answered, Status: 999}, Ambiguous, "5xx"},
	} {
		if b, r := c.failure.Billing(), c.failure.Result(); b != c.billing || r != c.result {
			t.Errorf("%+v: %s, %s, want %s, %s", c.failure, b, r, c.billing, c.result)
		}
	}
}
