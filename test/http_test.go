package test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

func TestB096BaseURLJoining(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	joined := map[string]string{ // base_url's path: where chat completions go
		"": "/v1/chat/completions", "/": "/v1/chat/completions", "/v1": "/v1/chat/completions", "/v1/": "/v1/chat/completions",
		"/v1beta/openai/": "/v1beta/openai/chat/completions", "/av1": "/av1/chat/completions",
	}
	var providers, models []any
	named := map[string]string{}
	for path := range joined {
		named[path] = fmt.Sprintf("p%d", len(providers))
		providers = append(providers, harness.Provider(named[path], u.URL()+path))
		models = append(models, harness.Model(named[path], named[path]))
	}
	g := harness.Start(t, u.URL(), harness.Config{"providers": providers, "models": models})
	for path, want := range joined {
		a := g.Chat(`{"model":"` + named[path] + `","messages":[]}`)
		if a.Status != 200 {
			t.Errorf("%q: %d %s", path, a.Status, a.Body)
			continue
		}
		if got := u.Call(u.N()).Target; got != want {
			t.Errorf("base_url with path %q: %s, want %s", path, got, want)
		}
	}
	// The client's side of it.
	for _, path := range []string{harness.Chat, harness.Chat + "/", "/v1" + harness.Chat, "/v1" + harness.Chat + "/"} {
		before := u.N()
		a := g.Post(path, `{"model":"`+named["/v1"]+`","messages":[]}`)
		if a.Status != 200 || u.N() != before+1 {
			t.Errorf("POST %s: %d %s", path, a.Status, a.Body)
			continue
		}
		if got := u.Call(before + 1).Target; got != "/v1/chat/completions" {
			t.Errorf("POST %s went to %s", path, got)
		}
	}
	// A base without /v1 is no place of ours: JSON that says so, never a
	// redirect that makes a GET of it.
	a := g.Post("/chat/completions", cc())
	problem{404, "not_found", "false", "", "", ""}.want(t, a)
	if a := g.Get("/v1/models/"); a.Status != 200 {
		t.Errorf("GET /v1/models/: %d", a.Status)
	}
}

func TestB098AuthSpellings(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	k1, k2 := harness.K1, harness.K2
	for name, c := range map[string]struct {
		lines  []string
		query  string
		status int
	}{
		"bearer":                {lines: []string{"authorization: bearer " + k1}, status: 200},
		"two spaces":            {lines: []string{"Authorization: Bearer  " + k1}, status: 200},
		"BEARER":                {lines: []string{"Authorization: BEARER " + k1}, status: 200},
		"x-api-key":             {lines: []string{"x-api-key: " + k1}, status: 200},
		"api-key":               {lines: []string{"api-key: " + k1}, status: 200},
		"all three alike":       {lines: []string{"Authorization: Bearer " + k1, "x-api-key: " + k1, "api-key: " + k1}, status: 200},
		"two that differ":       {lines: []string{"Authorization: Bearer " + k1, "x-api-key: " + k2}, status: 401},
		"two of one name":       {lines: []string{"Authorization: Bearer " + k1, "Authorization: Bearer " + k2}, status: 401},
		"one good, one unknown": {lines: []string{"x-api-key: " + k1, "api-key: nonsense"}, status: 401},
		"empty bearer":          {lines: []string{"Authorization: Bearer "}, status: 401},
		"no scheme":             {lines: []string{"Authorization: " + k1}, status: 401},
		"basic":                 {lines: []string{"Authorization: Basic " + k1}, status: 401},
		"a prefix of the key":   {lines: []string{"Authorization: Bearer " + k1[:len(k1)-1]}, status: 401},
		"more than the key":     {lines: []string{"Authorization: Bearer " + k1 + "x"}, status: 401},
		"in the query":          {query: "?api_key=" + k1 + "&key=" + k1 + "&access_token=" + k1, status: 401},
		"none":                  {status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			before := u.Heads()
			a := g.Post(harness.Chat+c.query, cc(), c.lines...)
			if a.Status != c.status {
				t.Errorf("%d, want %d: %s", a.Status, c.status, a.Body)
			}
			if c.status == 401 {
				problem{401, "invalid_api_key", "false", "refused", "unauthorized", ""}.want(t, a)
				if a.Header.Get("WWW-Authenticate") == "" {
					t.Error("no WWW-Authenticate")
				}
				wantUnseen(t, u, before)
			}
		})
	}
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		if a := g.Get(path); a.Status != 200 {
			t.Errorf("%s without a key: %d", path, a.Status)
		}
	}
	if a := g.Do("HEAD", "/", ""); a.Status != 200 {
		t.Errorf("HEAD / without a key: %d", a.Status)
	}
}

func TestB099BrowserPreflight(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	preflight := func(origin string) []string {
		return []string{"Origin: " + origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type,idempotency-key,x-stainless-os,oncegate-dedupe"}
	}
	t.Run("allowed", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		g := harness.Start(t, u.URL(), harness.Keys(), harness.Config{"server.cors.origins": []any{app}})
		a := g.Do("OPTIONS", harness.Chat, "", preflight(app)...)
		if a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != app {
			t.Errorf("%d %v", a.Status, a.Header)
		}
		if !strings.Contains(a.Header.Get("Access-Control-Allow-Methods"), "POST") {
			t.Errorf("methods: %q", a.Header.Get("Access-Control-Allow-Methods"))
		}
		allowed := strings.ToLower(a.Header.Get("Access-Control-Allow-Headers"))
		for _, name := range []string{"authorization", "content-type", "idempotency-key", "x-stainless-os", "oncegate-dedupe"} {
			if !strings.Contains(allowed, name) {
				t.Errorf("%s is not among the allowed headers: %q", name, allowed)
			}
		}
		if got := strings.Join(a.Header.Values("Vary"), ","); !strings.Contains(got, "Origin") {
			t.Errorf("Vary: %q", got)
		}
		wantUnseen(t, u, 0)
		if a := g.Chat(cc(), "Origin: "+app); a.Status != 401 || a.Header.Get("Access-Control-Allow-Origin") != app {
			t.Errorf("a page can't read its 401: %d %v", a.Status, a.Header)
		}
		a = g.Chat(cc(), "Origin: "+app, harness.Bearer(harness.K1))
		if a.Status != 200 || a.Header.Get("Access-Control-Allow-Origin") != app {
			t.Errorf("%d %v", a.Status, a.Header)
		}
		exposed := strings.ToLower(strings.Join(a.Header.Values("Access-Control-Expose-Headers"), ","))
		for _, name := range []string{"oncegate-outcome", "oncegate-reason", "idempotent-replayed", "x-should-retry", "retry-after", "x-request-id"} {
			if !strings.Contains(exposed, name) {
				t.Errorf("%s is not exposed: %q", name, exposed)
			}
		}
		a = g.Do("OPTIONS", harness.Chat, "", preflight("https://other.example")...)
		if got := a.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("another origin is allowed: %q", got)
		}
	})
	t.Run("off by default", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		g := harness.Start(t, u.URL(), harness.Keys())
		for _, a := range []*harness.Answer{
			g.Do("OPTIONS", harness.Chat, "", preflight(app)...),
			g.Chat(cc(), "Origin: "+app, harness.Bearer(harness.K1)),
		} {
			if got := a.Header.Get("Access-Control-Allow-Origin"); got != "" {
				t.Errorf("Access-Control-Allow-Origin: %q", got)
			}
		}
	})
}

func TestB100QueryStrings(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	own := harness.Provider("own", u.URL()+"/v1?api-version=2024-06-01&tag=base")
	g := harness.Start(t, u.URL(), harness.Config{
		"providers":   []any{harness.Provider("up", u.URL()), own},
		"models":      []any{harness.Model("m2", "own"), harness.Model("*", "up")},
		"dedupe.mode": "always",
	})
	g.Post(harness.Chat+"?api-version=2024-10-21&x=a%2Bb", cc())
	if got := u.Call(1).Target; got != "/v1/chat/completions?api-version=2024-10-21&x=a%2Bb" {
		t.Errorf("target %q", got)
	}
	// The query is part of the key.
	g.Post(harness.Chat+"?api-version=2024-10-21&x=c", cc())
	g.Post(harness.Chat, cc())
	wantCalls(t, u, 3)
	wantOutcome(t, g.Post(harness.Chat+"?api-version=2024-10-21&x=c", cc()), 200, "replayed", "within_ttl")

	in2 := strings.Replace(cc(), "m1", "m2", 1)
	g.Chat(in2)
	g.Post(harness.Chat+"?api-version=2024-10-21&x=a%2Bb", in2)
	if got := u.Call(4).Target; got != "/v1/chat/completions?api-version=2024-06-01&tag=base" {
		t.Errorf("target %q", got)
	}
	got := u.Call(5).Target
	if strings.Count(got, "api-version=") != 1 || strings.Count(got, "tag=base") != 1 || strings.Count(got, "x=a%2Bb") != 1 || strings.Count(got, "?") != 1 {
		t.Errorf("target %q", got)
	}
}

func TestB101ExpectContinue(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys(), harness.Config{"server.max_body": "4MiB"})
	body := said(strings.Repeat("x", 2<<20))
	t.Run("good", func(t *testing.T) {
		conn := g.Dial()
		head := g.Request("POST", harness.Chat, "", harness.Bearer(harness.K1), "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)), "Expect: 100-continue")
		conn.Send(head)
		a := conn.Response(5 * time.Second) // before any of the body was sent
		if a.Err != nil || a.Status != 100 {
			t.Fatalf("%d %v", a.Status, a.Err)
		}
		conn.Send(body)
		if a := conn.Response(10 * time.Second); a.Status != 200 {
			t.Errorf("%d %s %v", a.Status, a.Body, a.Err)
		}
		if got := u.Call(1).Values("Expect"); len(got) != 0 {
			t.Errorf("Expect went upstream: %q", got)
		}
	})
	for name, c := range map[string]struct {
		lines []string
		want  problem
	}{
		"bad key":   {[]string{"Authorization: Bearer nonsense", fmt.Sprintf("Content-Length: %d", len(body))}, problem{401, "invalid_api_key", "false", "", "", ""}},
		"too large": {[]string{harness.Bearer(harness.K1), "Content-Length: 5000000"}, problem{413, "request_too_large", "false", "", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			before := u.Heads()
			conn := g.Dial()
			conn.Send(g.Request("POST", harness.Chat, "", append(c.lines, "Content-Type: application/json", "Expect: 100-continue")...))
			a := conn.Response(2 * time.Second) // the first thing that comes, without the body being asked for
			c.want.want(t, a)
			wantUnseen(t, u, before)
		})
	}
}

func TestB102HeadMethodsAndRoutes(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys(), harness.Config{"models": []any{harness.Model("m1", "up"), harness.Model("a/b", "up")}})
	as := harness.Bearer(harness.K1)
	get, head := g.Get("/v1/models", as), g.Do("HEAD", "/v1/models", "", as)
	if get.Status != 200 || head.Status != 200 || head.Body != "" {
		t.Errorf("%d %d %q", get.Status, head.Status, head.Body)
	}
	for _, name := range []string{"Content-Type", "Content-Length"} {
		if get.Header.Get(name) != head.Header.Get(name) {
			t.Errorf("%s: GET %q, HEAD %q", name, get.Header.Get(name), head.Header.Get(name))
		}
	}
	var ids []string
	for _, m := range get.Field("data").Array() {
		ids = append(ids, m.Get("id").String())
		if m.Get("object").String() != "model" {
			t.Errorf("a model is %s", m.Raw)
		}
	}
	if got := strings.Join(ids, " "); get.Field("object").String() != "list" || !strings.Contains(got, "m1") || !strings.Contains(got, "a/b") {
		t.Errorf("models: %s", get.Body)
	}
	for path, id := range map[string]string{"/v1/models/m1": "m1", "/v1/models/a/b": "a/b", "/v1/models/a%2Fb": "a/b"} {
		if a := g.Get(path, as); a.Status != 200 || a.Field("id").String() != id {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := g.Do("HEAD", "/healthz", ""); a.Status != 200 || a.Body != "" {
		t.Errorf("HEAD /healthz: %d", a.Status)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "BREW"} {
		a := g.Do(method, harness.Chat, "", as)
		problem{405, "method_not_allowed", "false", "", "", ""}.want(t, a)
		if !strings.Contains(a.Header.Get("Allow"), http.MethodPost) {
			t.Errorf("%s: Allow %q", method, a.Header.Get("Allow"))
		}
	}
	problem{404, "not_found", "false", "", "", ""}.want(t, g.Get("/nope", as))
	for _, target := range []string{
		"/v1/../admin", "/v1/%2e%2e/admin", "/v1/%2E./chat/completions", "/./v1/models", "/v1/models/..", "/v1/models/%2e%2e%2fchat",
		"/v1/models/%00", "/v1/chat%00/completions", "/..", "//evil.example/v1/models/../..",
	} {
		for _, key := range []string{as, "X-No-Key: 1"} {
			conn := g.Dial()
			conn.Send(g.Request("GET", target, "", key))
			a := conn.Response(5 * time.Second)
			if a.Err != nil || a.Status < 400 || a.Status >= 500 {
				t.Errorf("GET %s: %d %v %s", target, a.Status, a.Err, a.Body)
			}
			if strings.Contains(target, "%00") || a.Status == 401 {
				continue
			}
			if key == as && a.Status != 400 {
				t.Errorf("GET %s: %d, want 400 for dot segments", target, a.Status)
			}
		}
	}
	wantUnseen(t, u, 0)
}

// What goes upstream of a request's headers, and what doesn't.
func TestForwardedRequestHeaders(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	kept := []string{"User-Agent: agent/7", "X-Custom: 1", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "OpenAI-Beta: assistants=v2", "x-session-id: s1", "x-client-request-id: r1", "Accept: application/json"}
	dropped := []string{
		"Cookie: a=b", "Oncegate-User: ann", "Oncegate-Nonce: n", "Oncegate-Dedupe: duplicates", "Idempotency-Key: k", "Prefer: wait=5",
		"x-stainless-lang: js", "x-stainless-retry-count: 0", "Accept-Encoding: br", "Forwarded: for=1.2.3.4", "X-Forwarded-For: 1.2.3.4",
		"X-Forwarded-Proto: https", "OpenAI-Organization: org-1", "OpenAI-Project: proj-1", "x-api-key: " + harness.K1, "api-key: " + harness.K1,
		"Proxy-Authorization: Basic abc",
	}
	if a := g.Chat(cc(), append(append([]string{harness.Bearer(harness.K1)}, kept...), dropped...)...); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	c := u.Call(1)
	for _, l := range kept {
		name, value, _ := strings.Cut(l, ": ")
		if got := c.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	for _, l := range dropped {
		name, value, _ := strings.Cut(l, ": ")
		for _, got := range c.Values(name) {
			// The gateway may ask for encodings of its own.
			if got == value || name != "Accept-Encoding" {
				t.Errorf("%s went upstream: %q", name, got)
			}
		}
	}
	if got := c.Values("Authorization"); len(got) != 1 || got[0] != "Bearer "+harness.PK {
		t.Errorf("Authorization: %q", got)
	}
	if got := c.Values("Content-Type"); len(got) != 1 || got[0] != "application/json" {
		t.Errorf("Content-Type: %q", got)
	}
	if got := c.Values("Content-Length"); len(got) != 1 || got[0] != fmt.Sprint(len(c.Body)) {
		t.Errorf("Content-Length: %q", got)
	}
}

// Every operation of the surface reaches the path of its name and comes back
// as it was.
func TestOperations(t *testing.T) {
	t.Parallel()
	u, anthropic := up.New(t), up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{
		"providers": []any{harness.Provider("up", u.URL()), harness.Anthropic("claude", anthropic.URL())},
		"models":    []any{harness.Model("claude-x", "claude"), harness.Model("*", "up")},
	})
	const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm1\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\x00\xff\r\n--b--\r\n"
	const multipart = "multipart/form-data; boundary=b"
	for path, c := range map[string]struct {
		at                            *up.Server
		body, typ, answer, answerType string
	}{
		harness.Chat:                {u, cc(), "", up.Completion("hi"), ""},
		"/v1/completions":           {u, `{"model":"m1","prompt":"a"}`, "", `{"id":"c","object":"text_completion","choices":[{"index":0,"text":"x","finish_reason":"stop"}]}`, ""},
		"/v1/responses":             {u, `{"model":"m1","input":"a"}`, "", `{"id":"resp_1","object":"response","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, ""},
		"/v1/embeddings":            {u, `{"model":"m1","input":"a"}`, "", `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25,-1e-7]}],"model":"m1","usage":{"prompt_tokens":1,"total_tokens":1}}`, ""},
		"/v1/moderations":           {u, `{"model":"m1","input":"a"}`, "", `{"id":"modr-1","model":"m1","results":[{"flagged":false}]}`, ""},
		"/v1/images/generations":    {u, `{"model":"m1","prompt":"a"}`, "", `{"created":1,"data":[{"b64_json":"aGk="}]}`, ""},
		"/v1/audio/speech":          {u, `{"model":"m1","input":"a","voice":"v"}`, "", "ID3\x00\x01\xfe\xff", "audio/mpeg"},
		"/v1/audio/transcriptions":  {u, form, multipart, `{"text":"hello"}`, ""},
		"/v1/rerank":                {u, `{"model":"m1","query":"a","documents":["b"]}`, "", `{"results":[{"index":0,"relevance_score":0.5}]}`, ""},
		harness.Messages:            {anthropic, strings.Replace(message, "m1", "claude-x", 1), "", `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, ""},
		"/v1/messages/count_tokens": {anthropic, strings.Replace(message, "m1", "claude-x", 1), "", `{"input_tokens":7}`, ""},
	} {
		t.Run(path, func(t *testing.T) {
			lines := []string{"Idempotency-Key: " + strings.ReplaceAll(path, "/", ".")}
			if c.typ != "" {
				lines = append(lines, "Content-Type: "+c.typ)
			}
			if c.answerType == "" {
				c.answerType = "application/json"
			}
			c.at.Script(up.Status(200, c.answer, "Content-Type: "+c.answerType))
			before := c.at.N()
			for _, outcome := range []string{"executed", "replayed"} {
				a := g.Post(path+"?beta=true", c.body, lines...)
				if a.Status != 200 || a.Body != c.answer || a.Header.Get("Content-Type") != c.answerType || a.Outcome() != outcome {
					t.Errorf("%s: got %d %q %q %q", outcome, a.Status, a.Outcome(), a.Header.Get("Content-Type"), a.Body)
				}
			}
			wantCalls(t, c.at, before+1)
			call := c.at.Call(before + 1)
			if call.Target != path+"?beta=true" || call.Method != "POST" {
				t.Errorf("it went to %s %s", call.Method, call.Target)
			}
			if string(call.Body) != c.body {
				t.Errorf("sent %q, want %q", call.Body, c.body)
			}
			want := "application/json"
			if c.typ != "" {
				want = c.typ
			}
			if got := call.Get("Content-Type"); got != want {
				t.Errorf("Content-Type %q", got)
			}
			switch c.at {
			case u:
				if call.Get("Authorization") != "Bearer "+harness.PK {
					t.Errorf("Authorization: %q", call.Get("Authorization"))
				}
			default:
				if call.Get("x-api-key") != harness.PK || call.Get("Authorization") != "" {
					t.Errorf("x-api-key %q, Authorization %q", call.Get("x-api-key"), call.Get("Authorization"))
				}
			}
		})
	}
}

// With a passthrough any other path is forwarded once, and shared with nobody.
func TestPassthrough(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step { return up.Status(200, fmt.Sprintf(`{"n":%d}`, c.N), "x-custom: 1") })
	g := harness.Start(t, u.URL(), harness.Config{"passthrough": "up", "dedupe.mode": "always"})
	for i := 1; i <= 2; i++ {
		a := g.Post("/v1/fine_tuning/jobs?x=1", `{"a": 1}`, "Idempotency-Key: k")
		if a.Status != 200 || a.Body != fmt.Sprintf(`{"n":%d}`, i) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		c := u.Call(i)
		if c.Target != "/v1/fine_tuning/jobs?x=1" || string(c.Body) != `{"a": 1}` || c.Get("Authorization") != "Bearer "+harness.PK {
			t.Errorf("%s%s", c.Head, c.Body)
		}
	}
	if a := g.Get("/v1/files/f1"); a.Status != 200 || u.Call(3).Method != "GET" || u.Call(3).Target != "/v1/files/f1" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	u.Script(up.Fail(500, "down"))
	if a := g.Post("/v1/fine_tuning/jobs", `{}`); a.Status != 500 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	wantCalls(t, u, 4) // once
	if n := g.Metrics().Sum("oncegate_requests_total", `operation="passthrough"`); n != 4 {
		t.Errorf("%v requests counted as passthrough, want 4", n)
	}
}
