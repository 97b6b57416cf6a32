// Package mock is a scripted upstream. It speaks the APIs of OpenAI and
// Anthropic well enough for their SDKs, echoes what it was told, counts what
// it was asked and what it would have billed, and goes wrong on demand: in
// its statuses, in time, and on the wire.
package mock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// maxRequest bounds a request's body, in bytes.
const maxRequest = 64 << 20

// Options of a Mock. The zero value answers everything at once.
type Options struct {
	Script       Script
	Latency      time.Duration // before the headers of default answers
	ChunkLatency time.Duration // between the chunks of default answers
	Models       []string      // what GET /models lists; default "mock"
	// OnArrival is called once a request's body was read and its step chosen,
	// before anything is answered.
	OnArrival func(Arrival)
}

// Mock is the upstream: an http.Handler for any path that ends in an
// operation of the two APIs, and for /_mock/. Its zero value is not usable;
// see New.
type Mock struct {
	opts Options

	mu        sync.Mutex
	script    Script
	steps     []remaining
	unlimited Step // the default answer
	stats     counters
	payments  *payments
}

// New makes a Mock. A script with faults is the caller's mistake and panics;
// one from outside goes through ParseScript first.
func New(opts Options) *Mock {
	if len(opts.Models) == 0 {
		opts.Models = []string{"mock"}
	}
	m := &Mock{opts: opts, payments: &payments{}}
	m.Load(opts.Script)
	return m
}

// Script replaces the steps by these. The counts go on.
func (m *Mock) Script(steps ...Step) {
	m.mu.Lock()
	s := m.script
	m.mu.Unlock()
	s.Steps = steps
	m.Load(s)
}

// Load replaces the whole script. The counts go on. It panics on a script
// that Validate finds fault with.
func (m *Mock) Load(s Script) {
	if err := s.Validate(); err != nil {
		panic("mock: " + err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load(s)
}

// Reset starts over: the counts at zero, no payments, no keys, the script as
// at first.
func (m *Mock) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.reset()
	m.payments = &payments{}
	m.load(m.opts.Script)
}

func (m *Mock) load(s Script) {
	m.script = s
	m.steps = make([]remaining, 0, len(s.Steps))
	for _, st := range s.Steps {
		m.steps = append(m.steps, remaining{step: st, left: max(st.Times, 1), forever: st.Times < 0})
	}
	m.unlimited = Step{Delay: m.opts.Latency, ChunkDelay: m.opts.ChunkLatency}
	if s.Otherwise != nil {
		m.unlimited = *s.Otherwise
	}
}

// ServeHTTP answers one request.
func (m *Mock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_mock/") {
		m.control(w, r)
		return
	}
	ex := &exchange{m: m, w: w, r: r, rc: http.NewResponseController(w)}
	m.track(+1)
	defer m.track(-1)

	step, early := m.takeEarly(r)
	if early {
		m.count(func(c *counters) { c.Partial++ })
		ex.step = step
		if !ex.atRequest() {
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		if !early {
			m.count(func(c *counters) { c.Partial++ })
		}
		ex.unreadable(err)
		return
	}
	if early { // a hang that is over: the body came whole after all
		m.count(func(c *counters) { c.Partial-- })
	}
	ask := read(r, body)
	if !early {
		step = m.take(r, ask)
	}
	ex.ask, ex.step = ask, step
	ex.arrival = m.arrive(r, ask)
	if m.opts.OnArrival != nil {
		m.opts.OnArrival(m.copyOf(ex.arrival))
	}
	ex.play()
}

// Serve answers the connections of l until ctx ends or the listener fails;
// then it closes them all. Only with it can a step reset a connection as it
// is accepted, and are accepts counted.
func (m *Mock) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: m, ReadHeaderTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(listener{l, m})
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// listener counts connections, and resets those whose step says so.
type listener struct {
	net.Listener
	m *Mock
}

func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		step, ok := l.m.accept()
		if !ok {
			return c, nil
		}
		breakConn(c, step.Reset != nil)
	}
}

// ask is a request as the mock understands it.
type ask struct {
	op    *operation // nil: a path that it does not know
	raw   []byte
	doc   gjson.Result // the body, when it is JSON
	sha   string       // of raw, in hex
	model string

	stream       bool
	includeUsage bool
	form         *form // of a multipart body
}

// read makes an ask of a request. What is wrong with the request is told
// later, by the operation: a script may want to answer it all the same.
func read(r *http.Request, body []byte) *ask {
	sum := sha256.Sum256(body)
	a := &ask{raw: body, sha: hex.EncodeToString(sum[:]), op: operationOf(r.URL.Path)}
	kind := r.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		a.form = readForm(kind, body)
	case a.op == paymentsOperation:
		a.form = readURLEncoded(kind, body)
	}
	if a.form != nil {
		a.model, a.stream = a.form.value("model"), a.form.value("stream") == "true"
	} else if b := bytes.TrimSpace(body); len(b) > 0 && b[0] == '{' && gjson.ValidBytes(b) {
		a.doc = gjson.ParseBytes(b)
		a.model = a.doc.Get("model").String()
		a.stream = a.doc.Get("stream").Bool()
		a.includeUsage = a.doc.Get("stream_options.include_usage").Bool()
	}
	if a.op == paymentsOperation && strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		a.stream = true
	}
	return a
}
