package gateway_test

import (
	"crypto/sha256"
	"io"
	"net/http"
	"slices"
	"testing"

	"oncegate/gateway"
)

// The demo request goes out once, though it is sent twice, also where clients
// need keys; and each time it is another.
func TestDemoRunsOnce(t *testing.T) {
	for name, change := range map[string]func(*gateway.Options){
		"open": func(*gateway.Options) {},
		"with keys": func(o *gateway.Options) {
			o.Keys = []gateway.ClientKey{{Name: "research", Hash: sha256.Sum256([]byte("k")), Models: []string{"gpt-4.1"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			both := make(chan struct{})
			b := newBooksOver(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				<-both
				chat(w, "1")
			}, func(o *gateway.Options) { o.Upstreams[0].Mock = true; change(o) })
			for n := range int64(2) {
				done := make(chan map[string]any)
				go func() {
					_, out := b.ask("POST", "/api/demo", "{}")
					done <- out
				}()
				b.await(`oncegate_followers{operation="chat"} 1`)
				both <- struct{}{}
				out := <-done
				got, _ := out["outcomes"].([]any)
				if !slices.Equal(got, []any{"executed", "coalesced"}) || b.calls.Load() != n+1 {
					t.Fatalf("%v, %d calls", out, b.calls.Load())
				}
			}
			if s := b.get("/api/summary?user=demo"); s["mock"] != true || at(s, "total.requests") != 4. || at(s, "total.saved.by.twin") != 2. {
				t.Errorf("%v", s)
			}
			if name == "open" {
				return
			}
			if got := b.post("/v1/chat/completions", hi, "Authorization", "Bearer demo"); got.status != 401 {
				t.Errorf("the demo's name is a key: %d", got.status)
			}
		})
	}
}

// Where a demo would be billed there is none.
func TestNoDemoWithoutTheMock(t *testing.T) {
	b := newBooks(t, nil)
	status, out := b.ask("POST", "/api/demo", "{}")
	if code, _, _ := fault(out); status != 404 || code != "not_found" || b.calls.Load() != 0 {
		t.Errorf("%d %v", status, out)
	}
	if status, _ := b.ask("GET", "/api/demo", ""); status != 405 {
		t.Errorf("a GET: %d", status)
	}
	if status, _ := b.ask("POST", "/api/demo", "{}", "Content-Type", "text/plain"); status != 400 {
		t.Errorf("a form from anywhere: %d", status)
	}
	if status, _ := b.ask("POST", "/api/demo", "{}", "Sec-Fetch-Site", "cross-site"); status != 403 {
		t.Errorf("another site: %d", status)
	}
}
