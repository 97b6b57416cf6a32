package harness

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// Paths that most tests ask.
const (
	Chat     = "/v1/chat/completions"
	Messages = "/v1/messages"
)

// Answer is a whole answer.
type Answer struct {
	Status  int
	Header  http.Header
	Trailer http.Header
	Body    string
	Err     error // the request or the reading of its answer failed; then the rest may be empty
	Took    time.Duration
}

// Field gives one value of the JSON body, by its gjson path.
func (a *Answer) Field(path string) gjson.Result { return gjson.Get(a.Body, path) }

// Text is the content of a chat completion.
func (a *Answer) Text() string { return a.Field("choices.0.message.content").String() }

// Outcome is how the gateway says that the request was answered.
func (a *Answer) Outcome() string { return a.Header.Get("Oncegate-Outcome") }

// Reason is the gateway's one word for why.
func (a *Answer) Reason() string { return a.Header.Get("Oncegate-Reason") }

// Do sends a request with these header lines ("Name: value") and reads the
// answer. A request that fails is an error of the test.
func (g *Gateway) Do(method, path, body string, lines ...string) *Answer {
	g.t.Helper()
	a := g.try(g.t.Context(), method, path, body, lines)
	if a.Err != nil {
		g.t.Errorf("%s %s: %v", method, path, a.Err)
	}
	return a
}

// Post posts a JSON body.
func (g *Gateway) Post(path, body string, lines ...string) *Answer {
	g.t.Helper()
	return g.Do(http.MethodPost, path, body, lines...)
}

// Chat posts a chat completion.
func (g *Gateway) Chat(body string, lines ...string) *Answer {
	g.t.Helper()
	return g.Post(Chat, body, lines...)
}

// Get asks with GET.
func (g *Gateway) Get(path string, lines ...string) *Answer {
	g.t.Helper()
	return g.Do(http.MethodGet, path, "", lines...)
}

// Try is Do for requests that may fail.
func (g *Gateway) Try(method, path, body string, lines ...string) *Answer {
	return g.try(g.t.Context(), method, path, body, lines)
}

func (g *Gateway) request(ctx context.Context, method, path, body string, lines []string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+g.Addr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		value = strings.TrimSpace(value)
		switch http.CanonicalHeaderKey(name) {
		case "Host":
			req.Host = value
		case "Content-Type", "User-Agent":
			req.Header.Set(name, value)
		default:
			req.Header.Add(name, value)
		}
	}
	return req, nil
}

func (g *Gateway) try(ctx context.Context, method, path, body string, lines []string) *Answer {
	req, err := g.request(ctx, method, path, body, lines)
	if err != nil {
		return &Answer{Header: http.Header{}, Err: err}
	}
	begun := time.Now()
	res, err := g.client.Do(req)
	if err != nil {
		return &Answer{Header: http.Header{}, Err: err, Took: time.Since(begun)}
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	return &Answer{Status: res.StatusCode, Header: res.Header, Trailer: res.Trailer, Body: string(out), Err: err, Took: time.Since(begun)}
}

// Pending is a request whose answer is still to come.
type Pending struct {
	g      *Gateway
	answer chan *Answer
	leave  context.CancelFunc
	conn   atomic.Value // net.Addr: the client's side of its connection
}

// Go sends a POST and does not wait for its answer.
func (g *Gateway) Go(path, body string, lines ...string) *Pending {
	ctx, cancel := context.WithCancel(g.t.Context())
	p := &Pending{g: g, answer: make(chan *Answer, 1), leave: cancel}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		p.conn.Store(c.Conn.LocalAddr())
	}})
	go func() {
		defer cancel()
		p.answer <- g.try(ctx, http.MethodPost, path, body, lines)
	}()
	return p
}

// Answer waits for the answer. A request that failed is an error of the test.
func (p *Pending) Answer() *Answer {
	p.g.t.Helper()
	a := p.Result()
	if a.Err != nil {
		p.g.t.Errorf("request: %v", a.Err)
	}
	return a
}

// Result waits for the answer or the failure of the request.
func (p *Pending) Result() *Answer {
	p.g.t.Helper()
	select {
	case a := <-p.answer:
		return a
	case <-time.After(30 * time.Second):
		p.g.t.Fatal("no answer within 30 s")
		return nil
	}
}

// Leave closes the connection under the request, as a client does that gives
// up, and waits until the gateway has noticed.
func (p *Pending) Leave() {
	p.g.t.Helper()
	p.leave()
	if a := p.Result(); a.Err == nil {
		p.g.t.Errorf("the answer came before the client left: %d %s", a.Status, a.Body)
	}
	p.g.letGo(p.conn.Load().(net.Addr))
}

// Patience is how long a test waits for what should be there at once.
const Patience = 10 * time.Second

// Eventually polls until ok, and fails the test when that takes longer than
// within.
func Eventually(t interface {
	Helper()
	Fatalf(string, ...any)
}, within time.Duration, what string, ok func() bool) {
	t.Helper()
	limit := time.Now().Add(within)
	for !ok() {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", within, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
