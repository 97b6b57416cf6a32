package providers

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"oncegate/policy"
	"oncegate/prices"
)

// A stream's rules: what its readers see, piece by piece, and how it ends.
func TestStreams(t *testing.T) {
	ev := func(name, d string) string { return "event: " + name + "\ndata: " + d + "\n\n" }
	start := ev("message_start", `{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":5,"output_tokens":1}}}`)
	block := ev("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	toolBlock := ev("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"pay","input":{}}}`)
	delta := ev("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`)
	stopped := ev("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`)
	maxed := ev("message_delta", `{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":7}}`)
	stop := ev("message_stop", `{"type":"message_stop"}`)

	created := ev("response.created", `{"type":"response.created","response":{"status":"in_progress"}}`)
	textDelta := ev("response.output_text.delta", `{"type":"response.output_text.delta","delta":"hi"}`)
	completed := ev("response.completed", `{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":20,"input_tokens_details":{"cached_tokens":8},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":25}}}`)
	incomplete := ev("response.incomplete", `{"type":"response.incomplete","response":{"status":"incomplete"}}`)
	respFailed := ev("response.failed", `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow down"}}}`)

	choice := func(i, body string) string { return data(`{"choices":[{"index":` + i + `,` + body + `}]}`) }
	withUsage := data(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":16000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":15000}}}`)

	type outcome struct {
		wire  Wire
		sent  []string
		kinds string // runs of Preamble, Content, Usage
		drop  string // what was sent and is not given on
		add   string // what is given on and was not sent
		whole bool
		cut   bool
		usage prices.Usage
		// of a failure
		fails  bool
		phase  policy.Phase
		status int
		bad    bool
	}
	for name, c := range map[string]outcome{
		"plain":                          {sent: []string{role, text("a"), text("b"), finish, done}, kinds: "PC", whole: true},
		"usage is a piece of its own":    {sent: []string{role, text("a"), finish, used, done}, kinds: "PCUC", whole: true, usage: prices.Usage{Known: true, Input: 9, Output: 2}},
		"usage without a choices key":    {sent: []string{text("a"), finish, data(`{"usage":{"prompt_tokens":3,"completion_tokens":1}}`), done}, kinds: "CUC", whole: true, usage: prices.Usage{Known: true, Input: 3, Output: 1}},
		"B030 usage beside choices":      {sent: []string{text("a"), withUsage, done}, kinds: "C", whole: true, usage: prices.Usage{Known: true, Input: 16000, Output: 2, Cached: 15000}},
		"usage null is none":             {sent: []string{data(`{"choices":[],"usage":null}`), text("a"), finish, done}, kinds: "PC", whole: true},
		"B029 filter results":            {sent: []string{data(`{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}`), text("a"), finish, done}, kinds: "PC", whole: true},
		"B004 comments":                  {sent: []string{": WAIT\n\n", ": WAIT\n\n", text("ok"), ": WAIT\n\n", finish, done}, kinds: "PC", whole: true},
		"B006 empty data":                {sent: []string{"data:\n\n", "data: \n\n", "event: ping\ndata: {}\n\n", text("ok"), finish, done}, kinds: "PC", whole: true},
		"B009 no DONE":                   {sent: []string{text("a"), finish, used}, kinds: "CUC", add: done, whole: true, usage: prices.Usage{Known: true, Input: 9, Output: 2}},
		"DONE without finish":            {sent: []string{text("a"), done}, kinds: "C"},
		"DONE and nothing else":          {sent: []string{role, done}, kinds: "P", drop: done, fails: true, phase: policy.Answered, status: 502, bad: true},
		"neither finish nor DONE":        {sent: []string{role, text("a")}, kinds: "PC", fails: true, phase: policy.Broken},
		"case 24: a role and an end":     {sent: []string{role}, kinds: "P", fails: true, phase: policy.Broken},
		"B034 an empty stream":           {sent: []string{""}, fails: true, phase: policy.Answered, status: 502, bad: true},
		"only comments":                  {sent: []string{": x\n\n"}, kinds: "P", fails: true, phase: policy.Answered, status: 502, bad: true},
		"DONE without its empty line":    {sent: []string{text("a"), finish, "data: [DONE]"}, kinds: "C", add: "\n\n", whole: true},
		"finish without its empty line":  {sent: []string{text("a"), strings.TrimRight(finish, "\n")}, kinds: "C", add: "\n\n" + done, whole: true},
		"half an event after the finish": {sent: []string{text("a"), finish, `data: {"choi`}, kinds: "C", drop: `data: {"choi`, add: done, whole: true},
		"half an event":                  {sent: []string{text("a"), `data: {"choices":[{"index":0,"fini`}, kinds: "C", drop: `data: {"choices":[{"index":0,"fini`, fails: true, phase: policy.Broken},
		"B026 two choices": {sent: []string{choice("0", `"delta":{"content":"a"}`), choice("1", `"delta":{"content":"b"}`), choice("0", `"delta":{},"finish_reason":"stop"`),
			choice("1", `"delta":{},"finish_reason":"length"`)}, kinds: "C", add: done, whole: true, cut: true},
		"B026 one finish of two": {sent: []string{choice("0", `"delta":{"content":"a"}`), choice("1", `"delta":{"content":"b"}`), choice("0", `"delta":{},"finish_reason":"stop"`)},
			kinds: "C", fails: true, phase: policy.Broken},
		"a high index":        {sent: []string{choice("70", `"delta":{"content":"a"}`), choice("70", `"delta":{},"finish_reason":"stop"`), done}, kinds: "C", whole: true},
		"tool call deltas":    {sent: []string{choice("0", `"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"t"}]}`), finish, done}, kinds: "C", whole: true},
		"reasoning deltas":    {sent: []string{choice("0", `"delta":{"role":"assistant","reasoning_content":"hm"}`), finish, done}, kinds: "C", whole: true},
		"a role and nothings": {sent: []string{choice("0", `"delta":{"role":"assistant","content":null,"refusal":null,"tool_calls":[]}`), text("a"), finish, done}, kinds: "PC", whole: true},
		"cut by the filter":   {sent: []string{text("a"), choice("0", `"delta":{},"finish_reason":"content_filter"`), done}, kinds: "C", whole: true, cut: true},
		"after DONE nothing":  {sent: []string{text("a"), finish, done, "data: {\"error\":{}}\n\n: x\n\n"}, kinds: "C", drop: "data: {\"error\":{}}\n\n: x\n\n", whole: true},
		"BOM and CRLF": {sent: []string{"\xef\xbb\xbf" + strings.ReplaceAll(role+text("a")+finish+done, "\n", "\r\n")},
			kinds: "PC", whole: true},
		"CR only": {sent: []string{strings.ReplaceAll(role+text("a")+finish+done, "\n", "\r")}, kinds: "PC", whole: true},
		"an event over many lines": {sent: []string{"data: {\"choices\":\ndata: [{\"index\":0,\"delta\":{\"content\":\"a\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n", done},
			kinds: "C", whole: true},
		"legacy completions": {wire: Completions, sent: []string{data(`{"choices":[{"index":0,"text":"a","finish_reason":null}]}`), data(`{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`), done},
			kinds: "C", whole: true},

		"B011 an error first": {sent: []string{data(`{"error":{"message":"overloaded","type":"server_error","code":503}}`)},
			drop: data(`{"error":{"message":"overloaded","type":"server_error","code":503}}`), fails: true, phase: policy.Broken, status: 503, bad: true},
		"B012 an error after content": {sent: []string{role, text("A"), text("B"), data(`{"error":{"message":"x","code":"server_error"}}`)},
			drop: data(`{"error":{"message":"x","code":"server_error"}}`), kinds: "PC", fails: true, phase: policy.Broken, status: 500, bad: true},
		"an error in the same read": {sent: []string{role + text("A") + data(`{"error":{"message":"x"}}`)},
			drop: data(`{"error":{"message":"x"}}`), kinds: "PC", fails: true, phase: policy.Broken, status: 502, bad: true},
		"event: error": {sent: []string{text("A"), ev("error", `{"message":"boom"}`)},
			drop: ev("error", `{"message":"boom"}`), kinds: "C", fails: true, phase: policy.Broken, status: 502, bad: true},
		"event: error with text": {sent: []string{ev("error", `boom`)}, drop: ev("error", `boom`), fails: true, phase: policy.Broken, status: 502, bad: true},
		"an error beside choices": {sent: []string{text("A"), data(`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"code":429,"message":"slow"}}`)},
			drop: data(`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"code":429,"message":"slow"}}`), kinds: "C", fails: true, phase: policy.Broken, status: 429, bad: true},
		"error null is none": {sent: []string{data(`{"error":null,"choices":[{"index":0,"delta":{"content":"a"}}]}`), finish, done}, kinds: "C", whole: true},

		"messages": {wire: Messages, sent: []string{start, ev("ping", `{"type":"ping"}`), block, delta, stopped, stop}, kinds: "PC", whole: true,
			usage: prices.Usage{Known: true, Input: 115, Output: 7, Cached: 100, CacheWrite5m: 5}},
		"messages, cut":           {wire: Messages, sent: []string{start, block, delta, maxed, stop}, kinds: "PC", whole: true, cut: true, usage: prices.Usage{Known: true, Input: 115, Output: 7, Cached: 100, CacheWrite5m: 5}},
		"messages, a tool":        {wire: Messages, sent: []string{toolBlock, stop}, kinds: "C", whole: true},
		"messages without a stop": {wire: Messages, sent: []string{start, delta, stopped}, kinds: "PC", fails: true, phase: policy.Broken},
		"messages, overloaded":    {wire: Messages, sent: []string{start, ev("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)}, kinds: "P", drop: ev("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), fails: true, phase: policy.Broken, status: 529, bad: true},
		"messages without names":  {wire: Messages, sent: []string{data(`{"type":"content_block_delta","delta":{"text":"a"}}`), data(`{"type":"message_stop"}`)}, kinds: "C", whole: true},
		"responses":               {wire: Responses, sent: []string{created, textDelta, completed}, kinds: "PC", whole: true, usage: prices.Usage{Known: true, Input: 20, Output: 5, Cached: 8, Reasoning: 3}},
		"responses, incomplete":   {wire: Responses, sent: []string{created, textDelta, incomplete}, kinds: "PC", whole: true, cut: true},
		"responses, failed first": {wire: Responses, sent: []string{created, respFailed}, kinds: "P", drop: respFailed, fails: true, phase: policy.Broken, status: 429, bad: true},
		"responses, failed later": {wire: Responses, sent: []string{created, textDelta, respFailed}, kinds: "PC"},
		"responses, an error":     {wire: Responses, sent: []string{textDelta, ev("error", `{"type":"error","code":"server_error","message":"x"}`)}, kinds: "C", drop: ev("error", `{"type":"error","code":"server_error","message":"x"}`), fails: true, phase: policy.Broken, status: 500, bad: true},
		"responses, cut":          {wire: Responses, sent: []string{created, textDelta}, kinds: "PC", fails: true, phase: policy.Broken},
		"responses without names": {wire: Responses, sent: []string{data(`{"type":"response.created"}`), data(`{"type":"response.completed","response":{}}`)}, kinds: "PC", whole: true},
		"speech":                  {wire: Speech, sent: []string{data(`{"type":"speech.audio.delta","audio":"AA"}`), data(`{"type":"speech.audio.done","usage":{"input_tokens":3,"output_tokens":4}}`)}, kinds: "C", whole: true, usage: prices.Usage{Known: true, Input: 3, Output: 4}},
		"transcription":           {wire: Transcriptions, sent: []string{data(`{"type":"transcript.text.delta","delta":"a"}`), data(`{"type":"transcript.text.done","text":"a"}`)}, kinds: "C", whole: true},
		"transcription, cut":      {wire: Transcriptions, sent: []string{data(`{"type":"transcript.text.delta","delta":"a"}`)}, kinds: "C", fails: true, phase: policy.Broken},
		"two images":              {wire: Images, sent: []string{data(`{"type":"image_generation.completed","usage":{"input_tokens":1,"output_tokens":2}}`), data(`{"type":"image_generation.completed","usage":{"input_tokens":1,"output_tokens":2}}`)}, kinds: "C", whole: true, usage: prices.Usage{Known: true, Input: 2, Output: 4}},
		"raw goes as it is":       {wire: Raw, sent: []string{"event: error\ndata: {\"error\":1}\n\n", done, "data: more\n\n", "data: no end"}, kinds: "C", whole: true},
		"a choice without a finish": {sent: []string{choice("0", `"delta":{"content":"a"}`), choice("0", `"delta":{},"finish_reason":""`)}, kinds: "C",
			fails: true, phase: policy.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			if c.wire == 0 {
				c.wire = Chat
			}
			r := relay(t, serve(t, stream(c.sent...)))
			whole := strings.Join(c.sent, "")
			check := func(got read) {
				t.Helper()
				want := strings.TrimSuffix(whole, c.drop) + c.add
				if got.bytes() != want {
					t.Errorf("got %q\nwant %q", got.bytes(), want)
				}
				if got.kinds() != c.kinds {
					t.Errorf("kinds %s, want %s", got.kinds(), c.kinds)
				}
				if c.fails {
					failed(t, got.err, c.phase, c.status)
					if got.err.BadAnswer != c.bad {
						t.Errorf("BadAnswer %v", got.err.BadAnswer)
					}
					return
				}
				if got.err != nil {
					t.Fatalf("failed: %v", got.err)
				}
				got.end.Model = "" // see TestUsage
				if want := (End{Whole: c.whole, Cut: c.cut, Usage: c.usage}); got.end != want {
					t.Errorf("end %+v, want %+v", got.end, want)
				}
			}
			got := try(t, r, call(c.wire, hiStream))
			check(got)
			for _, p := range got.pieces {
				if strings.Contains(string(p.Data), "event: error") && c.wire != Raw {
					t.Errorf("an error event was given on: %q", p.Data)
				}
			}
			// B008: the same stream byte by byte. (What follows the end is not
			// read then.)
			if c.drop == "" || c.fails {
				var parts []string
				for i := range len(whole) {
					parts = append(parts, whole[i:i+1])
				}
				check(try(t, relay(t, serve(t, stream(parts...))), call(c.wire, hiStream)))
			}
		})
	}
}

// B002: lines of any length, untouched.
func TestLongLines(t *testing.T) {
	for _, n := range []int{70_000, 1_100_000, 4_000_000} {
		line := data(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"` + strings.Repeat("a", n) + `"}}]}}]}`)
		got := try(t, relay(t, serve(t, stream(line+text("b"), finish, done))), call(Chat, hiStream))
		if got.err != nil || got.bytes() != line+text("b")+finish+done || !got.end.Whole {
			t.Fatalf("%d: %v, %d bytes", n, got.err, len(got.bytes()))
		}
	}
}

// B003: a character cut between reads, byte for byte.
func TestCharactersCutInTwo(t *testing.T) {
	whole := text("\xe0\xb8\x81\xf0\x9f\x8c\x8d")
	i := strings.Index(whole, "\xe0") + 2
	got := try(t, relay(t, serve(t, stream(whole[:i], whole[i:i+3], whole[i+3:], finish, done))), call(Chat, hiStream))
	if got.bytes() != whole+finish+done {
		t.Fatalf("%q", got.bytes())
	}
}

// B001, B015: each event is there before the next one is sent, whichever line
// ends there are and wherever a CR LF is cut.
func TestEachEventAtOnce(t *testing.T) {
	for name, ending := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		t.Run(name, func(t *testing.T) {
			proceed := make(chan struct{})
			u := serve(t, func(c net.Conn) {
				io.WriteString(c, eventsHead)
				rest := ""
				for _, e := range []string{text("1"), text("2"), finish, done} {
					e = rest + strings.ReplaceAll(e, "\n", ending)
					rest = ""
					if strings.HasSuffix(e, "\r\n") {
						e, rest = e[:len(e)-1], "\n"
					}
					io.WriteString(c, chunk(e))
					if _, ok := <-proceed; !ok {
						return
					}
				}
			})
			a, err := relay(t, u).Try(t.Context(), call(Chat, hiStream), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			var all strings.Builder
			for i := range 4 {
				p, err := a.Next()
				if err != nil {
					t.Fatal(err)
				}
				all.Write(p.Data)
				if p.Last != (i == 3) {
					t.Fatalf("piece %d: last %v", i, p.Last)
				}
				if i < 3 {
					proceed <- struct{}{}
				}
			}
			close(proceed)
			if want := strings.ReplaceAll(text("1")+text("2")+finish+done, "\n", ending); all.String() != want {
				t.Fatalf("%q, want %q", all.String(), want)
			}
		})
	}
}

// B009b: [DONE] ends the answer though the upstream holds the connection.
func TestDoneEndsAtOnce(t *testing.T) {
	closed := make(chan struct{})
	u := serve(t, func(c net.Conn) {
		io.WriteString(c, eventsHead+chunk(text("a")+finish+done))
		hang(c)
		close(closed)
	})
	start := time.Now()
	got := try(t, relay(t, u), call(Chat, hiStream))
	if got.err != nil || !got.end.Whole || time.Since(start) > time.Second {
		t.Fatalf("%v after %v", got.err, time.Since(start))
	}
	select {
	case <-closed:
	case <-time.After(5 * time.Second):
		t.Fatal("the upstream's connection is still open")
	}
}

// A stream that ends properly leaves its connection to the next call.
func TestStreamConnectionsAreReused(t *testing.T) {
	u := serve(t, stream(text("a"), finish, done))
	r := relay(t, u)
	for range 20 {
		if got := try(t, r, call(Chat, hiStream)); got.err != nil {
			t.Fatal(got.err)
		}
		settle(r)
	}
	if n := u.connections(); n > 2 {
		t.Fatalf("%d connections for 20 calls one after the other", n)
	}
}

// settle waits until the background reading of the last answer is over.
func settle(r *Relay) {
	for deadline := time.Now().Add(2 * time.Second); r.drains.Load() > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

func TestResetsInStreams(t *testing.T) {
	for name, c := range map[string]struct {
		sent   []string
		fails  bool
		status int
	}{
		"before anything":  {nil, true, 0},
		"after content":    {[]string{text("a")}, true, 0},
		"after the finish": {[]string{text("a"), finish}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			// The reset must not overtake what was sent: it waits until that was read.
			read := make(chan struct{})
			sent := strings.Join(c.sent, "")
			u := serve(t, func(conn net.Conn) {
				io.WriteString(conn, eventsHead)
				if sent != "" {
					io.WriteString(conn, chunk(sent))
				}
				<-read
				reset(conn)
			})
			a, err := relay(t, u).Try(t.Context(), call(Chat, hiStream), "", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			var got string
			for got != sent {
				p, err := a.Next()
				if err != nil {
					t.Fatal(err)
				}
				got += string(p.Data)
			}
			close(read)
			p, err := a.Next()
			if !c.fails {
				if err != nil || !p.Last || string(p.Data) != done || !a.End().Whole {
					t.Fatalf("%+v %v", p, err)
				}
				return
			}
			failed(t, err, policy.Broken, 0)
		})
	}
}
