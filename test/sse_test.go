package test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// events joins items as a stream whose lines end by eol.
func events(eol string, items ...string) string {
	var b strings.Builder
	for _, item := range items {
		b.WriteString("data: " + item + eol + eol)
	}
	return b.String()
}

// wantStream says what a client should have got of a stream, and that it ended
// well, once.
func wantStream(t *testing.T, s *harness.Stream, want ...string) {
	t.Helper()
	s.Rest()
	got := harness.Data(s.Raw())
	if strings.Join(got, "\n") != strings.Join(want, "\n") || !s.Clean() {
		t.Errorf("got, ended by %v:\n%q\nwant:\n%q", s.End(), got, want)
	}
}

func TestB001EventBoundaries(t *testing.T) {
	t.Parallel()
	one, two, three := up.Chunk("one"), up.Chunk("two"), up.Chunk("three")
	want := []string{one, two, three, up.Finish(), up.Done}
	for name, c := range map[string]struct {
		first, split, rest string
	}{
		"CRLF":            {events("\r\n", one), "", events("\r\n", want[1:]...)},
		"CR":              {events("\r", one), "", events("\r", want[1:]...)},
		"LF":              {events("\n", one), "", events("\n", want[1:]...)},
		"mixed":           {"data: " + one + "\r\n\n", "", events("\n", two) + events("\r\n", three) + events("\r", want[3:]...)},
		"CR, then LF":     {strings.TrimSuffix(events("\r\n", one), "\n"), "\n", events("\r\n", want[1:]...)},
		"CRLF, then LF":   {"data: " + one + "\r\n", "\r\n", events("\r\n", want[1:]...)},
		"byte order mark": {"\ufeff" + events("\n", one), "", events("\n", want[1:]...)},
		"lines of data":   {"event: x\ndata:" + one[:1] + "\ndata: " + one[1:] + "\nid: 3\nretry: 5\nunknown\n\n", "", events("\n", want[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t, up.Seq(up.Open(), up.Bytes(c.first), up.Pause(50*time.Millisecond), up.Bytes(c.split), up.Gate(gate), up.Bytes(c.rest)))
			g := harness.Start(t, u.URL())
			s := g.Open(harness.Chat, cc(stream))
			if s.Status != 200 || s.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%d %q", s.Status, s.Header.Get("Content-Type"))
			}
			first, ok := s.Event() // before the upstream sends the second
			if !ok || strings.ReplaceAll(first.Data, "\n", "") != one {
				t.Fatalf("first event %q", first.Data)
			}
			close(gate)
			s.Rest()
			got := harness.Data(s.Raw())
			if len(got) != len(want) || strings.Join(got[1:], "\n") != strings.Join(want[1:], "\n") || !s.Clean() {
				t.Errorf("got, ended by %v: %q", s.End(), got)
			}
			if s.Raw() != c.first+c.split+c.rest {
				t.Errorf("not byte for byte:\n%q\nof\n%q", s.Raw(), c.first+c.split+c.rest)
			}
			wantCalls(t, u, 1)
		})
	}
}

func TestB002LongLines(t *testing.T) {
	t.Parallel()
	for _, n := range []int{70_000, 1_100_000, 4_000_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			long := up.Delta(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"` + strings.Repeat("a", n) + `"}}]}`)
			u := up.New(t, up.SSE(long, up.FinishBy("tool_calls"), up.Done))
			g := harness.Start(t, u.URL())
			want := events("\n", long, up.FinishBy("tool_calls"), up.Done)
			for _, outcome := range []string{"executed", "replayed"} {
				a := g.Chat(cc(stream), "Idempotency-Key: k")
				if a.Body != want || a.Outcome() != outcome {
					t.Errorf("%s: %d bytes of %d, outcome %q", outcome, len(a.Body), len(want), a.Outcome())
				}
			}
			g.Stop()
			if log := g.Log(); strings.Contains(log, "too long") || len(log) > 64<<10 {
				t.Errorf("the log has %d bytes, or speaks of a line that is too long", len(log))
			}
			wantCalls(t, u, 1)
		})
	}
}

func TestB003CharacterSplitAcrossReads(t *testing.T) {
	t.Parallel()
	const head, tail = `data: {"choices":[{"index":0,"delta":{"content":"`, "\"}}]}\n\n"
	u := up.New(t, up.Seq(up.Open(),
		up.Bytes(head+"\xe0\xb8"), up.Pause(30*time.Millisecond), up.Bytes("\x81"+tail),
		up.Bytes(head+"\xf0\x9f"), up.Pause(30*time.Millisecond), up.Bytes("\x8c\x8d"+tail),
		up.Events(up.Finish(), up.Done)))
	g := harness.Start(t, u.URL())
	want := head + "\u0e01" + tail + head + "\U0001f30d" + tail + events("\n", up.Finish(), up.Done)
	for range 2 {
		if a := g.Chat(cc(stream), "Idempotency-Key: k"); a.Body != want {
			t.Errorf("%s: got %q, want %q", a.Outcome(), a.Body, want)
		}
	}
	wantCalls(t, u, 1)
}

func TestB004UpstreamCommentsAreNoData(t *testing.T) {
	t.Parallel()
	steps := []up.Step{up.Open()}
	for range 400 {
		steps = append(steps, up.Bytes(": WAIT\n\n"), up.Pause(time.Millisecond))
	}
	u := up.New(t, up.Seq(append(steps, up.Events(up.Chunk("ok"), up.Finish(), up.Done))...))
	g := harness.Start(t, u.URL())
	wantStream(t, g.Open(harness.Chat, cc(stream)), up.Chunk("ok"), up.Finish(), up.Done)
	wantCalls(t, u, 1)
}

// dispatches gives the data of the events that a widely used SDK's decoder
// makes of a body: it dispatches on every blank line once an id was seen.
func dispatches(body string) []string {
	var out []string
	var data []string
	event, id := false, false
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimSuffix(body, "\n")), "\n") {
		switch name, value, _ := strings.Cut(line, ":"); {
		case line == "":
			if event || id || data != nil {
				out = append(out, strings.Join(data, "\n"))
			}
			event, data = false, nil
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		case name == "event":
			event = true
		case name == "id":
			id = true
		}
	}
	return out
}

func TestB005HeartbeatMakesNoEvent(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Open(), up.Bytes("id: 7\ndata: "+up.Chunk("a")+"\n\n"),
		up.Pause(1500*time.Millisecond), up.Events(up.Chunk("b"), up.Finish(), up.Done)))
	g := harness.Start(t, u.URL(), harness.Config{"server.heartbeat": "200ms"})
	s := g.Open(harness.Chat, cc(stream))
	s.Next()
	for quiet := ""; !strings.Contains(quiet, "data:"); {
		p, ok := s.Piece(1400 * time.Millisecond) // less than the upstream is silent
		if !ok {
			t.Fatalf("silence at a heartbeat of 200 ms: %q", s.Raw())
		}
		quiet += p
	}
	s.Rest()
	want := []string{up.Chunk("a"), up.Chunk("b"), up.Finish(), up.Done}
	if got := harness.Data(s.Raw()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", got)
	}
	if got := dispatches(s.Raw()); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("a decoder that dispatches on every blank line gets %q of %q", got, s.Raw())
	}
	// The heartbeats are this reader's, not the record's.
	if a := g.Chat(cc(stream), marks[0]); strings.Contains(a.Body, "\n:") || strings.HasPrefix(a.Body, ":") {
		t.Errorf("the replay has heartbeats: %q", a.Body)
	}
}

// A heartbeat commits the status, not the content: what fails before content
// is tried again, unseen.
func TestHeartbeatLeavesRetriesPossible(t *testing.T) {
	t.Parallel()
	bad := up.Seq(up.Open(), up.Bytes(": one\n\n"), up.Pause(900*time.Millisecond), up.Events(up.InBand("server_error", 503)))
	u := up.New(t, bad, up.SSE(up.Role(), up.Chunk("ok"), up.Finish(), up.Done))
	g := harness.Start(t, u.URL(), harness.Config{"server.heartbeat": "200ms"})
	wantStream(t, g.Open(harness.Chat, cc(stream)), up.Role(), up.Chunk("ok"), up.Finish(), up.Done)
	wantCalls(t, u, 2)

	// When every attempt fails the status is gone already: the error is an event.
	u.Script(bad)
	s := g.Open(harness.Chat, said("again", stream))
	s.Rest()
	got := harness.Data(s.Raw())
	if s.Status != 200 || len(got) != 1 || !gjson.Get(got[0], "error.message").Exists() {
		t.Errorf("got %d %q", s.Status, s.Raw())
	}
	if strings.Contains(s.Raw(), "event:") {
		t.Errorf("a named event breaks clients of this surface: %q", s.Raw())
	}
	wantCalls(t, u, 5)
}

// Before the upstream has answered, nothing is sent.
func TestNoHeartbeatBeforeTheUpstreamsStatus(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Pause(900*time.Millisecond), up.Fail(400, "because")))
	g := harness.Start(t, u.URL(), harness.Config{"server.heartbeat": "200ms"})
	problem{400, "because", "false", "executed", "", ""}.want(t, g.Chat(cc(stream)))
}

func TestB006EmptyDataHeartbeats(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Open(), up.Bytes("data:\n\n", "data: \n\n", "event: ping\ndata: {}\n\n"),
		up.Events(up.Role(), up.Chunk("ok"), up.Finish(), up.Done)))
	g := harness.Start(t, u.URL())
	s := g.Open(harness.Chat, cc(stream))
	s.Rest()
	got := harness.Data(s.Raw())
	if words(got) != "ok" || got[len(got)-1] != up.Done || !s.Clean() {
		t.Errorf("got %q", s.Raw())
	}
	wantCalls(t, u, 1)
	if n := g.Metrics().Sum("oncegate_upstream_attempts_total", `billing="billed"`); n != 1 {
		t.Errorf("%v attempts billed", n)
	}
	g.Stop()
	if strings.Contains(g.Log(), `"error"`) {
		t.Errorf("a heartbeat made an error in the log")
	}
}

func TestB008OneByteASegment(t *testing.T) {
	t.Parallel()
	want := []string{up.Chunk("one"), up.Chunk("two"), up.Finish(), up.Done}
	u := up.New(t, up.Seq(up.Open(), up.Slowly(events("\r\n", want...), time.Millisecond)))
	g := harness.Start(t, u.URL())
	wantStream(t, g.Open(harness.Chat, cc(stream)), want...)
	wantCalls(t, u, 1)
}

func TestB009FinishWithoutDone(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.SSE(up.Chunk("a"), up.Finish(), up.Usage(5, 1)), up.FIN))
	g := harness.Start(t, u.URL())
	body := cc(stream, `"stream_options":{"include_usage":true}`)
	for _, outcome := range []string{"executed", "replayed"} {
		a := g.Chat(body, "Idempotency-Key: k")
		got := harness.Data(a.Body)
		want := []string{up.Chunk("a"), up.Finish(), up.Usage(5, 1), up.Done}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || a.Outcome() != outcome {
			t.Errorf("%s: got %q %q", outcome, a.Outcome(), got)
		}
	}
	wantCalls(t, u, 1)
}

func TestB009DoneAndTheSocketStaysOpen(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a"), up.Finish(), up.Done), up.Hang(time.Minute)))
	g := harness.Start(t, u.URL())
	s := g.Open(harness.Chat, cc(stream))
	for s.Next() != up.Done {
	}
	done := time.Now()
	if rest := s.Rest(); len(rest) != 0 || !s.Clean() {
		t.Errorf("after [DONE] came %q, %v", rest, s.End())
	}
	if d := time.Since(done); d > time.Second {
		t.Errorf("the answer ended %v after [DONE]", d)
	}
	if !u.Call(1).Left(time.Second) {
		t.Error("the upstream was not let go")
	}
	wantCalls(t, u, 1)
}

func TestB011ErrorAsTheFirstEvent(t *testing.T) {
	t.Parallel()
	bad := up.Seq(up.SSE(`{"error":{"message":"overloaded","type":"server_error","code":503}}`), up.FIN)
	good := []string{up.Role(), up.Chunk("ok"), up.Finish(), up.Done}
	for name, first := range map[string]up.Step{
		"at once":                    bad,
		"after the role":             up.SSE(up.Role(), up.InBand("server_error", 503)),
		"after comments":             up.Seq(up.Open(), up.Bytes(": hi\n\n"), up.Events(up.InBand("server_error", 500))),
		"as a named event":           up.Seq(up.Open(), up.Bytes("event: error\ndata: "+up.InBand("server_error", 503)+"\n\n")),
		"role, then the end":         up.SSE(up.Role()),
		"an empty stream":            up.Open(),
		"[DONE] and no more":         up.SSE(up.Done),
		"HTML where a stream is due": up.Status(200, "<html></html>", "Content-Type: text/html"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, first, up.SSE(good...))
			g := harness.Start(t, u.URL())
			wantStream(t, g.Open(harness.Chat, cc(stream)), good...)
			wantCalls(t, u, 2)
			if n := g.Metrics().Sum("oncegate_retries_total"); n != 1 {
				t.Errorf("%v retries counted, want 1", n)
			}
		})
	}
	t.Run("always", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, bad)
		g := harness.Start(t, u.URL())
		a := g.Chat(cc(stream))
		problem{503, "", "false", "failed", "attempts_exhausted", ""}.head(t, a)
		if a.Field("error.message").String() != "overloaded" || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%q %s", a.Header.Get("Content-Type"), a.Body)
		}
		wantCalls(t, u, 3)
	})
}

func TestB012ErrorAfterContent(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]up.Step{
		"in-band error": up.SSE(up.Role(), up.Chunk("A"), up.Chunk("B"), `{"error":{"message":"x","code":"server_error"}}`),
		"orderly end":   up.SSE(up.Role(), up.Chunk("A"), up.Chunk("B")),
		"cut":           up.Seq(up.Open(), up.Events(up.Role(), up.Chunk("A"), up.Chunk("B")), up.Cut),
		"cut mid-event": up.Seq(up.Open(), up.Events(up.Role(), up.Chunk("A"), up.Chunk("B")), up.Bytes("data: {\"choices\":[{\"delta\":{\"content\":\"C"), up.FIN),
		"silence":       up.Seq(up.Open(), up.Events(up.Role(), up.Chunk("A"), up.Chunk("B")), up.Hang(time.Minute)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, broken, up.SSE(up.Role(), up.Chunk("A"), up.Chunk("B"), up.Finish(), up.Done))
			g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.idle": "1s"})
			s := g.Open(harness.Chat, cc(stream))
			s.Rest()
			got := harness.Data(s.Raw())
			if words(got) != "AB" || strings.Count(s.Raw(), `"role"`) != 1 {
				t.Errorf("got %q", s.Raw())
			}
			if len(got) != 4 || !gjson.Get(got[len(got)-1], "error.message").Exists() {
				t.Errorf("not one error event at the end: %q", got)
			}
			if strings.Contains(s.Raw(), up.Done) || strings.Contains(s.Raw(), "event:") {
				t.Errorf("[DONE] or a named event: %q", s.Raw())
			}
			wantCalls(t, u, 1) // bytes had left: it is never begun again
			// Not stored: a repeat is a new call, at once.
			a := g.Chat(cc(stream), marks[0])
			wantOutcome(t, a, 200, "executed", "")
			wantCalls(t, u, 2)
			if n := g.Metrics().Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`); n != 1 {
				t.Errorf("%v attempts ambiguous, want 1", n)
			}
		})
	}
}

// On Anthropic's surface an error is a named event.
func TestB012ErrorAfterContentOfMessages(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Open(), up.Bytes(
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"m1\",\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n",
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"A\"}}\n\n"), up.Cut))
	g := harness.Start(t, u.URL(), harness.Config{"providers": []any{harness.Anthropic("up", u.URL())}})
	s := g.Open(harness.Messages, strings.Replace(message, "{", `{"stream":true,`, 1))
	var last harness.Event
	for {
		e, ok := s.Event()
		if !ok {
			break
		}
		last = e
	}
	if last.Type != "error" || gjson.Get(last.Data, "type").String() != "error" || !gjson.Get(last.Data, "error.message").Exists() {
		t.Errorf("the last event is %q", last)
	}
	wantCalls(t, u, 1)
}

func TestB013ErrorsBeforeAStreamKeepTheirStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, calls int
		lines         []string
	}{{401, 1, nil}, {400, 1, nil}, {429, 3, []string{"Retry-After: 0"}}} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			t.Parallel()
			u := up.New(t, up.Fail(c.status, "because", c.lines...))
			g := harness.Start(t, u.URL())
			problem{c.status, "because", "false", "", "", ""}.want(t, g.Chat(cc(stream)))
			wantCalls(t, u, c.calls)
		})
	}
	t.Run("dead port", func(t *testing.T) {
		t.Parallel()
		g := harness.Start(t, up.Refused(t))
		problem{502, "upstream_error", "false", "failed", "unreachable", ""}.want(t, g.Chat(cc(stream)))
	})
}

func TestB014StreamsOutliveTheServersTimeouts(t *testing.T) {
	t.Parallel()
	const seconds = 12
	steps := []up.Step{up.Open()}
	for range seconds {
		steps = append(steps, up.Events(up.Chunk("x")), up.Pause(time.Second))
	}
	u := up.New(t, up.Seq(append(steps, up.Events(up.Finish(), up.Done))...))
	g := harness.Start(t, u.URL(), harness.Shipped())
	s := g.Open(harness.Chat, cc(stream))
	s.Rest()
	got := harness.Data(s.Raw())
	if words(got) != strings.Repeat("x", seconds) || got[len(got)-1] != up.Done || !s.Clean() {
		t.Errorf("ended by %v: %q", s.End(), got)
	}
}

func TestB014SlowHeadersAreCut(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Shipped())
	conn := g.Dial()
	request := g.Request("POST", harness.Chat, cc(), "X-Padding: "+strings.Repeat("x", 60))
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn)
		close(ended)
	}()
	begun := time.Now()
	for i := range len(request) {
		if _, err := io.WriteString(conn, request[i:i+1]); err != nil {
			break
		}
		select {
		case <-ended:
		case <-time.After(time.Second):
			continue
		}
		break
	}
	if d := time.Since(begun); d > 40*time.Second {
		t.Errorf("a client that writes its headers byte by byte was held for %v", d)
	}
	wantUnseen(t, u, 0)
}

func TestB015FirstChunkLeavesAtOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var sent atomic.Int64
	u := up.New(t, up.Seq(up.Open(), func(*up.Exchange) { sent.Store(time.Now().UnixNano()) }, up.Events(up.Chunk("1")), up.Gate(gate), up.Events(up.Chunk("2"), up.Finish(), up.Done)))
	g := harness.Start(t, u.URL())
	s := g.Open(harness.Chat, cc(stream), "Accept-Encoding: gzip")
	if got := s.Next(); content(got) != "1" {
		t.Errorf("first event %q", got)
	}
	arrived := time.Now()
	close(gate)
	s.Rest()
	if d := arrived.Sub(time.Unix(0, sent.Load())); d > 200*time.Millisecond {
		t.Errorf("the first chunk took %v", d)
	}
	if cc := s.Header.Get("Cache-Control"); !strings.Contains(cc, "no-cache") && !strings.Contains(cc, "no-store") {
		t.Errorf("Cache-Control: %q", cc)
	}
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Content-Length": "", "Content-Encoding": ""} {
		if got := s.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestB017StaleLengthsAndHopByHopHeaders(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Status(400, `{"bad":1}`, "Content-Length: 9", "Connection: X-Foo", "X-Foo: 1", "Keep-Alive: timeout=5", "Proxy-Authenticate: Basic", "X-Kept: 1"))
	g := harness.Start(t, u.URL())
	conn := g.Dial()
	conn.Send(g.Request("POST", harness.Chat, cc(), "Connection: X-Bar", "X-Bar: 1", "TE: trailers", "Keep-Alive: 5", "Proxy-Connection: x", "X-Passed: 1"))
	a := conn.Response(10 * time.Second)
	if a.Err != nil || a.Status != 400 || a.Body != `{"bad":1}` {
		t.Fatalf("%d %q %v", a.Status, a.Body, a.Err)
	}
	for _, name := range []string{"X-Foo", "Keep-Alive", "Proxy-Authenticate"} {
		if got := a.Header.Get(name); got != "" {
			t.Errorf("%s reached the client: %q", name, got)
		}
	}
	if a.Header.Get("X-Kept") != "1" {
		t.Error("X-Kept did not reach the client")
	}
	c := u.Call(1)
	for _, name := range []string{"X-Bar", "TE", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding"} {
		if got := c.Values(name); len(got) != 0 {
			t.Errorf("%s went upstream: %q", name, got)
		}
	}
	if hosts := c.Values("Host"); len(hosts) != 1 || "http://"+hosts[0] != u.URL() {
		t.Errorf("Host: %q", hosts)
	}
	if c.Get("X-Passed") != "1" {
		t.Error("X-Passed did not go upstream")
	}

	// A body that has to be wrapped is longer than the upstream said.
	u.Script(up.Status(400, "<b>bad</b>", "Content-Type: text/html"))
	conn.Send(g.Request("POST", harness.Chat, said("wrapped")))
	problem{400, "", "", "", "", ""}.want(t, conn.Response(10*time.Second))
}

// However an upstream's bytes are cut into segments, a reader sees the same.
func TestStreamsCutAnywhere(t *testing.T) {
	t.Parallel()
	whole := ": hi\r\n\r\n" + events("\r\n", up.Role(), up.Chunk("é\U0001f30d")) + "event: x\ndata: {\r\ndata: \"choices\":[]}\r\n\r\n" +
		events("\n", up.Chunk("b")) + events("\r", up.Finish()) + events("\n", up.Done)
	u := up.New(t)
	u.Choose(func(*up.Call) up.Step {
		steps := []up.Step{up.Open()}
		for rest := whole; rest != ""; {
			n := min(1+rand.IntN(60), len(rest))
			steps = append(steps, up.Bytes(rest[:n]), up.Pause(time.Duration(rand.IntN(2))*time.Millisecond))
			rest = rest[n:]
		}
		return up.Seq(steps...)
	})
	g := harness.Start(t, u.URL())
	want := strings.Join(harness.Data(whole), "\n")
	for i := range 25 {
		a := g.Chat(said(fmt.Sprint(i), stream))
		if got := strings.Join(harness.Data(a.Body), "\n"); got != want {
			t.Fatalf("got\n%q\nwant\n%q", a.Body, whole)
		}
	}
}
