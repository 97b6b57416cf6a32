package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// named writes events that have a name and that name as their type.
func named(events ...string) string {
	var b strings.Builder
	for _, data := range events {
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", gjson.Get(data, "type"), data)
	}
	return b.String()
}

// surface is a way to speak to a model other than chat completions: a stream in
// two parts, of which the first ends amid content.
type surface struct {
	path, body, whole string
	preamble          string // nothing that a reader could act on
	first, rest       string
	last              string // the type of its terminal event
	cut               string // the terminal part of an answer that a limit ended
}

var surfaces = map[string]surface{
	"messages": {
		path:  harness.Messages,
		body:  `{"model":"claude-x","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		whole: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"ab"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}`,
		preamble: named(
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"claude-x","usage":{"input_tokens":5,"output_tokens":1}}}`) +
			"event: ping\ndata: {\"type\": \"ping\"}\n\n",
		first: named(
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`),
		rest: named(
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}`,
			`{"type":"message_stop"}`),
		last: "message_stop",
		cut: named(
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":9}}`,
			`{"type":"message_stop"}`),
	},
	"responses": {
		path:  "/v1/responses",
		body:  `{"model":"m1","stream":true,"input":"hi"}`,
		whole: `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"ab","annotations":[]}]}],"usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}`,
		preamble: named(
			`{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}`,
			`{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}`),
		first: named(
			`{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}`,
			`{"type":"response.output_text.delta","sequence_number":3,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"a"}`),
		rest: named(
			`{"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"b"}`,
			`{"type":"response.completed","sequence_number":5,"response":{"id":"resp_1","object":"response","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2,"total_tokens":7}}}`),
		last: "response.completed",
		cut: named(
			`{"type":"response.incomplete","sequence_number":4,"response":{"id":"resp_1","object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":{"input_tokens":5,"output_tokens":9,"total_tokens":14}}}`),
	},
}

// each runs a test for each surface, with a gateway before an upstream of the
// surface's own kind.
func each(t *testing.T, changes harness.Config, run func(*testing.T, surface, *up.Server, *harness.Gateway)) {
	t.Parallel()
	for name, s := range surfaces {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			run(t, s, u, harness.Start(t, u.URL(), harness.Config{
				"providers": []any{harness.Provider("up", u.URL()), harness.Anthropic("claude", u.URL())},
				"models":    []any{harness.Model("claude-x", "claude"), harness.Model("*", "up")},
			}, changes))
		})
	}
}

// lastEvent is the last event of a body.
func lastEvent(body string) harness.Event {
	all := harness.Decode(body)
	if len(all) == 0 {
		return harness.Event{}
	}
	return all[len(all)-1]
}

func TestSurfacesShareAStreamLive(t *testing.T) {
	each(t, nil, func(t *testing.T, s surface, u *up.Server, g *harness.Gateway) {
		gate := make(chan struct{})
		u.Script(up.Seq(up.Open("request-id: req_7"), up.Bytes(s.preamble, s.first), up.Gate(gate), up.Bytes(s.rest)))
		live := g.Open(s.path, s.body, "Idempotency-Key: k")
		live.Next() // before the upstream sends the rest
		joined := g.Open(s.path, s.body, "Idempotency-Key: k")
		joined.Next()
		close(gate)
		live.Rest()
		joined.Rest()
		want := s.preamble + s.first + s.rest
		replay := g.Post(s.path, s.body, "Idempotency-Key: k")
		wantOutcome(t, replay, 200, "replayed", "key")
		for name, got := range map[string]string{"live": live.Raw(), "joined": joined.Raw(), "replay": replay.Body} {
			if got != want {
				t.Errorf("%s got\n%q\nwant\n%q", name, got, want)
			}
		}
		if replay.Header.Get("Request-Id") != "req_7" || !live.Clean() || !joined.Clean() {
			t.Errorf("request-id %q, ends %v, %v", replay.Header.Get("Request-Id"), live.End(), joined.End())
		}
		wantCalls(t, u, 1)
		if got := string(u.Call(1).Body); got != s.body {
			t.Errorf("sent %s", got)
		}
	})
}

func TestSurfacesOfAStreamThatBreaks(t *testing.T) {
	each(t, nil, func(t *testing.T, s surface, u *up.Server, g *harness.Gateway) {
		broken := up.Seq(up.Open(), up.Bytes(s.preamble, s.first))
		for name, end := range map[string]up.Step{"orderly": up.FIN, "cut": up.Cut} {
			before := u.N()
			u.Script(up.Seq(broken, end))
			for i := 1; i <= 2; i++ { // it is never kept
				st := g.Open(s.path, s.body, "Idempotency-Key: "+name)
				st.Rest()
				if !strings.HasPrefix(st.Raw(), s.preamble+s.first) {
					t.Errorf("%s: what came before is lost: %q", name, st.Raw())
				}
				last := lastEvent(st.Raw())
				if !gjson.Get(last.Data, "error.message").Exists() && !strings.Contains(gjson.Get(last.Data, "type").String(), "error") {
					t.Errorf("%s: it ended without an error: %q", name, st.Raw())
				}
				wantCalls(t, u, before+i)
			}
		}
		// Before anything that a reader could act on, it is tried again.
		before := u.N()
		u.Script(up.Seq(up.Open(), up.Bytes(s.preamble), up.Cut), up.Seq(up.Open(), up.Bytes(s.preamble, s.first, s.rest)))
		a := g.Post(s.path, s.body)
		if a.Body != s.preamble+s.first+s.rest {
			t.Errorf("got %q", a.Body)
		}
		wantCalls(t, u, before+2)
	})
}

func TestSurfacesOfAnErrorInAStream(t *testing.T) {
	each(t, nil, func(t *testing.T, s surface, u *up.Server, g *harness.Gateway) {
		overloaded := named(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
		u.Script(up.Seq(up.Open(), up.Bytes(s.preamble, overloaded)), up.Seq(up.Open(), up.Bytes(s.preamble, s.first, s.rest)))
		if a := g.Post(s.path, s.body); a.Status != 200 || a.Body != s.preamble+s.first+s.rest {
			t.Errorf("%d %q", a.Status, a.Body)
		}
		wantCalls(t, u, 2)
	})
}

// Finished by a limit: a retry's and a key's answer, never a mere duplicate's.
func TestSurfacesOfAnAnswerCutByALimit(t *testing.T) {
	each(t, harness.Config{"dedupe.mode": "always"}, func(t *testing.T, s surface, u *up.Server, g *harness.Gateway) {
		u.Script(up.Seq(up.Open(), up.Bytes(s.preamble, s.first, s.cut)))
		wantOutcome(t, g.Post(s.path, s.body), 200, "executed", "")
		wantOutcome(t, g.Post(s.path, s.body, marks[0]), 200, "replayed", "retry_marked")
		a := g.Post(s.path, s.body)
		wantOutcome(t, a, 200, "executed", "")
		if a.Body != s.preamble+s.first+s.cut {
			t.Errorf("got %q", a.Body)
		}
		wantCalls(t, u, 2)
	})
}

func TestSurfacesOfTwinsThatAreNotStreamed(t *testing.T) {
	each(t, nil, func(t *testing.T, s surface, u *up.Server, g *harness.Gateway) {
		gate := make(chan struct{})
		u.Script(up.Seq(up.Gate(gate), up.Status(200, s.whole)))
		body := strings.Replace(s.body, `"stream":true,`, "", 1)
		a := g.Go(s.path, body)
		u.Call(1)
		b := g.Go(s.path, body)
		following(t, g, 1)
		close(gate)
		for i, p := range []*harness.Pending{a, b} {
			got := p.Answer()
			if got.Body != s.whole || got.Outcome() != [...]string{"executed", "coalesced"}[i] {
				t.Errorf("%q %q", got.Outcome(), got.Body)
			}
		}
		wantCalls(t, u, 1)
	})
}

func TestSurfacesHeartbeat(t *testing.T) {
	each(t, harness.Config{"server.heartbeat": "200ms"}, func(t *testing.T, s surface, u *up.Server, g *harness.Gateway) {
		u.Script(up.Seq(up.Open(), up.Bytes(s.preamble, s.first), up.Pause(time.Second), up.Bytes(s.rest)))
		st := g.Open(s.path, s.body)
		st.Rest()
		if !strings.Contains(st.Raw(), "\n:") {
			t.Errorf("no comment in a second of silence: %q", st.Raw())
		}
		want, got := harness.Decode(s.preamble+s.first+s.rest), harness.Decode(st.Raw())
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// A provider serves what it speaks: where none does, the answer says so and
// nothing is sent.
func TestSurfacesThatNoTargetSpeaks(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{
		"providers": []any{harness.Provider("up", u.URL()), harness.Anthropic("claude", u.URL())},
		"models":    []any{harness.Model("claude-x", "claude"), harness.Model("*", "up")},
	})
	a := g.Chat(`{"model":"claude-x","messages":[]}`)
	if a.Status < 400 || a.Status >= 500 || a.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	a = g.Post(harness.Messages, message)
	if a.Status < 400 || a.Status >= 500 || a.Field("type").String() != "error" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	wantUnseen(t, u, 0)
}
