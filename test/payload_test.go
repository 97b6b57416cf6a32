package test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// wantSent says that the upstream's n-th call had this body, byte for byte.
func wantSent(t *testing.T, u *up.Server, n int, body string) {
	t.Helper()
	if got := string(u.Call(n).Body); got != body {
		t.Errorf("sent upstream:\n%s\nwant:\n%s", got, body)
	}
}

func TestB018UnknownRequestFields(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	fields := []string{
		`"enable_thinking":false`, `"web_search_options":{"search_context_size":"low"}`, `"service_tier":"flex"`,
		`"prediction":{"type":"content","content":"z"}`, `"verbosity":"low"`, `"x_new":{"a":[1,null]}`,
	}
	all := cc(fields...)
	g.Chat(all)
	wantSent(t, u, 1, all)
	for i := range fields {
		fewer := append(append([]string{}, fields[:i]...), fields[i+1:]...)
		g.Chat(cc(fewer...))
		wantSent(t, u, i+2, cc(fewer...))
	}
	wantCalls(t, u, 1+len(fields))
}

func TestB019UnknownResponseFields(t *testing.T) {
	t.Parallel()
	const extra = `"service_tier":"default","system_fingerprint":"fp_1","x_groq":{"id":"req_1"}`
	const usage = `"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"cost_in_usd_ticks":15500000,"queue_time":0.01,"prompt_tokens_details":{"cached_tokens":4}}`
	const inside = `"reasoning_content":"r","annotations":[],"refusal":null`
	const logprobs = `"logprobs":{"content":[{"token":"h","logprob":-0.1,"bytes":[104],"top_logprobs":[]}],"refusal":null}`
	whole := `{"id":"c1","object":"chat.completion","created":1700000000,"model":"m1",` + extra + `,"choices":[{"index":0,"message":{"role":"assistant","content":"h",` + inside + `},` + logprobs + `,"finish_reason":"stop"}],` + usage + `}`
	chunk := `{"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"m1",` + extra + `,"choices":[{"index":0,"delta":{"role":"assistant","content":"h",` + inside + `},` + logprobs + `,"finish_reason":null}]}`
	last := `{"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],` + usage + `,"x_groq":{"id":"req_1"}}`

	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		if c.Field("stream").Bool() {
			return up.Seq(up.Gate(gate), up.SSE(chunk, last, up.Done))
		}
		return up.Seq(up.Gate(gate), up.Status(200, whole))
	})
	g := harness.Start(t, u.URL())
	a, b := g.Go(harness.Chat, cc()), g.Go(harness.Chat, cc(stream))
	u.Call(2)
	c, d := g.Go(harness.Chat, cc()), g.Go(harness.Chat, cc(stream))
	following(t, g, 2)
	close(gate)
	streamed := events("\n", chunk, last, up.Done)
	for name, x := range map[string]struct {
		a    *harness.Answer
		want string
	}{
		"live":            {a.Answer(), whole},
		"live stream":     {b.Answer(), streamed},
		"followed":        {c.Answer(), whole},
		"followed stream": {d.Answer(), streamed},
		"replayed":        {g.Chat(cc(), marks[0]), whole},
		"replayed stream": {g.Chat(cc(stream), marks[0]), streamed},
	} {
		if x.a.Status != 200 || x.a.Body != x.want {
			t.Errorf("%s: got %d\n%s\nwant\n%s", name, x.a.Status, x.a.Body, x.want)
		}
	}
	wantCalls(t, u, 2)
}

func TestB020ExplicitZerosSurvive(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	zeros := []string{
		`"temperature":0`, `"top_p":0`, `"presence_penalty":0`, `"seed":0`, `"top_logprobs":0`,
		`"parallel_tool_calls":false`, `"logprobs":false`, `"user":""`, `"stop":[]`, `"n":1`,
	}
	g.Chat(cc(zeros...))
	wantSent(t, u, 1, cc(zeros...))
	g.Chat(cc(zeros[1:]...))
	wantSent(t, u, 2, cc(zeros[1:]...))
}

func TestB021NullEmptyAndAbsentAreThreeThings(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	const calls = `"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	const tool = `{"role":"tool","tool_call_id":"call_1","content":"ok"}`
	for i, assistant := range []string{
		`{"role":"assistant","content":null,` + calls + `}`,
		`{"role":"assistant","content":"",` + calls + `}`,
		`{"role":"assistant",` + calls + `}`,
		`{"role":"assistant","content":""}`,
	} {
		body := `{"model":"m1","messages":[{"role":"user","content":"hi"},` + assistant + `,` + tool + `]}`
		if a := g.Chat(body); a.Status != 200 {
			t.Errorf("%s: %d %s", assistant, a.Status, a.Body)
		}
		wantSent(t, u, i+1, body)
	}
	wantCalls(t, u, 4)
}

func TestB022NumbersAreText(t *testing.T) {
	t.Parallel()
	numbers := `[9007199254740993,18446744073709551615,1.0,1e-7,0.30000000000000004,-0,1E400,0.10]`
	answer := strings.Replace(up.Completion("ok"), `"created":1700000000`, `"created":9007199254740993,"numbers":`+numbers, 1)
	u := up.New(t, up.Status(200, answer))
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	body := cc(`"metadata":{"ids":` + numbers + `}`)
	if a := g.Chat(body); a.Body != answer {
		t.Errorf("got %s", a.Body)
	}
	wantSent(t, u, 1, body)
	if a := g.Chat(body); a.Body != answer || a.Outcome() != "replayed" {
		t.Errorf("%q: got %s", a.Outcome(), a.Body)
	}
	// 993 and 992 are one number as a double, and two orders.
	g.Chat(cc(`"order":9007199254740993`))
	g.Chat(cc(`"order":9007199254740992`))
	wantCalls(t, u, 3)
	// The edits that the gateway makes leave them too.
	renamed := harness.Model("m9", "up")
	renamed["targets"] = []any{harness.Map{"provider": "up", "model": "other"}}
	g = harness.Start(t, u.URL(), harness.Config{"models": []any{renamed}})
	g.Chat(strings.Replace(body, `"m1"`, `"m9"`, 1))
	wantSent(t, u, 4, strings.Replace(body, `"m1"`, `"other"`, 1))
}

func TestB023OrderAndCharactersOfSchemas(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	const one = `{"reasoning":{"type":"string"},"label":{"type":"string"}}`
	const two = `{"label":{"type":"string"},"reasoning":{"type":"string"}}`
	format := func(properties string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":` + properties + `}}}`
	}
	tools := func(properties string) string {
		return `"tools":[{"type":"function","function":{"name":"f","description":"a<b & c>d \u2028 é","parameters":{"type":"object","properties":` + properties + `}}}]`
	}
	bodies := []string{
		said(`a<b & c>d \u2028 é`, format(one)), said(`a<b & c>d \u2028 é`, format(two)),
		cc(tools(one)), cc(tools(two)),
		cc(strings.Replace(tools(one), `"tools"`, `"functions"`, 1)), cc(strings.Replace(tools(two), `"tools"`, `"functions"`, 1)),
	}
	for i, body := range bodies {
		wantText(t, g.Chat(body), number(i+1), "executed", "")
		wantSent(t, u, i+1, body)
	}
	// At the top, and in what is no schema, order means nothing.
	wantText(t, g.Chat(`{`+tools(one)+`,"messages":[{"content":"hi","role":"user"}],"model":"m1"}`), number(3), "replayed", "within_ttl")
	wantCalls(t, u, len(bodies))
}

func TestB025DuplicateAndCaseVariantMembers(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	key := harness.Key("alice", harness.K1)
	key["models"] = []any{"cheap"}
	g := harness.Start(t, u.URL(), harness.Config{"auth.keys": []any{key}, "dedupe.mode": "always"})
	as := harness.Bearer(harness.K1)
	bad := problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}
	for _, body := range []string{
		`{"model":"cheap","model":"dear","messages":[]}`,
		`{"model":"cheap","model":"cheap","messages":[]}`,
		`{"model":"cheap","mod\u0065l":"dear","messages":[]}`,
		`{"mod\u0065l":"dear","messages":[],"model":"cheap"}`,
		`{"model":"cheap","stream":true,"stream":false,"messages":[]}`,
		`{"model":"cheap","stream":false,"messages":[],"\u0073tream":true}`,
	} {
		bad.want(t, g.Chat(body, as))
	}
	wantUnseen(t, u, 0)
	// Only "model" in exactly these letters is the model.
	for _, body := range []string{
		`{"MODEL":"dear","model":"cheap","messages":[]}`,
		`{"model":"cheap","messages":[],"Model":"dear"}`,
		`{"mod\u0065l":"cheap","messages":[]}`,
		`{"model":"che\u0061p","messages":[ ]}`, // the same request as the one before
		// Deep inside the gateway reads nothing: such a body is keyed on its bytes.
		`{"model":"cheap","messages":[],"metadata":{"a":1,"a":2}}`,
		`{"model":"cheap","messages":[],"metadata":{"a":2,"a":1}}`,
		`{"model":"cheap","messages":[{"role":"user","content":"\ud800"}]}`,
	} {
		if a := g.Chat(body, as); a.Status != 200 {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	problem{403, "not_allowed", "false", "refused", "not_allowed", ""}.want(t, g.Chat(`{"MODEL":"cheap","model":"dear","messages":[]}`, as))
	bad.want(t, g.Chat(`{"MODEL":"cheap","messages":[]}`, as))
	wantSent(t, u, 1, `{"MODEL":"dear","model":"cheap","messages":[]}`)
	for _, c := range u.Calls() {
		if strings.Contains(string(c.Body), `"a":1,"a":2`) {
			wantText(t, g.Chat(string(c.Body), as), number(c.N), "replayed", "within_ttl")
		}
	}
	wantCalls(t, u, 6)
}

func TestB026SeveralChoices(t *testing.T) {
	t.Parallel()
	of := func(index int, text string) string {
		return fmt.Sprintf(`{"choices":[{"index":%d,"delta":{"content":"%s"},"logprobs":{"content":[{"token":"%s","logprob":-0.5,"top_logprobs":[{"token":"x","logprob":-1},{"token":"y","logprob":-2}]}]},"finish_reason":null}]}`, index, text, text)
	}
	body := cc(`"n":2`, `"logprobs":true`, `"top_logprobs":2`, stream)
	items := []string{of(0, "a"), of(1, "b"), of(0, "c"), up.DeltaOf(0, "{}", "stop"), of(1, "d"), up.DeltaOf(1, "{}", "stop"), up.Done}
	t.Run("both finish", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.SSE(items...))
		g := harness.Start(t, u.URL())
		for _, outcome := range []string{"executed", "replayed"} {
			a := g.Chat(body, "Idempotency-Key: k")
			if a.Body != events("\n", items...) || a.Outcome() != outcome {
				t.Errorf("%q: got %q", a.Outcome(), a.Body)
			}
		}
		wantCalls(t, u, 1)
	})
	t.Run("one does not", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.SSE(append(append([]string{}, items[:5]...), items[6:]...)...))
		g := harness.Start(t, u.URL())
		for range 2 {
			a := g.Try("POST", harness.Chat, body, "Idempotency-Key: k")
			if a.Outcome() == "replayed" {
				t.Error("a stream with an unfinished choice was kept")
			}
		}
		wantCalls(t, u, 2)
	})
	t.Run("one does not, no [DONE]", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.SSE(items[:5]...))
		g := harness.Start(t, u.URL())
		s := g.Open(harness.Chat, body)
		s.Rest()
		got := harness.Data(s.Raw())
		if strings.Contains(s.Raw(), up.Done) || !gjson.Get(got[len(got)-1], "error").Exists() {
			t.Errorf("a truncated stream ended well: %q", s.Raw())
		}
	})
}

func TestB032EveryShapeOfErrorBody(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	for i, c := range []struct {
		body string
		as   bool // passes as it came
	}{
		{`{"error":{"message":"m","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, true},
		{`{"error":{"message":"m","code":400}}`, true},
		{`{"error": {"message":"m","code":null}}`, true},
		{`{"object":"error","message":"m","code":400}`, true},
		{`{"error":"text"}`, true},
		{`{"detail":"x"}`, true},
		{`[{"error":{"message":"in a list"}}]`, false},
		{`null`, false},
		{`"a string"`, false},
		{`{"error":`, false},
		{`plain words`, false},
		{``, false},
	} {
		u.Script(up.Status(400, c.body))
		for _, extra := range []string{`"n":1`, stream} {
			a := g.Chat(said(fmt.Sprint(i), extra))
			if a.Status != 400 || a.Outcome() != "executed" {
				t.Errorf("%q: %d %q", c.body, a.Status, a.Outcome())
			}
			if c.as {
				if a.Body != c.body {
					t.Errorf("%q came as %q", c.body, a.Body)
				}
				continue
			}
			problem{400, "", "", "executed", "", ""}.want(t, a)
			if text := strings.Trim(c.body, `"`); text != "null" && !strings.Contains(a.Field("error.message").String(), text) {
				t.Errorf("the message does not quote %q: %s", c.body, a.Body)
			}
		}
		wantCalls(t, u, 2*(i+1))
	}
}

func TestB033HTMLErrorPage(t *testing.T) {
	t.Parallel()
	page := "<html><head><title>502 Bad Gateway</title></head><body>" + strings.Repeat("<p>sorry</p>", 3300) + "END-OF-PAGE</body></html>"
	u := up.New(t, up.Status(502, page, "Content-Type: text/html"))
	g := harness.Start(t, u.URL())
	a := g.Chat(cc())
	problem{502, "upstream_error", "false", "failed", "attempts_exhausted", ""}.want(t, a)
	message := a.Field("error.message").String()
	if len(message) > 1200 || !strings.Contains(message, "502") {
		t.Errorf("%d bytes of message: %s", len(message), message)
	}
	g.Stop()
	for what, text := range map[string]string{"answer": a.Body, "log": g.Log()} {
		if strings.Contains(text, "END-OF-PAGE") || strings.Count(text, "<p>sorry</p>") > 90 {
			t.Errorf("the page is in the %s", what)
		}
	}
	wantCalls(t, u, 3)
}

func TestB034EmptyAnswers(t *testing.T) {
	t.Parallel()
	t.Run("then a good one", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Status(200, ""), up.Status(200, `{"choices":[]}`), up.OK("good"))
		g := harness.Start(t, u.URL())
		wantText(t, g.Chat(cc()), "good", "executed", "")
		wantCalls(t, u, 3)
	})
	for name, body := range map[string]string{"nothing": "", "no choices": `{"id":"x"}`, "blanks": " \n ", "null": "null"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, up.Status(200, body))
			g := harness.Start(t, u.URL())
			problem{502, "upstream_error", "false", "failed", "attempts_exhausted", ""}.want(t, g.Chat(cc(), "Idempotency-Key: k"))
			wantCalls(t, u, 3)
			if n := g.Metrics().Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`); n != 3 {
				t.Errorf("%v attempts ambiguous, want 3", n)
			}
			// A failure's memo answers, and is not the answer that is kept.
			u.Script(up.OK("good"))
			if a := g.Chat(cc(), "Idempotency-Key: k"); a.Outcome() == "replayed" {
				t.Errorf("an empty answer was kept: %s", a.Body)
			}
		})
	}
	for name, message := range map[string]string{
		"tool calls":         `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		"refusal":            `{"role":"assistant","content":null,"refusal":"no"}`,
		"an empty text":      `{"role":"assistant","content":""}`,
		"reasoning, no text": `{"role":"assistant","content":null,"reasoning_content":"hm"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := `{"choices":[{"index":0,"message":` + message + `,"finish_reason":"stop"}]}`
			u := up.New(t, up.Status(200, answer))
			g := harness.Start(t, u.URL())
			if a := g.Chat(cc()); a.Status != 200 || a.Body != answer {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			wantCalls(t, u, 1)
		})
	}
}

func TestB035ErrorsInA200(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body          string
		status, calls int
	}{
		"by its code":        {`{"error":{"message":"ResourceExhausted","code":502}}`, 502, 3},
		"nameless":           {`{"error":{"message":"ResourceExhausted"}}`, 502, 3},
		"the client's fault": {`{"error":{"message":"too long","code":"context_length_exceeded"}}`, 400, 1},
		"a rate limit":       {`{"error":{"message":"slow down","type":"rate_limit_error","code":429}}`, 429, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, up.Status(200, c.body))
			g := harness.Start(t, u.URL())
			a := g.Chat(cc(), "Idempotency-Key: k")
			problem{c.status, "", "false", "", "", ""}.head(t, a)
			if a.Field("error.message").String() != gjson.Get(c.body, "error.message").String() {
				t.Errorf("the upstream's error came as %s", a.Body)
			}
			wantCalls(t, u, c.calls)
			if a := g.Chat(cc(), "Idempotency-Key: k"); a.Outcome() == "replayed" || a.Status == 200 {
				t.Errorf("it was kept: %d %q", a.Status, a.Outcome())
			}
			if n := g.Metrics().Sum("oncegate_saved_requests_total"); n != 0 {
				t.Errorf("%v saved", n)
			}
		})
	}
}

func gzipped(t *testing.T, body []byte) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestB036CompressedRequestBodies(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	body := said(strings.Repeat("long text ", 200))
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, g.Chat(gzipped(t, []byte(body)), "Content-Encoding: gzip"), number(1), "executed", "")
	wantText(t, g.Chat(string(enc.EncodeAll([]byte(body), nil)), "Content-Encoding: zstd"), number(1), "replayed", "within_ttl")
	wantText(t, g.Chat(body), number(1), "replayed", "within_ttl")
	wantText(t, g.Chat(body, "Content-Encoding: identity"), number(1), "replayed", "within_ttl")
	c := u.Call(1)
	if string(c.Body) != body || c.Get("Content-Encoding") != "" || c.Get("Content-Length") != fmt.Sprint(len(body)) {
		t.Errorf("sent upstream: %s%s", c.Head, c.Body)
	}
	for _, enc := range []string{"br", "deflate", "gzip, gzip"} {
		a := g.Chat(body, "Content-Encoding: "+enc)
		problem{415, "unsupported_encoding", "false", "refused", "unsupported_encoding", ""}.want(t, a)
		if !strings.Contains(a.Field("error.message").String(), enc) {
			t.Errorf("the message does not name %s: %s", enc, a.Body)
		}
	}
	whole := gzipped(t, []byte(body))
	for _, broken := range []string{whole[:len(whole)/2], "\x1f\x8bnonsense", strings.Replace(whole, whole[len(whole)-6:], "abcdef", 1)} {
		problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}.want(t, g.Chat(broken, "Content-Encoding: gzip"))
	}
	wantCalls(t, u, 1)
}

func TestB038LargeBodies(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step { return up.OK(digest(c.Body)) })
	g := harness.Start(t, u.URL(), harness.Shipped(), harness.Plain) // the race detector makes megabytes slow
	image := func(n int) string {
		return `{"model":"m1","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", n) + `"}}]}]}`
	}
	for i, size := range []int{5 << 20, 20 << 20} {
		body := image(size)
		wantText(t, g.Chat(body), digest([]byte(body)), "executed", "")
		if got := len(u.Call(i + 1).Body); got != len(body) {
			t.Errorf("%d bytes sent of %d", got, len(body))
		}
	}
	const limit = 32 << 20
	over := image(limit - len(image(0)) + 1)
	// With its length said, and as chunks whose end nobody knows.
	problem{413, "request_too_large", "false", "refused", "too_large", ""}.want(t, g.Chat(over))
	req, err := http.NewRequest(http.MethodPost, "http://"+g.Addr+harness.Chat, struct{ *strings.Reader }{strings.NewReader(over)})
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("the connection was just dropped: %v", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != 413 {
		t.Errorf("in chunks: %d", res.StatusCode)
	}
	wantCalls(t, u, 2)
	if a := g.Chat(image(limit - len(image(0)))); a.Status != 200 {
		t.Errorf("a body of exactly the limit: %d", a.Status)
	}
}

func TestB038LargeAnswers(t *testing.T) {
	t.Parallel()
	answer := up.Completion(strings.Repeat("x", 12<<20))
	u := up.New(t, up.Status(200, answer))
	g := harness.Start(t, u.URL(), harness.Shipped(), harness.Plain)
	for i := range 2 {
		a := g.Chat(cc(), "Idempotency-Key: k")
		if a.Status != 200 || a.Body != answer {
			t.Errorf("%d, %d bytes of %d", a.Status, len(a.Body), len(answer))
		}
		// Beyond store.max_body it is relayed and not kept.
		wantCalls(t, u, i+1)
	}
}

func TestB039LimitsAndRolesStay(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	const messages = `"messages":[{"role":"developer","content":"d"},{"role":"user","content":"u"}]`
	for i, limit := range []string{`"max_completion_tokens":50`, `"max_tokens":50`, `"max_tokens":50,"max_completion_tokens":50`} {
		body := `{"model":"m1",` + messages + `,` + limit + `,"reasoning_effort":"low"}`
		g.Chat(body)
		wantSent(t, u, i+1, body)
	}
	wantCalls(t, u, 3)
}

// One target may have another name for a model: one value changes, in place.
func TestRenamedModel(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	renamed := harness.Model("nice", "up")
	renamed["targets"] = []any{harness.Map{"provider": "up", "model": `vendor/real "x"`}}
	g := harness.Start(t, u.URL(), harness.Config{"models": []any{renamed}})
	body := `{ "messages":[{"role":"user","content":"nice"}], "model" : "nice" , "metadata":{"model":"nice"} }`
	a := g.Chat(body)
	if got := a.Header.Get("Oncegate-Target"); got != `up/vendor/real "x"` {
		t.Errorf("Oncegate-Target: %q", got)
	}
	wantSent(t, u, 1, strings.Replace(body, `"model" : "nice"`, `"model" : "vendor/real \"x\""`, 1))
}
