package test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// Statuses that are no answer to a call are failures of the upstream.
func TestUpstreamStatusesThatAnswerNothing(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]up.Step{
		"101, left open": up.Seq(up.Raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), up.Hang(30*time.Second)),
		"101, closed":    up.Seq(up.Raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), up.Cut),
		"101, bare":      up.Seq(up.Raw("HTTP/1.1 101 Switching Protocols\r\n\r\n"), up.Hang(30*time.Second)),
		"099":            up.Seq(up.Raw("HTTP/1.1 099 What\r\nContent-Length: 2\r\n\r\n{}"), up.Cut),
		"099, left open": up.Seq(up.Raw("HTTP/1.1 099 What\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), up.Hang(30*time.Second)),
	} {
		for kind, body := range map[string]string{"JSON": cc(), "stream": cc(stream)} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				u := up.New(t, says)
				g := harness.Start(t, u.URL())
				a := g.Chat(body)
				problem{502, "upstream_error", "false", "failed", "attempts_exhausted", ""}.want(t, a)
				if n := u.N(); n < 1 || n > 3 || a.Header.Get("Oncegate-Attempts") != strconv.Itoa(n) {
					t.Errorf("%d calls, Oncegate-Attempts %q; the policy has 3", n, a.Header.Get("Oncegate-Attempts"))
				}
				if a.Took > 10*time.Second {
					t.Errorf("it took %v", a.Took)
				}
			})
		}
	}
}

// Once a heartbeat has made it an event stream, an answer that is none becomes
// an error event: JSON of another kind in there breaks what reads it.
func TestJSONAfterAHeartbeat(t *testing.T) {
	t.Parallel()
	broken := up.Seq(up.Open(), up.Bytes(": one\n\n"), up.Pause(900*time.Millisecond), up.RST)
	for _, c := range []struct {
		path, body, answer string
		changes            harness.Config
	}{
		{path: harness.Chat, body: cc(stream), answer: up.Completion("raw")},
		{path: harness.Messages, body: strings.Replace(message, "{", `{"stream":true,`, 1),
			answer: `{"id":"msg_1","type":"message","role":"assistant","model":"m1","content":[{"type":"text","text":"raw"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, broken, up.Status(200, c.answer))
			changes := harness.Config{"server.heartbeat": "200ms"}
			if c.path == harness.Messages {
				changes["providers"] = []any{harness.Anthropic("up", u.URL())}
			}
			g := harness.Start(t, u.URL(), changes)
			s := g.Open(c.path, c.body)
			s.Rest()
			events := harness.Decode(s.Raw())
			if len(events) != 1 || !gjson.Get(events[0].Data, "error.message").Exists() {
				t.Errorf("%d events: %q", len(events), s.Raw())
			}
			if strings.Contains(s.Raw(), "raw") {
				t.Errorf("the JSON answer is inside the stream: %q", s.Raw())
			}
			for line := range strings.Lines(s.Raw()) {
				if line = strings.TrimRight(line, "\n"); line != "" && line[0] != ':' && !strings.HasPrefix(line, "data: ") && !strings.HasPrefix(line, "event: ") {
					t.Errorf("a line that is none of a stream: %q", line)
				}
			}
			if typ := s.Header.Get("Content-Type"); !strings.HasPrefix(typ, "text/event-stream") {
				t.Errorf("Content-Type %q", typ)
			}
			if n := g.Metrics().Sum("oncegate_requests_total", `outcome="failed"`); n != 1 {
				t.Errorf("%v requests count as failed, want 1", n)
			}
			wantCalls(t, u, 2)
		})
	}
}

// An attempt that a crash cut off is booked by the next process, once.
func TestAnAttemptLostInACrashIsBooked(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Hang(30*time.Second))
	g := harness.Start(t, u.URL())
	g.Go(harness.Chat, cc())
	u.Call(1)
	g.Kill9()
	g.Restart()
	m := g.Metrics()
	if n := m.Sum("oncegate_upstream_attempts_total", `result="crash"`, `billing="ambiguous"`); n != 1 {
		t.Errorf("%v attempts lost in a crash, want 1: %v", n, m)
	}
	if n := m.Sum("oncegate_upstream_attempts_total"); n != 1 {
		t.Errorf("%v attempts in all, want 1", n)
	}
	g.Stop()
	g.Restart()
	if n := g.Metrics().Sum("oncegate_upstream_attempts_total"); n != 0 {
		t.Errorf("%v attempts booked a second time", n)
	}
}
