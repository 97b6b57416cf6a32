package test

import (
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// The policy's cases that are about bytes on the wire, by their numbers and
// over real sockets; their waits are tested in virtual time. Bases are 100 ms.
func TestPolicyCases(t *testing.T) {
	t.Parallel()
	down := func(status int, lines ...string) up.Step { return up.Fail(status, "no", lines...) }
	for name, c := range map[string]struct {
		script []up.Step
		status int
		calls  int
		reason string // of the failure
		retry  string // x-should-retry, of errors
		after  string // Retry-After
	}{
		"1":               {script: []up.Step{down(503), up.OK("ok")}, status: 200, calls: 2},
		"2":               {script: []up.Step{down(500), down(500), up.OK("ok")}, status: 200, calls: 3},
		"3":               {script: []up.Step{down(500)}, status: 500, calls: 3, reason: "attempts_exhausted", retry: "false"},
		"5":               {script: []up.Step{down(429), up.OK("ok")}, status: 200, calls: 2},
		"6, no number":    {script: []up.Step{down(429, "Retry-After: 1e3"), up.OK("ok")}, status: 200, calls: 2},
		"7":               {script: []up.Step{down(429, "retry-after-ms: 150", "Retry-After: 30"), up.OK("ok")}, status: 200, calls: 2},
		"9":               {script: []up.Step{down(429, "Retry-After: 86400")}, status: 429, calls: 1, reason: "retry_after_exceeds_cap", retry: "false", after: "86400"},
		"9, twenty nines": {script: []up.Step{down(429, "Retry-After: 99999999999999999999")}, status: 429, calls: 1, reason: "retry_after_exceeds_cap", retry: "false", after: "86400"},
		"15, 400":         {script: []up.Step{down(400)}, status: 400, calls: 1, retry: "false"},
		"15, 401":         {script: []up.Step{down(401)}, status: 401, calls: 1, reason: "upstream_credential", retry: "false"},
		"15, 413":         {script: []up.Step{down(413)}, status: 413, calls: 1, retry: "false"},
		"15, 501":         {script: []up.Step{down(501)}, status: 501, calls: 1, reason: "attempts_exhausted", retry: "false"},
		"16":              {script: []up.Step{down(500, "x-should-retry: false")}, status: 500, calls: 1, reason: "attempts_exhausted", retry: "false"},
		"20":              {script: []up.Step{up.RST}, status: 502, calls: 2, reason: "attempts_exhausted", retry: "false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, c.script...)
			g := harness.Start(t, u.URL())
			a := g.Chat(cc())
			if a.Status != c.status || a.Header.Get("X-Should-Retry") != c.retry || a.Header.Get("Oncegate-Reason") != c.reason ||
				c.after != "" && a.Header.Get("Retry-After") != c.after {
				t.Errorf("%d %v: %s", a.Status, a.Header, a.Body)
			}
			wantCalls(t, u, c.calls)
			if c.reason == "retry_after_exceeds_cap" { // the next call makes no attempt
				problem{429, "rate_limit_exceeded", "false", "refused", "target_held", ""}.want(t, g.Chat(said("next")))
				wantUnseen(t, u, 1)
			}
		})
	}

	good := []string{up.Role(), up.Chunk("ok"), up.Finish(), up.Done}
	for name, first := range map[string]up.Step{
		"22": up.Seq(up.Open(), up.Bytes(": one\n\n", ": two\n\n"), up.Events(up.InBand("server_error", 500)), up.FIN),
		"24": up.Seq(up.SSE(up.Role()), up.FIN),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, first, up.SSE(good...))
			g := harness.Start(t, u.URL())
			wantStream(t, g.Open(harness.Chat, cc(stream)), good...)
			wantCalls(t, u, 2)
		})
	}
	t.Run("23", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Seq(up.Open(), up.Events(up.Role(), up.Chunk("A"), up.Chunk("B")), up.RST))
		g := harness.Start(t, u.URL())
		s := g.Open(harness.Chat, cc(stream))
		s.Rest()
		got := harness.Data(s.Raw())
		if words(got) != "AB" || len(got) != 4 || !strings.Contains(got[3], `"error"`) || strings.Contains(s.Raw(), up.Done) {
			t.Errorf("%q", s.Raw())
		}
		wantCalls(t, u, 1)
	})
	t.Run("30", func(t *testing.T) {
		t.Parallel()
		var body []up.Step
		for range 12 { // 1.2 s of signs of life, where silence ends after 500 ms
			body = append(body, up.Bytes("\n"), up.Pause(100*time.Millisecond))
		}
		body = append(body, up.Bytes(up.Completion("at last")), up.FIN)
		u := up.New(t, up.Seq(append([]up.Step{up.Head(200, "Content-Type: application/json")}, body...)...))
		g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.idle": "500ms"})
		wantText(t, g.Chat(cc()), "at last", "executed", "")
		wantCalls(t, u, 1)
	})
}
