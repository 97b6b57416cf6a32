package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// demo sends a request to the built-in mock upstream, for people who look at an
// empty page and have no client at hand.
type demo struct {
	model string // one that the mock alone answers, so that asking it costs nothing; empty: there is none
	token string // the demo's own gateway key, where they are needed; never told
	data  func() http.Handler
}

const (
	demoName = "demo"           // of its key
	demoFor  = 30 * time.Second // the mock answers at once
)

func newDemo(g *Gateway) demo {
	d := demo{model: g.routes.mocked(), data: sync.OnceValue(g.Data)}
	if d.model != "" && len(g.clients) > 0 {
		d.token = "ogk_" + rand.Text()
		k := &ClientKey{Name: demoName, Hash: sha256.Sum256([]byte(d.token)), Models: []string{d.model}, Tools: []string{}}
		k.secret, k.macs = g.derive("demo", ""), new(sync.Pool)
		g.clients[k.Hash] = k
	}
	return d
}

// mocked is a model that the built-in mock upstream alone answers.
func (r *routes) mocked() string {
	mocked := func(rt *route) bool {
		return rt != nil && !slices.ContainsFunc(rt.targets, func(t *target) bool { return !t.up.Mock })
	}
	for _, name := range r.names {
		if mocked(r.byName[name]) {
			return name
		}
	}
	if mocked(r.any) {
		return "mock"
	}
	return ""
}

// playDemo answers POST /api/demo: one request, sent twice at once, each time
// one that was never sent before.
func (g *Gateway) playDemo(w http.ResponseWriter, r *http.Request) {
	refused := g.readNothing(w, r)
	if refused == nil && g.demo.model == "" {
		refused = notFound("no model here is answered by the built-in mock upstream alone, and a demo request to another would be billed")
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), demoFor)
	defer cancel()
	out := struct {
		Model    string   `json:"model"`
		Outcomes []string `json:"outcomes"` // the leader's first
	}{g.demo.model, make([]string, 2)}
	nonce := rand.Text()
	var wg sync.WaitGroup
	for i := range out.Outcomes {
		wg.Go(func() { out.Outcomes[i] = g.demo.send(ctx, nonce) })
	}
	wg.Wait()
	slices.SortStableFunc(out.Outcomes, func(a, b string) int { return slices.Index(outcomes, a) - slices.Index(outcomes, b) })
	writeFresh(w, out)
}

// send sends it, as a client would, and gives its outcome.
func (d *demo) send(ctx context.Context, nonce string) string {
	body, _ := json.Marshal(map[string]any{
		"model": d.model, "messages": []map[string]string{{"role": "user", "content": "Hello from the dashboard"}},
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/v1/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		return outcomeFailed
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Oncegate-Nonce", nonce)
	r.Header.Set("Oncegate-Dedupe", "always") // so that the second is none of its own, however late it comes
	r.Header.Set("Oncegate-User", demoName)
	if d.token != "" {
		r.Header.Set("Authorization", "Bearer "+d.token)
	}
	answer := headerOnly{header: http.Header{}}
	d.data().ServeHTTP(answer, r)
	return answer.header.Get("Oncegate-Outcome")
}

// headerOnly is an answer of which only the header is wanted.
type headerOnly struct{ header http.Header }

func (h headerOnly) Header() http.Header         { return h.header }
func (h headerOnly) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (h headerOnly) WriteHeader(int)             {}
