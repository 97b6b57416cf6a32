package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

const asks = `"stream_options":{"include_usage":true}`

// metered is an upstream that gives a usage chunk to those who ask for it.
func metered(usage string) func(*up.Call) up.Step {
	return func(c *up.Call) up.Step {
		items := []string{up.Role(), up.Chunk("a"), up.Finish()}
		if c.Field("stream_options.include_usage").Bool() {
			items = append(items, usage)
		}
		return up.SSE(append(items, up.Done)...)
	}
}

// usages counts the events that have a usage object and nothing else to say.
func usages(body string) int {
	n := 0
	for _, e := range harness.Data(body) {
		if gjson.Get(e, "usage").IsObject() && len(gjson.Get(e, "choices").Array()) == 0 {
			n++
		}
	}
	return n
}

func TestB028UsageGoesToThoseWhoAsked(t *testing.T) {
	t.Parallel()
	for name, usage := range map[string]string{
		"empty choices": up.Usage(9, 3),
		"no choices":    `{"id":"chatcmpl-1","object":"chat.completion.chunk","usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			u.Choose(metered(usage))
			g := harness.Start(t, u.URL())
			for _, c := range []struct {
				body string
				want int
			}{
				{cc(stream), 0},
				{cc(stream, asks), 1},
				{cc(stream, `"stream_options":{"include_usage":false}`), 0},
				{cc(stream, `"stream_options":null`), 0},
				{cc(stream, `"stream_options":{"include_obfuscation":false}`), 0},
			} {
				a := g.Chat(c.body)
				wantOutcome(t, a, 200, "executed", "")
				replay := g.Chat(c.body, marks[0])
				wantOutcome(t, replay, 200, "replayed", "retry_marked")
				if replay.Body != a.Body {
					t.Errorf("the replay differs: %q, %q", replay.Body, a.Body)
				}
				if n := usages(a.Body); n != c.want {
					t.Errorf("%s: %d usage chunks, want %d: %q", c.body, n, c.want, a.Body)
				}
				if got := words(harness.Data(a.Body)); got != "a" || !strings.HasSuffix(a.Body, "data: [DONE]\n\n") {
					t.Errorf("%s: got %q", c.body, a.Body)
				}
			}
			for _, c := range u.Calls() {
				if !c.Field("stream_options.include_usage").Bool() {
					t.Errorf("the upstream was not asked for usage: %s", c.Body)
				}
			}
			if got := u.Call(5).Field("stream_options.include_obfuscation"); !got.Exists() || got.Bool() {
				t.Errorf("the client's own option was lost: %s", u.Call(5).Body)
			}
			wantCalls(t, u, 5)
		})
	}
}

// One edit: all else is sent as it came.
func TestB028AskingChangesNothingElse(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(metered(up.Usage(1, 1)))
	leave := harness.Provider("leave", u.URL())
	leave["stream_usage"] = "leave"
	g := harness.Start(t, u.URL(), harness.Config{
		"providers": []any{harness.Provider("up", u.URL()), leave},
		"models":    []any{harness.Model("m1", "up"), harness.Model("left", "leave")},
	})
	body := `{ "model":"m1", "x":1.0, "messages":[{"role":"user","content":"a<b & c\u2028"}],` + "\n\t" + `"stream":true }`
	g.Chat(body)
	sent := string(u.Call(1).Body)
	for _, part := range []string{`"x":1.0`, `"messages":[{"role":"user","content":"a<b & c\u2028"}]`, `"model":"m1"`} {
		if !strings.Contains(sent, part) {
			t.Errorf("%s is not in what was sent: %s", part, sent)
		}
	}
	left := `{ "model":"left", "messages":[],  "stream":true}`
	a := g.Chat(left)
	if string(u.Call(2).Body) != left {
		t.Errorf("sent %s, want %s", u.Call(2).Body, left)
	}
	if usages(a.Body) != 0 {
		t.Errorf("got %q", a.Body)
	}
	whole := cc()
	g.Chat(whole)
	if string(u.Call(3).Body) != whole {
		t.Errorf("sent %s, want %s", u.Call(3).Body, whole)
	}
	completions := `{"model":"m1","prompt":"a","stream":true}`
	g.Post("/v1/completions", completions)
	if !u.Call(4).Field("stream_options.include_usage").Bool() {
		t.Errorf("a stream of completions was not asked for usage: %s", u.Call(4).Body)
	}
}

func TestB028AskingDoesNotChangeTheKey(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(metered(up.Usage(1, 1)))
	leave := harness.Provider("leave", u.URL())
	leave["stream_usage"] = "leave"
	var keys []string
	for _, p := range []harness.Map{harness.Provider("up", u.URL()), leave} {
		p["name"] = "up"
		g := harness.Start(t, u.URL(), harness.Keys(), harness.Config{"providers": []any{p}, "store.secret": strings.Repeat("5", 64)})
		keys = append(keys, g.Chat(cc(stream), harness.Bearer(harness.K1)).Header.Get("Oncegate-Key"))
	}
	if keys[0] == "" || keys[0] != keys[1] {
		t.Errorf("the keys are %q", keys)
	}
}

// Followers of one record differ in nothing: who asked has another key.
func TestB028AskedAndUnaskedAtOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step { return up.Seq(up.Gate(gate), metered(up.Usage(9, 3))(c)) })
	g := harness.Start(t, u.URL())
	a, b := g.Go(harness.Chat, cc(stream)), g.Go(harness.Chat, cc(stream, asks))
	u.Call(2)
	c, d := g.Go(harness.Chat, cc(stream)), g.Go(harness.Chat, cc(stream, asks))
	following(t, g, 2)
	close(gate)
	for i, p := range []*harness.Pending{a, b, c, d} {
		if n := usages(p.Answer().Body); n != i%2 {
			t.Errorf("request %d got %d usage chunks", i, n)
		}
	}
	wantCalls(t, u, 2)
}

func TestB029PreambleWithEmptyChoices(t *testing.T) {
	t.Parallel()
	preamble := `{"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0}]}`
	u := up.New(t, up.SSE(preamble, up.Role(), up.Chunk("ok"), up.Finish(), up.Done))
	g := harness.Start(t, u.URL())
	wantStream(t, g.Open(harness.Chat, cc(stream)), preamble, up.Role(), up.Chunk("ok"), up.Finish(), up.Done)
	wantCalls(t, u, 1)
}

// A usage object beside choices is no usage chunk: it goes to everyone.
func TestB030UsageOnAChunkWithChoices(t *testing.T) {
	t.Parallel()
	usage := `{"prompt_tokens":16000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":15000}}`
	last := fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":%s}`, usage)
	u := up.New(t, up.SSE(up.Chunk("ok"), last, up.Done))
	g := harness.Start(t, u.URL())
	wantStream(t, g.Open(harness.Chat, cc(stream)), up.Chunk("ok"), last, up.Done)
	wantOutcome(t, g.Chat(cc(stream), marks[0]), 200, "replayed", "retry_marked")
	wantCalls(t, u, 1)
}

// Every chunk may carry "usage": null, as OpenAI's do once asked.
func TestB028NullUsageIsNoUsage(t *testing.T) {
	t.Parallel()
	chunk := `{"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":null}],"usage":null}`
	u := up.New(t, up.SSE(chunk, up.Finish(), up.Usage(1, 1), up.Done))
	g := harness.Start(t, u.URL())
	wantStream(t, g.Open(harness.Chat, cc(stream)), chunk, up.Finish(), up.Done)
}
