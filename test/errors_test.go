package test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// What the gateway refuses by itself: each row in its shape, and not one byte
// of it at the upstream.
func TestErrorsRefusedBeforeTheUpstream(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{
		"server.max_body": "64KiB",
		"providers":       []any{harness.Provider("up", u.URL()), harness.Anthropic("claude", u.URL())},
		"models":          []any{harness.Model("m1", "up", "claude"), harness.Model("m2", "up")},
	})
	long := strings.Repeat("k", 256)
	bad := problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}
	key := problem{400, "idempotency_key_invalid", "false", "refused", "key_invalid", ""}
	with := func(p problem, param string) problem { p.param = param; return p }
	for name, c := range map[string]struct {
		method, path, body string
		lines              []string
		want               problem
	}{
		"malformed JSON":           {body: `{"model":"m1","messages":[}`, want: bad},
		"cut JSON":                 {body: `{"model":`, want: bad},
		"empty body":               {body: ``, want: bad},
		"not an object":            {body: `[]`, want: bad},
		"no model":                 {body: `{"messages":[]}`, want: bad},
		"model of a wrong type":    {body: `{"model":7,"messages":[]}`, want: bad},
		"stream of a wrong type":   {body: cc(`"stream":"yes"`), want: bad},
		"two values":               {body: cc() + cc(), want: bad},
		"key with a space":         {body: cc(), lines: []string{"Idempotency-Key: a b"}, want: key},
		"key too long":             {body: cc(), lines: []string{"Idempotency-Key: " + long}, want: key},
		"key empty":                {body: cc(), lines: []string{"Idempotency-Key:"}, want: key},
		"key quoted and empty":     {body: cc(), lines: []string{`Idempotency-Key: ""`}, want: key},
		"key quote left open":      {body: cc(), lines: []string{`Idempotency-Key: "abc`}, want: key},
		"key not ASCII":            {body: cc(), lines: []string{"Idempotency-Key: k\u00e9y"}, want: key},
		"two keys":                 {body: cc(), lines: []string{"Idempotency-Key: a", "Idempotency-Key: a"}, want: key},
		"bad dedupe":               {body: cc(), lines: []string{"Oncegate-Dedupe: sometimes"}, want: with(bad, "Oncegate-Dedupe")},
		"bad timeout":              {body: cc(), lines: []string{"Oncegate-Timeout: soon"}, want: with(bad, "Oncegate-Timeout")},
		"negative timeout":         {body: cc(), lines: []string{"Oncegate-Timeout: -1s"}, want: with(bad, "Oncegate-Timeout")},
		"bad TTL":                  {body: cc(), lines: []string{"Oncegate-TTL: 10"}, want: with(bad, "Oncegate-TTL")},
		"negative TTL":             {body: cc(), lines: []string{"Oncegate-TTL: -5m"}, want: with(bad, "Oncegate-TTL")},
		"bad retry":                {body: cc(), lines: []string{"Oncegate-Retry: perhaps"}, want: with(bad, "Oncegate-Retry")},
		"unknown model":            {body: `{"model":"nope","messages":[]}`, want: problem{404, "model_not_found", "false", "refused", "not_found", ""}},
		"GET of an operation":      {method: "GET", want: problem{405, "method_not_allowed", "false", "", "", ""}},
		"PUT of an operation":      {method: "PUT", body: cc(), want: problem{405, "method_not_allowed", "false", "", "", ""}},
		"POST of models":           {path: "/v1/models", body: cc(), want: problem{405, "method_not_allowed", "false", "", "", ""}},
		"unknown path":             {method: "GET", path: "/nope", want: problem{404, "not_found", "false", "", "", ""}},
		"unknown path under /v1":   {path: "/v1/batches", body: `{}`, want: problem{404, "not_found", "false", "", "", ""}},
		"unknown model by its id":  {method: "GET", path: "/v1/models/nope", want: problem{404, "model_not_found", "false", "", "", ""}},
		"body too large":           {body: said(strings.Repeat("x", 64<<10)), want: problem{413, "request_too_large", "false", "refused", "too_large", ""}},
		"encoding that is unknown": {body: cc(), lines: []string{"Content-Encoding: br"}, want: problem{415, "unsupported_encoding", "false", "refused", "unsupported_encoding", ""}},
		"gzip that is none":        {body: cc(), lines: []string{"Content-Encoding: gzip"}, want: bad},
	} {
		t.Run(name, func(t *testing.T) {
			method, path := http.MethodPost, harness.Chat
			if c.method != "" {
				method = c.method
			}
			if c.path != "" {
				path = c.path
			}
			a := g.Do(method, path, c.body, c.lines...)
			c.want.want(t, a)
			if a.Status == 405 {
				allow := a.Header.Get("Allow")
				want := http.MethodPost
				if path == "/v1/models" {
					want = http.MethodGet
				}
				if !strings.Contains(allow, want) {
					t.Errorf("Allow: %q", allow)
				}
			}
		})
	}
	for name, c := range map[string]struct {
		body  string
		lines []string
		want  problem
	}{
		"malformed JSON": {body: `{"model":"m1",}`, want: bad},
		"bad key":        {body: message, lines: []string{"Idempotency-Key: a b"}, want: key},
		"unknown model":  {body: `{"model":"nope","max_tokens":1,"messages":[]}`, want: problem{404, "", "false", "refused", "not_found", ""}},
		"too large":      {body: `{"model":"m1","x":"` + strings.Repeat("x", 64<<10) + `"}`, want: problem{413, "", "false", "refused", "too_large", ""}},
		"encoding":       {body: message, lines: []string{"Content-Encoding: br"}, want: problem{415, "", "false", "refused", "unsupported_encoding", ""}},
	} {
		t.Run("messages "+name, func(t *testing.T) {
			c.want.wantAnthropic(t, g.Post(harness.Messages, c.body, c.lines...))
		})
	}
	wantUnseen(t, u, 0)
	if a := g.Chat(cc()); a.Status != 200 {
		t.Errorf("a good request after all of them: %d %s", a.Status, a.Body)
	}
}

func TestErrorsMalformedJSONNamesTheByte(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	for _, body := range []string{
		`{"model":"m1","messages":[}`,
		`{"model":"m1","messages":[{"role":"user","content":"` + strings.Repeat("é", 300) + `"},}`,
	} {
		a := g.Chat(body)
		problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}.want(t, a)
		at := strings.LastIndexByte(body, '}') // counted from 0 or from 1; or the comma that it follows
		found := false
		for _, n := range regexp.MustCompile(`\d+`).FindAllString(a.Field("error.message").String(), -1) {
			found = found || n == strconv.Itoa(at-1) || n == strconv.Itoa(at) || n == strconv.Itoa(at+1)
		}
		if !found {
			t.Errorf("the message does not name byte %d: %s", at, a.Field("error.message"))
		}
	}
	wantUnseen(t, u, 0)
}

func TestErrorsUnknownPathSpeaksOfPassthrough(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	a := g.Post("/v1/fine_tuning/jobs", `{}`)
	problem{404, "not_found", "false", "", "", ""}.want(t, a)
	if !strings.Contains(a.Field("error.message").String(), "passthrough") {
		t.Errorf("the message does not say how to have it forwarded: %s", a.Body)
	}
	wantUnseen(t, u, 0)
}

func TestErrorsUnauthorized(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	want := problem{401, "invalid_api_key", "false", "refused", "unauthorized", ""}
	for name, lines := range map[string][]string{
		"none":    nil,
		"unknown": {harness.Bearer("ogk_unknown")},
		"differ":  {harness.Bearer(harness.K1), "x-api-key: " + harness.K2},
		"query":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			path := ""
			if name == "query" {
				path = "?api_key=" + harness.K1 + "&key=" + harness.K1
			}
			a := g.Post(harness.Chat+path, cc(), lines...)
			want.want(t, a)
			if a.Header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
			want.wantAnthropic(t, g.Post(harness.Messages+path, message, lines...))
			if a := g.Do("GET", "/v1/models"+path, "", lines...); a.Status != 401 {
				t.Errorf("models: %d", a.Status)
			}
		})
	}
	wantUnseen(t, u, 0)
}

func TestErrorsModelNotAllowed(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	key := harness.Key("alice", harness.K1)
	key["models"] = []any{"m1"}
	g := harness.Start(t, u.URL(), harness.Config{
		"auth.keys": []any{key},
		"providers": []any{harness.Provider("up", u.URL()), harness.Anthropic("claude", u.URL())},
		"models":    []any{harness.Model("*", "up", "claude")},
	})
	want := problem{403, "not_allowed", "false", "refused", "not_allowed", ""}
	want.want(t, g.Chat(`{"model":"m2","messages":[]}`, harness.Bearer(harness.K1)))
	want.wantAnthropic(t, g.Post(harness.Messages, strings.Replace(message, "m1", "m2", 1), harness.Bearer(harness.K1)))
	wantUnseen(t, u, 0)
	if a := g.Chat(cc(), harness.Bearer(harness.K1)); a.Status != 200 {
		t.Errorf("the allowed model: %d %s", a.Status, a.Body)
	}
}

// A page in a browser must not spend money through an open gateway on
// loopback: by its Origin, by Sec-Fetch-Site, or by a name that was rebound.
func TestErrorsForeignOriginOnAnOpenListener(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	want := problem{403, "not_allowed", "false", "refused", "cross_origin", ""}
	for _, line := range []string{"Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Host: evil.example"} {
		t.Run(line, func(t *testing.T) { want.want(t, g.Chat(cc(), line)) })
	}
	wantUnseen(t, u, 0)
	for _, line := range []string{"Origin: http://" + g.Addr, "Sec-Fetch-Site: same-origin", "Host: localhost:1234", "Host: [::1]:1234"} {
		if a := g.Chat(said(line), line); a.Status != 200 {
			t.Errorf("%s: %d %s", line, a.Status, a.Body)
		}
	}
}

// With keys it is the key that decides, not where the request comes from.
func TestErrorsForeignOriginWithKeys(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Keys())
	if a := g.Chat(cc(), harness.Bearer(harness.K1), "Origin: https://app.example", "Host: gateway.example"); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestErrorsInFlight(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Gate(gate), up.OK("once")))
	g := harness.Start(t, u.URL())
	for name, lines := range map[string][]string{"derived": nil, "explicit": {"Idempotency-Key: k1"}} {
		first := g.Go(harness.Chat, said(name), lines...)
		calls := u.Call(u.N() + 1).N
		began := time.Now()
		a := g.Chat(said(name), append([]string{"Prefer: wait=0"}, lines...)...)
		problem{409, "idempotency_in_flight", "true", "refused", "in_flight", ""}.want(t, a)
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("%s: 409 took %v", name, d)
		}
		a = g.Chat(said(name), append([]string{"Prefer: respond-async, wait=1"}, lines...)...)
		problem{409, "idempotency_in_flight", "true", "refused", "in_flight", ""}.want(t, a)
		if a.Took < 900*time.Millisecond || a.Took > 4*time.Second {
			t.Errorf("%s: wait=1 answered after %v", name, a.Took)
		}
		wantCalls(t, u, calls)
		gate <- struct{}{}
		if a := first.Answer(); a.Text() != "once" {
			t.Errorf("%s: the first got %d %s", name, a.Status, a.Body)
		}
	}
}

// dedupe.wait is the longest that a duplicate waits.
func TestErrorsInFlightAfterDedupeWait(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Gate(gate), up.OK("once")))
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.wait": "400ms"})
	first := g.Go(harness.Chat, cc())
	u.Call(1)
	a := g.Chat(cc())
	problem{409, "idempotency_in_flight", "true", "refused", "in_flight", ""}.want(t, a)
	if a.Took < 350*time.Millisecond {
		t.Errorf("409 after %v", a.Took)
	}
	close(gate)
	if a := first.Answer(); a.Status != 200 {
		t.Errorf("the first got %d", a.Status)
	}
	wantCalls(t, u, 1)
}

func TestErrorsKeyReused(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Gate(gate), up.OK("once")))
	g := harness.Start(t, u.URL())
	want := problem{422, "idempotency_key_reused", "false", "refused", "key_reused", ""}
	first := g.Go(harness.Chat, said("the secret of the first"), "Idempotency-Key: k1")
	u.Call(1)
	others := map[string]func() *harness.Answer{
		"other text": func() *harness.Answer { return g.Chat(said("other"), "Idempotency-Key: k1") },
		"other text, no waiting": func() *harness.Answer {
			return g.Chat(said("other"), "Idempotency-Key: k1", "Prefer: wait=0")
		},
		"other model": func() *harness.Answer {
			return g.Chat(strings.Replace(said("the secret of the first"), "m1", "m2", 1), "Idempotency-Key: k1")
		},
		"other stream flag": func() *harness.Answer {
			return g.Chat(said("the secret of the first", stream), "Idempotency-Key: k1")
		},
		"other operation": func() *harness.Answer {
			return g.Post("/v1/completions", said("the secret of the first"), "Idempotency-Key: k1")
		},
	}
	check := func(when string) {
		for name, send := range others {
			t.Run(when+" "+name, func(t *testing.T) {
				a := send()
				want.want(t, a)
				if strings.Contains(a.Body, "secret of the first") {
					t.Errorf("the error shows the first body: %s", a.Body)
				}
			})
		}
		wantUnseen(t, u, 1)
	}
	check("in flight")
	close(gate)
	if a := first.Answer(); a.Text() != "once" {
		t.Fatalf("the first got %d %s", a.Status, a.Body)
	}
	check("completed")
	a := g.Chat(said("the secret of the first"), "Idempotency-Key: k1")
	wantOutcome(t, a, 200, "replayed", "key")
	wantCalls(t, u, 1)
}

func TestErrorsRateLimitAfterRetries(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Fail(429, "rate_limit_exceeded"))
	g := harness.Start(t, u.URL())
	a := g.Chat(cc())
	problem{429, "rate_limit_exceeded", "false", "failed", "attempts_exhausted", ""}.want(t, a)
	if a.Body != up.Problem("rate_limit_exceeded") {
		t.Errorf("the upstream's body did not come as it was: %s", a.Body)
	}
	if got := a.Header.Get("Oncegate-Attempts"); got != "3" {
		t.Errorf("Oncegate-Attempts: %q", got)
	}
	wantCalls(t, u, 3)
}

func TestErrorsRetryAfterBeyondTheCap(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]struct{ after, heldRetry string }{
		"30":                   {"30", "true"},
		"120":                  {"120", "false"},
		"86400":                {"86400", "false"},
		"9223372037":           {"86400", "false"},
		"99999999999999999999": {"86400", "false"},
	} {
		t.Run(told, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, up.Fail(429, "rate_limit_exceeded", "Retry-After: "+told), up.OK("too early"))
			g := harness.Start(t, u.URL())
			a := g.Chat(said("first"))
			problem{429, "rate_limit_exceeded", "false", "failed", "retry_after_exceeds_cap", ""}.want(t, a)
			if got := a.Header.Get("Retry-After"); got != want.after {
				t.Errorf("Retry-After: %q, want %q", got, want.after)
			}
			if a.Body != up.Problem("rate_limit_exceeded") {
				t.Errorf("the upstream's body did not come as it was: %s", a.Body)
			}
			// The target is held: the next call, another one, makes no attempt.
			a = g.Chat(said("second"))
			problem{429, "rate_limit_exceeded", want.heldRetry, "refused", "target_held", ""}.want(t, a)
			wantUnseen(t, u, 1)
		})
	}
}

func TestErrorsHeldForA503(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Fail(503, "busy", "Retry-After: 30"), up.OK("too early"))
	g := harness.Start(t, u.URL())
	a := g.Chat(said("first"))
	problem{503, "busy", "false", "failed", "retry_after_exceeds_cap", ""}.want(t, a)
	a = g.Chat(said("second"))
	problem{503, "upstream_unavailable", "true", "refused", "target_held", ""}.want(t, a)
	if n, _ := strconv.Atoi(a.Header.Get("Retry-After")); n < 28 {
		t.Errorf("Retry-After: %d is shorter than known", n)
	}
	wantUnseen(t, u, 1)
}

func TestErrorsUnreachable(t *testing.T) {
	t.Parallel()
	dead := up.Refused(t)
	g := harness.Start(t, dead, harness.Config{
		"providers": []any{harness.Provider("up", dead), harness.Anthropic("claude", dead)},
		"models":    []any{harness.Model("m1", "up"), harness.Model("c1", "claude")},
	})
	want := problem{502, "upstream_error", "false", "failed", "unreachable", ""}
	for _, body := range []string{cc(), cc(stream)} {
		a := g.Chat(body)
		want.want(t, a)
		if strings.Contains(a.Body, strings.TrimPrefix(dead, "http://")) {
			t.Errorf("the error tells clients where the upstream is: %s", a.Body)
		}
	}
	want.wantAnthropic(t, g.Post(harness.Messages, strings.Replace(message, "m1", "c1", 1)))
}

func TestErrorsGarbage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step  up.Step
		body  string
		calls int
	}{
		"200 that is no JSON":        {up.Status(200, "hello"), cc(), 3},
		"200 that is cut":            {up.Status(200, up.Completion("x")[:40]), cc(), 3},
		"no HTTP at all":             {up.Seq(up.Raw("HELLO WORLD\r\n\r\n"), up.FIN), cc(), 2},
		"reset":                      {up.RST, cc(), 2},
		"body cut":                   {up.Seq(up.Head(200, "Content-Type: application/json", "Content-Length: 4000"), up.Raw(`{"id":`), up.Cut), cc(), 2},
		"stream cut at its start":    {up.Seq(up.Open(), up.Events(up.Role()), up.RST), cc(stream), 2},
		"JSON where a stream is due": {up.Status(200, `{"choices":[]}`), cc(stream), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, c.step)
			g := harness.Start(t, u.URL())
			problem{502, "upstream_error", "false", "failed", "", ""}.want(t, g.Chat(c.body))
			wantCalls(t, u, c.calls)
		})
	}
}

func TestErrorsUpstreamStatusPasses(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	for _, c := range []struct {
		status, calls int
		outcome       string
	}{
		{400, 1, "executed"}, {404, 1, "executed"}, {413, 1, "executed"}, {422, 1, "executed"},
		{500, 3, "failed"}, {503, 3, "failed"}, {501, 1, ""}, {505, 1, ""},
	} {
		t.Run(strconv.Itoa(c.status), func(t *testing.T) {
			before := u.N()
			u.Script(up.Fail(c.status, "because"))
			a := g.Chat(said(fmt.Sprint("for ", c.status)))
			problem{c.status, "because", "false", c.outcome, "", ""}.want(t, a)
			if a.Body != up.Problem("because") {
				t.Errorf("the body did not come as it was: %s", a.Body)
			}
			wantCalls(t, u, before+c.calls)
		})
	}
}

func TestErrorsDraining(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		if c.Field("stream").Bool() {
			return up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Gate(gate), up.Events(up.Finish(), up.Done))
		}
		return up.OK("before the drain")
	})
	g := harness.Start(t, u.URL())
	s := g.Open(harness.Chat, said("long", stream))
	s.Next()
	g.Term()
	var a *harness.Answer
	n := 0
	harness.Eventually(t, 5*time.Second, "503 while the last stream runs", func() bool {
		n++
		a = g.Try("POST", harness.Chat, said(fmt.Sprint("late ", n)))
		return a.Err == nil && a.Status == 503
	})
	problem{503, "draining", "true", "refused", "draining", ""}.want(t, a)
	seen := u.N()
	problem{503, "draining", "true", "refused", "draining", ""}.want(t, g.Chat(said("later still")))
	wantCalls(t, u, seen)
	if r := g.Try("GET", "/readyz", ""); r.Err != nil || r.Status != 503 {
		t.Errorf("readyz: %d %v", r.Status, r.Err)
	}
	close(gate)
	if rest := s.Rest(); len(rest) == 0 || rest[len(rest)-1] != up.Done {
		t.Errorf("the stream in flight ended with %q", rest)
	}
	if code := g.Exit(10 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

func TestErrorsOverloaded(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Gate(gate), up.OK("ok")))
	g := harness.Start(t, u.URL(), harness.Config{"server.max_body": "64KiB", "server.max_buffered": "128KiB"})
	big := strings.Repeat("x", 60<<10)
	first, second := g.Go(harness.Chat, said("1"+big)), g.Go(harness.Chat, said("2"+big))
	u.Call(2)
	a := g.Chat(said("3" + big))
	problem{503, "overloaded", "true", "refused", "overloaded", ""}.want(t, a)
	wantUnseen(t, u, 2)
	close(gate)
	if a, b := first.Answer(), second.Answer(); a.Status != 200 || b.Status != 200 {
		t.Errorf("the ones within the bound got %d and %d", a.Status, b.Status)
	}
	if a := g.Chat(said("3" + big)); a.Status != 200 {
		t.Errorf("after them: %d %s", a.Status, a.Body)
	}
}

// The client's deadline ends its waiting, not the call: its next try joins.
func TestErrorsClientDeadline(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		lines []string
	}{
		"Oncegate-Timeout":                {cc(), []string{"Oncegate-Timeout: 1500ms"}},
		"Oncegate-Timeout, keyed":         {cc(), []string{"Oncegate-Timeout: 1500ms", "Idempotency-Key: k1"}},
		"Oncegate-Timeout, stream":        {cc(stream), []string{"Oncegate-Timeout: 1500ms"}},
		"x-stainless-timeout":             {cc(), []string{"x-stainless-timeout: 2"}},
		"x-stainless-read-timeout, lower": {cc(), []string{"x-stainless-timeout: 60", "x-stainless-read-timeout: 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			answer := up.OK("late")
			if strings.Contains(c.body, stream) {
				answer = up.SSE(up.Chunk("late"), up.Finish(), up.Done)
			}
			u := up.New(t, up.Seq(up.Gate(gate), answer))
			g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.first_byte": "20s"})
			a := g.Chat(c.body, c.lines...)
			problem{504, "upstream_timeout", "true", "failed", "deadline", ""}.want(t, a)
			if a.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After: %q", a.Header.Get("Retry-After"))
			}
			if a.Took < 1400*time.Millisecond || a.Took > 4*time.Second {
				t.Errorf("answered after %v", a.Took)
			}
			next := g.Go(harness.Chat, c.body, c.lines[1:]...)
			harness.Eventually(t, 5*time.Second, "the next try follows", func() bool {
				return g.Metrics().Sum("oncegate_followers") >= 1
			})
			close(gate)
			a = next.Answer()
			if a.Status != 200 || a.Outcome() != "coalesced" || !strings.Contains(a.Body, "late") {
				t.Errorf("the next try got %d %q %s", a.Status, a.Outcome(), a.Body)
			}
			wantCalls(t, u, 1)
		})
	}
}

// A stainless time-out of a second or less, or nonsense, is no deadline.
func TestErrorsClientDeadlineIgnored(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Pause(1500*time.Millisecond), up.OK("ok")))
	g := harness.Start(t, u.URL())
	for _, line := range []string{"x-stainless-timeout: 1", "x-stainless-timeout: 0", "x-stainless-read-timeout: 0.5", "x-stainless-timeout: soon"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			if a := g.Chat(said(line), line); a.Status != 200 {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
}

func TestErrorsRecordDeadline(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Hang(30*time.Second))
	g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.total": "1500ms"})
	a := g.Chat(cc())
	problem{504, "upstream_timeout", "false", "failed", "deadline", ""}.want(t, a)
	if a.Took > 5*time.Second {
		t.Errorf("answered after %v", a.Took)
	}
	wantCalls(t, u, 1)
	if !u.Call(1).Left(2 * time.Second) {
		t.Error("the upstream was not let go")
	}
}

func TestErrorsEveryAttemptTimedOut(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Hang(30*time.Second))
	g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.first_byte": "400ms"})
	a := g.Chat(cc(stream))
	problem{504, "upstream_timeout", "false", "failed", "attempts_exhausted", ""}.want(t, a)
	wantCalls(t, u, 2) // a lost answer of a completion is tried once more, not twice
}

// Both lines of a surface's ids are there whatever happens, and are the
// upstream's where it sent one.
func TestErrorsCarryRequestIDs(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Fail(400, "because", "x-request-id: req_up_7"))
	g := harness.Start(t, u.URL())
	if a := g.Chat(cc()); a.Header.Get("X-Request-Id") != "req_up_7" {
		t.Errorf("x-request-id: %q", a.Header.Get("X-Request-Id"))
	}
	if a := g.Chat(`{`); a.Header.Get("X-Request-Id") == "" {
		t.Error("no x-request-id on a refusal")
	}
}
