package gateway_test

import (
	"strings"
	"testing"

	"oncegate/cache"
)

// A completion that is forgotten runs anew, and the audit has who said so.
func TestForgottenCompletionsRunAnew(t *testing.T) {
	b := newBooksOver(t, chatty, nil)
	ask := func(want string) string {
		t.Helper()
		got := b.post("/v1/chat/completions", hi, "Idempotency-Key", "k1")
		if got.header.Get("Oncegate-Outcome") != want {
			t.Fatalf("%s, want %s", got.header.Get("Oncegate-Outcome"), want)
		}
		return got.header.Get("Oncegate-Key")
	}
	key := ask("executed")
	ask("replayed")
	path := "/api/records/" + key + "/forget"
	for body, param := range map[string]string{`{}`: "reason", `{"reason":""}`: "reason", `{"reason":"x","actor":"` + strings.Repeat("a", 300) + `"}`: "actor", `{"reason":"x","as":"executed"}`: "as", `[`: ""} {
		status, out := b.ask("POST", path, body)
		if _, got, _ := fault(out); status != 400 || got != param {
			t.Errorf("%s: %d %v", body, status, out)
		}
	}
	ask("replayed")
	if status, out := b.ask("POST", path, `{"reason":"it was wrong","actor":"ann"}`); status != 200 || out["forgotten"] != true {
		t.Fatalf("%d %v", status, out)
	}
	ask("executed")
	ask("replayed")
	if b.calls.Load() != 2 {
		t.Errorf("%d calls", b.calls.Load())
	}
	a := b.get("/api/audit")["audit"].([]any)
	if len(a) != 1 || at(a[0].(map[string]any), "what") != "forgotten" || at(a[0].(map[string]any), "actor") != "ann" || at(a[0].(map[string]any), "key") != key {
		t.Errorf("%v", a)
	}
	paid := b.run("paid", "payments", cache.Completed)
	if status, out := b.ask("POST", "/api/records/"+paid+"/forget", `{"reason":"again"}`); status != 409 {
		t.Errorf("a write: %d %v", status, out)
	}
	if status, _ := b.ask("POST", "/api/records/"+strings.Repeat("0", 64)+"/forget", `{"reason":"again"}`); status != 404 {
		t.Errorf("nothing: %d", status)
	}
	if status, _ := b.ask("POST", path, `{"reason":"x"}`, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("another origin: %d", status)
	}
}
