package test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// problem is a row of the contract's error table, as a client should see it.
// Empty fields are not looked at.
type problem struct {
	status  int
	code    string
	retry   string // x-should-retry
	outcome string
	reason  string
	param   string
}

// want holds an answer against a row, in OpenAI's shape.
func (p problem) want(t *testing.T, a *harness.Answer) {
	t.Helper()
	p.head(t, a)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
		t.Errorf("Content-Type %q", a.Header.Get("Content-Type"))
	}
	e := a.Field("error")
	if !gjson.Valid(a.Body) || !e.IsObject() {
		t.Fatalf("no error object in the body: %q", a.Body)
	}
	if e.Get("message").Type != gjson.String || e.Get("message").String() == "" {
		t.Errorf("error.message: %s", e.Raw)
	}
	if e.Get("type").Type != gjson.String || e.Get("type").String() == "" {
		t.Errorf("error.type: %s", e.Raw)
	}
	if !e.Get("param").Exists() || !e.Get("code").Exists() {
		t.Errorf("error has no param or no code: %s", e.Raw)
	}
	if p.code != "" && e.Get("code").String() != p.code {
		t.Errorf("error.code is %s, want %s: %s", e.Get("code").Raw, p.code, e.Raw)
	}
	if p.param != "" && !strings.EqualFold(e.Get("param").String(), p.param) {
		t.Errorf("error.param is %s, want %s: %s", e.Get("param").Raw, p.param, e.Raw)
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Error("no x-request-id")
	}
}

// anthropicTypes are the types that Anthropic's API documents for a status.
var anthropicTypes = map[int][]string{
	400: {"invalid_request_error"}, 401: {"authentication_error"}, 403: {"permission_error"},
	404: {"not_found_error"}, 405: {"invalid_request_error"}, 409: {"invalid_request_error", "conflict_error"},
	413: {"request_too_large"}, 415: {"invalid_request_error"}, 422: {"invalid_request_error"},
	429: {"rate_limit_error"}, 500: {"api_error"}, 502: {"api_error"},
	503: {"api_error", "overloaded_error"}, 504: {"api_error", "timeout_error"},
}

// wantAnthropic holds an answer against a row, in Anthropic's shape.
func (p problem) wantAnthropic(t *testing.T, a *harness.Answer) {
	t.Helper()
	p.head(t, a)
	if !gjson.Valid(a.Body) || a.Field("type").String() != "error" || a.Field("error.message").String() == "" {
		t.Fatalf("not an error of Anthropic's shape: %q", a.Body)
	}
	got, fits := a.Field("error.type").String(), false
	for _, typ := range anthropicTypes[a.Status] {
		fits = fits || got == typ
	}
	if !fits {
		t.Errorf("error.type is %q for status %d, want one of %v", got, a.Status, anthropicTypes[a.Status])
	}
	if a.Header.Get("Request-Id") == "" {
		t.Error("no request-id")
	}
}

func (p problem) head(t *testing.T, a *harness.Answer) {
	t.Helper()
	if a.Status != p.status {
		t.Errorf("status %d, want %d: %s", a.Status, p.status, a.Body)
	}
	for name, want := range map[string]string{
		"X-Should-Retry": p.retry, "Oncegate-Outcome": p.outcome, "Oncegate-Reason": p.reason,
	} {
		if got := a.Header.Get(name); want != "" && got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// The rules of Retry-After hold for every answer.
	after, ms := a.Header.Get("Retry-After"), a.Header.Get("Retry-After-Ms")
	switch a.Status {
	case 429, 503:
		if after == "" || ms == "" {
			t.Errorf("%d with Retry-After %q and retry-after-ms %q", a.Status, after, ms)
		}
	case 409:
		if after == "" {
			t.Error("409 without Retry-After")
		}
	case 504:
		if p.retry == "true" && after == "" {
			t.Error("504 of a running call without Retry-After")
		}
	}
	if after != "" {
		n, err := strconv.Atoi(after)
		if err != nil || n < 1 || n > 86400 {
			t.Errorf("Retry-After: %q", after)
		}
		if n > 59 && a.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("Retry-After: %d without x-should-retry: false", n)
		}
	}
	if ms != "" {
		n, err := strconv.Atoi(ms)
		seconds, _ := strconv.Atoi(after)
		if err != nil || n < 0 || n > seconds*1000 || n <= (seconds-1)*1000 {
			t.Errorf("retry-after-ms: %q beside Retry-After: %q", ms, after)
		}
	}
}

// wantCalls says how many calls the upstream should have seen.
func wantCalls(t *testing.T, u *up.Server, n int) {
	t.Helper()
	if got := u.N(); got != n {
		t.Errorf("the upstream saw %d calls, want %d", got, n)
	}
}

// wantUnseen says that the upstream should not even have been dialled for more
// than was there before.
func wantUnseen(t *testing.T, u *up.Server, before int) {
	t.Helper()
	if got := u.Heads(); got != before {
		t.Errorf("the upstream saw %d requests where none was due", got-before)
	}
}

// wantOutcome says how a request should have been answered.
func wantOutcome(t *testing.T, a *harness.Answer, status int, outcome, reason string) {
	t.Helper()
	if a.Status != status || a.Outcome() != outcome || a.Reason() != reason {
		t.Errorf("got %d %q %q, want %d %q %q: %.300s", a.Status, a.Outcome(), a.Reason(), status, outcome, reason, a.Body)
	}
}

// content is the text that a chunk adds.
func content(chunk string) string { return gjson.Get(chunk, "choices.0.delta.content").String() }
