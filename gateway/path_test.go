package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache/local"
	"oncegate/gateway"
	"oncegate/policy"
	"oncegate/providers"
)

// house is a gateway over its embedded store, with an upstream that the test
// gives, all on loopback sockets.
type house struct {
	t     testing.TB
	g     *gateway.Gateway
	url   string
	calls atomic.Int64
}

func newHouse(t testing.TB, upstream http.HandlerFunc, change func(*gateway.Options)) *house {
	t.Helper()
	h := &house{t: t}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		upstream(w, r)
	}))
	store, err := local.Open(t.TempDir(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	relay, err := providers.New(providers.Options{Name: "up", BaseURL: up.URL, APIKeys: []string{"secret"}})
	if err != nil {
		t.Fatal(err)
	}
	o := gateway.Options{
		Store: store, Journal: store.Journal(),
		Upstreams: []gateway.Upstream{{Provider: relay, Policy: policy.Config{Backoff: policy.Backoff{Base: 10 * time.Millisecond}}}},
		Models:    []gateway.Model{{Name: "*", Targets: []gateway.ModelTarget{{Upstream: "up"}}}},
	}
	if change != nil {
		change(&o)
	}
	if h.g, err = gateway.New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h.g.Data(), ConnContext: gateway.ConnContext}
	go srv.Serve(listener{l})
	h.url = "http://" + l.Addr().String()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := h.g.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
		srv.Close()
		relay.Close()
		up.Close()
		store.Close()
	})
	return h
}

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return gateway.NewConn(c), nil
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (h *house) post(path, body string, headers ...string) answer {
	h.t.Helper()
	req, _ := http.NewRequest(http.MethodPost, h.url+path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Error(err)
		return answer{}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Errorf("reading: %v", err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// await waits until the gateway's metrics have a line.
func (h *house) await(line string) {
	h.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		w := httptest.NewRecorder()
		h.g.Admin().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
		if strings.Contains(w.Body.String(), line) {
			return
		}
	}
	h.t.Errorf("there was never %s", line)
}

const hi = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

func chat(w http.ResponseWriter, id string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q,"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, id)
}

func TestTenAtOnceAreOneCall(t *testing.T) {
	var open sync.WaitGroup
	open.Add(1)
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		open.Wait()
		chat(w, "1")
	}, nil)
	var wg sync.WaitGroup
	answers := make([]answer, 10)
	for i := range answers {
		wg.Go(func() { answers[i] = h.post("/v1/chat/completions", hi) })
	}
	h.await(`oncegate_followers{operation="chat"} 9`)
	open.Done()
	wg.Wait()
	outcomes := map[string]int{}
	for _, a := range answers {
		if a.status != 200 || a.body != answers[0].body {
			t.Errorf("%d %s", a.status, a.body)
		}
		outcomes[a.header.Get("Oncegate-Outcome")]++
	}
	if n := h.calls.Load(); n != 1 || outcomes["executed"] != 1 || outcomes["coalesced"] != 9 {
		t.Errorf("%d calls, outcomes %v", n, outcomes)
	}
}

func TestRetriesUntilItAnswers(t *testing.T) {
	var n atomic.Int64
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) < 3 {
			w.WriteHeader(503)
			return
		}
		chat(w, "3")
	}, nil)
	a := h.post("/v1/chat/completions", hi)
	if a.status != 200 || a.header.Get("Oncegate-Attempts") != "3" || h.calls.Load() != 3 {
		t.Errorf("%d after %d calls: %s", a.status, h.calls.Load(), a.body)
	}
}

func TestAnExplicitKeyReplaysAndRefuses(t *testing.T) {
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, nil)
	first := h.post("/v1/chat/completions", hi, "Idempotency-Key", "k")
	again := h.post("/v1/chat/completions", hi, "Idempotency-Key", `"k"`)
	other := h.post("/v1/chat/completions", strings.Replace(hi, "hi", "ho", 1), "Idempotency-Key", "k")
	if again.body != first.body || again.header.Get("Oncegate-Outcome") != "replayed" || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v", again)
	}
	if other.status != 422 || !strings.Contains(other.body, "idempotency_key_reused") {
		t.Errorf("%+v", other)
	}
	if h.calls.Load() != 1 {
		t.Errorf("%d calls", h.calls.Load())
	}
}

func TestAStreamIsRelayedAndEnded(t *testing.T) {
	events := "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for e := range strings.SplitAfterSeq(events, "\n\n") {
			io.WriteString(w, e)
			w.(http.Flusher).Flush()
		}
	}, nil)
	a := h.post("/v1/chat/completions", strings.Replace(hi, "{", `{"stream":true,`, 1))
	if a.body != events+"data: [DONE]\n\n" {
		t.Errorf("%d %q", a.status, a.body)
	}
}
