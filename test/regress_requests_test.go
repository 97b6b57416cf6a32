package test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// An encoded slash is no slash: such a path is no operation's.
func TestEncodedSlashesNameNoOperation(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	for _, path := range []string{"/v1/chat%2Fcompletions", "/v1/chat%2fcompletions", "/v1%2Fchat/completions"} {
		conn := g.Dial()
		conn.Send(g.Request("POST", path, cc()))
		a := conn.Response(5 * time.Second)
		problem{404, "not_found", "false", "", "", ""}.want(t, a)
		if got := a.Header.Get("Allow"); got != "" {
			t.Errorf("%s: Allow %q", path, got)
		}
	}
	wantUnseen(t, u, 0)
}

// The passthrough says no more of a body's length than the upstream did.
func TestPassthroughMakesUpNoLength(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		switch {
		case c.Method == "HEAD" && strings.HasSuffix(c.Target, "with"):
			return up.Status(200, "", "Content-Length: 42")
		case c.Method == "HEAD":
			return up.Raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
		case c.Method == "DELETE":
			return up.Raw("HTTP/1.1 204 No Content\r\n\r\n")
		}
		return up.Status(200, strings.Repeat("x", 42), "Content-Type: text/plain")
	})
	g := harness.Start(t, u.URL(), harness.Config{"passthrough": "up"})
	for path, length := range map[string]string{"/v1/files/with": "42", "/v1/files/without": ""} {
		a := g.Do("HEAD", path, "")
		if got := a.Header.Get("Content-Length"); a.Status != 200 || a.Body != "" || got != "" && got != length {
			t.Errorf("HEAD %s: %d, Content-Length %q", path, a.Status, got)
		}
	}
	if a := g.Get("/v1/files/with"); a.Status != 200 || len(a.Body) != 42 || a.Header.Get("Content-Length") != "42" {
		t.Errorf("GET: %d, %d bytes, Content-Length %q", a.Status, len(a.Body), a.Header.Get("Content-Length"))
	}
	if a := g.Do("DELETE", "/v1/files/with", ""); a.Status != 204 || a.Header.Get("Content-Length") != "" {
		t.Errorf("DELETE: %d, Content-Length %q", a.Status, a.Header.Get("Content-Length"))
	}
	wantCalls(t, u, 4)
}

// One of our headers counts once, and with a value that it has.
func TestOwnHeadersThatAreRefused(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	for name, value := range map[string]string{
		"Oncegate-Dedupe": "off", "Oncegate-Retry": "1", "Oncegate-Retry-Unknown": "1", "Oncegate-Timeout": "30s",
		"Oncegate-TTL": "10m", "Oncegate-User": "me", "Oncegate-Nonce": "n",
	} {
		line := name + ": " + value
		for _, second := range []string{line, name + ": x", strings.ToLower(name) + ": " + value, name + ":"} {
			a := g.Chat(cc(), line, second)
			problem{400, "invalid_request_error", "false", "refused", "bad_request", name}.want(t, a)
			if !strings.Contains(strings.ToLower(a.Field("error.message").String()), strings.ToLower(name)) {
				t.Errorf("%s, %s: the message does not name it: %s", line, second, a.Body)
			}
		}
	}
	wantUnseen(t, u, 0)
	for _, name := range []string{"Oncegate-Retry-Unknown", "Oncegate-Retry"} {
		for _, value := range []string{"x", "2", "true"} {
			problem{400, "invalid_request_error", "false", "refused", "bad_request", name}.want(t, g.Chat(cc(), name+": "+value))
		}
		for _, value := range []string{"0", "1"} {
			if a := g.Chat(said(name+value), name+": "+value); a.Status != 200 {
				t.Errorf("%s: %s: %d %s", name, value, a.Status, a.Body)
			}
		}
	}
	wantCalls(t, u, 4)
}

// A model's name becomes a header and a word of the log: it has a bound.
func TestLongModelNamesAreRefused(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	named := func(n int) string {
		return strings.Replace(cc(), `"m1"`, `"`+strings.Repeat("m", n)+`"`, 1)
	}
	problem{400, "invalid_request_error", "false", "refused", "bad_request", "model"}.want(t, g.Chat(named(300)))
	problem{400, "invalid_request_error", "false", "refused", "bad_request", "model"}.want(t, g.Chat(named(1<<20)))
	wantUnseen(t, u, 0)
	if a := g.Chat(named(200)); a.Status != 200 || !strings.HasSuffix(a.Header.Get("Oncegate-Target"), strings.Repeat("m", 200)) {
		t.Errorf("a name of 200: %d %q", a.Status, a.Header.Get("Oncegate-Target"))
	}
}

// What an upstream's answer varies by is kept beside what ours does.
func TestVaryOfTheUpstreamBesideCORS(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		if c.Field("stream").Bool() {
			return up.Seq(up.Open("Vary: Accept-Encoding", "Vary: X-Tier"), up.Events(up.Chunk("a"), up.Finish(), up.Done))
		}
		return up.Status(200, up.Completion("ok"), "Vary: Accept-Encoding", "Vary: X-Tier")
	})
	g := harness.Start(t, u.URL(), harness.Config{"server.cors.origins": []any{app}, "passthrough": "up"})
	for name, a := range map[string]*harness.Answer{
		"JSON":        g.Chat(cc(), "Origin: "+app),
		"stream":      g.Chat(cc(stream), "Origin: "+app),
		"passthrough": g.Post("/v1/other", cc(), "Origin: "+app),
	} {
		if a.Status != http.StatusOK || a.Header.Get("Access-Control-Allow-Origin") != app {
			t.Errorf("%s: %d %v", name, a.Status, a.Header)
		}
		vary := strings.ToLower(strings.Join(a.Header.Values("Vary"), ","))
		for _, want := range []string{"origin", "accept-encoding", "x-tier"} {
			if strings.Count(vary, want) != 1 {
				t.Errorf("%s: Vary %q, want %s in it once", name, vary, want)
			}
		}
	}
	// Without a page that asks, the upstream's alone.
	if got := strings.Join(g.Chat(cc()).Header.Values("Vary"), ","); !strings.Contains(got, "Accept-Encoding") {
		t.Errorf("without an Origin: Vary %q", got)
	}
}
