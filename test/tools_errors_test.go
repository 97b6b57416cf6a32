package test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// wantTool holds an answer against a row of the contract's error table, in the
// shape of RFC 9457.
func (p problem) wantTool(t *testing.T, a *harness.Answer) {
	t.Helper()
	p.head(t, a)
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(a.Body), &members); err != nil {
		t.Fatalf("%v: %q", err, a.Body)
	}
	if got := members["status"]; got != float64(a.Status) {
		t.Errorf("status in the body: %v, the answer's is %d", got, a.Status)
	}
	if got := members["code"]; p.code != "" && got != p.code {
		t.Errorf("code is %v, want %s: %s", got, p.code, a.Body)
	}
	for _, name := range []string{"title", "detail"} {
		if text, _ := members[name].(string); text == "" {
			t.Errorf("no %s: %s", name, a.Body)
		}
	}
	if typ, there := members["type"]; there {
		if text, _ := typ.(string); text == "" {
			t.Errorf("type: %v", typ)
		}
	}
	if got, _ := members["param"].(string); p.param != "" && !strings.EqualFold(got, p.param) {
		t.Errorf("param is %q, want %q", got, p.param)
	}
	if a.Header.Get("X-Request-Id") == "" {
		t.Error("no x-request-id")
	}
}

// names says that some member of a problem has that value.
func names(a *harness.Answer, value any) (found bool) {
	a.Field("@this").ForEach(func(key, v gjson.Result) bool {
		found = key.String() != "status" && v.String() == fmt.Sprint(value)
		return !found
	})
	return found
}

// What the gateway refuses by itself: each row in its shape, and not one byte
// of it at the upstream.
func TestToolsRefusedBeforeTheUpstream(t *testing.T) {
	t.Parallel()
	api := up.New(t)
	tools := []any{
		harness.Tool("pay", api.URL(), nil),
		harness.Tool("strict", api.URL(), harness.Map{"key": "required", "key_from": []any{"/idempotency_key"}}),
	}
	b := openBankAt(t, api, nil, harness.Config{"tools": tools, "server.max_body": "64KiB"})
	bad := problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}
	key := problem{400, "idempotency_key_invalid", "false", "refused", "key_invalid", ""}
	with := func(p problem, param string) problem { p.param = param; return p }
	for name, c := range map[string]struct {
		path, body string
		lines      []string
		want       problem
	}{
		"key too long":         {lines: []string{"Idempotency-Key: " + strings.Repeat("k", 256)}, want: key},
		"key with a space":     {lines: []string{"Idempotency-Key: a b"}, want: key},
		"key empty":            {lines: []string{"Idempotency-Key:"}, want: key},
		"key blank":            {lines: []string{"Idempotency-Key:   "}, want: key},
		"key quoted and empty": {lines: []string{`Idempotency-Key: ""`}, want: key},
		"key quote left open":  {lines: []string{`Idempotency-Key: "abc`}, want: key},
		"key not ASCII":        {lines: []string{"Idempotency-Key: k\u00e9y"}, want: key},
		"two keys":             {lines: []string{"Idempotency-Key: a", "Idempotency-Key: a"}, want: key},
		"key in body, too long": {path: "/tools/strict/x", body: `{"idempotency_key":"` + strings.Repeat("k", 256) + `"}`,
			want: problem{400, "idempotency_key_invalid", "false", "refused", "key_invalid", ""}},
		"no key where one is required": {path: "/tools/strict/x", want: problem{400, "idempotency_key_required", "false", "refused", "key_required", ""}},
		"nor a body to find it in":     {path: "/tools/strict/x", body: "idempotency_key=k", lines: []string{"Content-Type: application/x-www-form-urlencoded"}, want: problem{400, "idempotency_key_required", "false", "refused", "key_required", ""}},
		"bad timeout":                  {lines: []string{"Oncegate-Timeout: soon"}, want: with(bad, "Oncegate-Timeout")},
		"bad TTL":                      {lines: []string{"Oncegate-TTL: 10"}, want: with(bad, "Oncegate-TTL")},
		"bad retry":                    {lines: []string{"Oncegate-Retry-Unknown: perhaps"}, want: with(bad, "Oncegate-Retry-Unknown")},
		"unknown tool":                 {path: "/tools/nope/x", want: problem{404, "tool_not_found", "false", "refused", "not_found", ""}},
		"body too large":               {body: `{"x":"` + strings.Repeat("x", 64<<10) + `"}`, want: problem{413, "request_too_large", "false", "refused", "too_large", ""}},
		"encoding that is unknown":     {lines: []string{"Content-Encoding: br"}, want: problem{415, "unsupported_encoding", "false", "refused", "unsupported_encoding", ""}},
		"a foreign page":               {lines: []string{"Origin: https://evil.example"}, want: problem{403, "not_allowed", "false", "refused", "cross_origin", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			path, body := pay, order
			if c.path != "" {
				path = c.path
			}
			if c.body != "" {
				body = c.body
			}
			c.want.wantTool(t, b.Post(path, body, c.lines...))
		})
	}
	wantUnseen(t, b.api, 0)
	wantReceipt(t, b.pay("after-all-of-them", order), 1, "executed", "")
}

// Not even a key with a control character, which no HTTP client sends.
func TestToolsKeyWithAControlCharacter(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for _, key := range []string{"a\x7fb", "a\x01b", "a\tb"} {
		raw := b.Dial()
		raw.Send(b.Request("POST", pay, order, "Idempotency-Key: "+key))
		if a := raw.Response(harness.Patience); a.Err != nil || a.Status != 400 {
			t.Errorf("%q: %d %v", key, a.Status, a.Err)
		}
	}
	wantUnseen(t, b.api, 0)
}

// Who may call, and which tools.
func TestToolsOfAKey(t *testing.T) {
	t.Parallel()
	api := up.New(t)
	keys := []any{harness.Key("alice", harness.K1), harness.Key("bob", harness.K2)}
	keys[0].(harness.Map)["tools"] = []any{"pay", "mail*"}
	b := openBankAt(t, api, nil, harness.Config{"auth.keys": keys, "tools": []any{
		harness.Tool("pay", api.URL(), nil), harness.Tool("mailing", api.URL(), nil), harness.Tool("refund", api.URL(), nil),
	}})
	alice, bob := harness.Bearer(harness.K1), harness.Bearer(harness.K2)
	unauthorized := problem{401, "invalid_api_key", "false", "refused", "unauthorized", ""}
	for _, lines := range [][]string{nil, {harness.Bearer("nobody's")}, {alice, "x-api-key: " + harness.K2}} {
		a := b.pay("k", order, lines...)
		unauthorized.wantTool(t, a)
		if a.Header.Get("WWW-Authenticate") == "" {
			t.Error("401 without WWW-Authenticate")
		}
	}
	problem{403, "not_allowed", "false", "refused", "not_allowed", ""}.wantTool(t, b.Post("/tools/refund/x", order, alice))
	problem{403, "not_allowed", "false", "refused", "not_allowed", ""}.wantTool(t, b.Get("/tools/refund/x", alice))
	wantUnseen(t, api, 0)
	wantReceipt(t, b.pay("k", order, alice), 1, "executed", "")
	wantReceipt(t, b.Post("/tools/mailing/x", order, "Idempotency-Key: m", alice), 2, "executed", "")
	wantReceipt(t, b.Post("/tools/refund/x", order, "Idempotency-Key: r", bob), 3, "executed", "")
}

// A web page that may call may use every method, and learns how its call went.
func TestToolsFromAWebPage(t *testing.T) {
	t.Parallel()
	const page = "https://app.example"
	b := openBank(t, nil, harness.Config{"server.cors.origins": []any{page}})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		a := b.Do("OPTIONS", pay, "", "Origin: "+page, "Access-Control-Request-Method: "+method, "Access-Control-Request-Headers: idempotency-key")
		if a.Status != 204 || a.Header.Get("Access-Control-Allow-Origin") != page || !strings.Contains(a.Header.Get("Access-Control-Allow-Methods"), method) ||
			!strings.Contains(a.Header.Get("Access-Control-Allow-Headers"), "idempotency-key") {
			t.Errorf("%s: %d %v", method, a.Status, a.Header)
		}
	}
	wantUnseen(t, b.api, 0)
	b.api.Script(b.runsThen(up.Status(201, receipt(1), "Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: *", "Vary: Accept")))
	for _, outcome := range []string{"executed", "replayed"} {
		a := b.pay("k", order, "Origin: "+page)
		if got := strings.Join(a.Header.Values("Vary"), ", "); a.Outcome() != outcome || got != "Origin, Accept" {
			t.Errorf("%q, Vary: %s", a.Outcome(), got)
		}
		if got := a.Header.Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != page {
			t.Errorf("Access-Control-Allow-Origin: %q", got)
		}
		if got := a.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(got, "Idempotent-Replayed") {
			t.Errorf("Access-Control-Expose-Headers: %q", got)
		}
	}
	problem{403, "not_allowed", "false", "refused", "cross_origin", ""}.wantTool(t, b.pay("k2", order, "Origin: https://evil.example"))
	b.wantRuns(1)
}

// A target that told us to wait is left alone; what it was not asked is free.
func TestToolsTargetHeld(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(up.Fail(429, "slow_down", "Retry-After: 30"), b.paid)
	a := b.pay("k", order)
	problem{429, "", "false", "failed", "retry_after_exceeds_cap", ""}.head(t, a)
	if a.Body != up.Problem("slow_down") {
		t.Errorf("the upstream's own body became %q", a.Body)
	}
	for _, key := range []string{"k", "another", ""} {
		problem{429, "rate_limit_exceeded", "true", "refused", "target_held", ""}.wantTool(t, b.pay(key, order))
	}
	wantCalls(t, b.api, 1)
}

// What there is no room for was not sent, and keeps no key.
func TestToolsOverloaded(t *testing.T) {
	t.Parallel()
	overloaded := problem{503, "overloaded", "true", "refused", "overloaded", ""}
	for name, change := range map[string]harness.Config{
		"bodies":   {"server.max_buffered": "96KiB"},
		"attempts": {"policy.concurrency": harness.Map{"start": 1, "min": 1, "max": 1}, "policy.timeouts.total": "10s"}, // a tenth of it is waited
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBank(t, nil, change)
			large := fmt.Sprintf(`{"note":"%065536d"}`, 0)
			gate := make(chan struct{})
			b.api.Script(up.Seq(up.Gate(gate), b.paid), b.paid)
			first := b.goPay("first", large)
			b.api.Call(1)
			overloaded.wantTool(t, b.pay("k", large))
			wantCalls(t, b.api, 1)
			close(gate)
			wantReceipt(t, first.Answer(), 1, "executed", "")
			wantReceipt(t, b.pay("k", order), 2, "executed", "")
		})
	}
}

// An open breaker lets no write through, and keeps no key.
func TestToolsCircuitOpen(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil, harness.Config{"policy.breaker.enabled": true, "policy.breaker.consecutive": 3,
		"policy.breaker.cooldown": "3s", "policy.breaker.cooldown_cap": "3s"})
	b.api.Script(b.runsThen(up.Fail(500, "broken")), b.runsThen(up.Fail(500, "broken")), b.runsThen(up.Fail(500, "broken")), b.paid)
	for i := range 3 {
		unknown.wantTool(t, b.pay(fmt.Sprint("unknown-", i), order))
	}
	problem{503, "upstream_unavailable", "true", "refused", "circuit_open", ""}.wantTool(t, b.pay("k", order))
	wantCalls(t, b.api, 3)
	var a *harness.Answer
	harness.Eventually(t, harness.Patience, "it is asked again", func() bool {
		a = b.pay("k", order)
		return a.Status != 503
	})
	wantReceipt(t, a, 4, "executed", "")
	unknown.wantTool(t, b.pay("unknown-0", order)) // closed or not
	b.wantRuns(4)
}

// What the API says when it refuses its credential does not give ours away.
func TestToolsSecretsStayIn(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(up.Status(401, `{"error":"no such key: `+harness.PK+`"}`))
	a := b.pay("k", order, "Authorization: Bearer the-client's-own", "x-api-key: the-client's-own", "Cookie: session=mine")
	if a.Status != 401 || strings.Contains(a.Body, harness.PK) || !strings.Contains(a.Body, "no such key") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a.Outcome() == "refused" || a.Reason() == "unauthorized" {
		t.Errorf("%q %q: it can't be told from a bad gateway key", a.Outcome(), a.Reason())
	}
	c := b.api.Call(1)
	if got := c.Values("Authorization"); len(got) != 1 || got[0] != "Bearer "+harness.PK {
		t.Errorf("the API was sent %q", got)
	}
	if strings.Contains(string(c.Head), "the-client's-own") || c.Get("Cookie") != "" {
		t.Errorf("what was the client's went on: %s", c.Head)
	}
}
