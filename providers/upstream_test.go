package providers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/policy"
)

// upstream is a raw HTTP/1 server: it reads each request whole and lets the
// next script write what it likes, byte by byte, or break off.
type upstream struct {
	url string

	mu       sync.Mutex
	scripts  []func(net.Conn)
	requests []*http.Request
	bodies   []string
	accepted int
}

// serve starts an upstream. Its last script serves all further requests.
func serve(t *testing.T, scripts ...func(net.Conn)) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{url: "http://" + l.Addr().String(), scripts: scripts}
	var conns sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.accepted++
			u.mu.Unlock()
			context.AfterFunc(ctx, func() { c.Close() })
			conns.Go(func() { u.converse(c) })
		}
	})
	return u
}

func (u *upstream) converse(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		u.mu.Lock()
		script := u.scripts[min(len(u.requests), len(u.scripts)-1)]
		u.requests = append(u.requests, request)
		u.bodies = append(u.bodies, string(body))
		u.mu.Unlock()
		script(c)
	}
}

func (u *upstream) calls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.requests)
}

func (u *upstream) connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.accepted
}

func (u *upstream) last() (*http.Request, string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.requests[len(u.requests)-1], u.bodies[len(u.bodies)-1]
}

// answer gives a whole response. Lines are further headers.
func answer(status int, media, body string, lines ...string) func(net.Conn) {
	return func(c net.Conn) {
		fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n", status, media, len(body))
		for _, line := range lines {
			io.WriteString(c, line+"\r\n")
		}
		io.WriteString(c, "\r\n"+body)
	}
}

func json200(body string) func(net.Conn) { return answer(200, "application/json", body) }

const eventsHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// stream sends each part as a chunk of its own and ends cleanly.
func stream(parts ...string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, eventsHead)
		for _, p := range parts {
			if p != "" {
				io.WriteString(c, chunk(p))
			}
		}
		io.WriteString(c, "0\r\n\r\n")
	}
}

func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// hang reads until the other side closes.
func hang(c net.Conn) { io.Copy(io.Discard, c) }

func relay(t *testing.T, u *upstream, change ...func(*Options)) *Relay {
	t.Helper()
	o := Options{Name: "up", Kind: KindMock, BaseURL: u.url, APIKeys: []string{"sk-test-0123456789abcdef"}}
	for _, c := range change {
		c(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func call(w Wire, body string) *Call {
	paths := map[Wire]string{
		Chat: "/chat/completions", Completions: "/completions", Responses: "/responses", Messages: "/messages",
		CountTokens: "/messages/count_tokens", Embeddings: "/embeddings", Moderations: "/moderations", Images: "/images/generations",
		Speech: "/audio/speech", Transcriptions: "/audio/transcriptions", Rerank: "/rerank", Raw: "/files",
	}
	return &Call{
		Wire: w, Method: "POST", Path: paths[w], Header: http.Header{}, ContentType: "application/json", Body: []byte(body),
		Model: "m1", Stream: strings.Contains(body, `"stream":true`),
	}
}

const hi = `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`

const hiStream = `{"model":"m1","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// read is an answer read to its end.
type read struct {
	pieces []Piece
	end    End
	err    *Error
	header http.Header
}

func (r read) bytes() string {
	var b bytes.Buffer
	for _, p := range r.pieces {
		b.Write(p.Data)
	}
	return b.String()
}

// kinds names the pieces' kinds, runs of one kind once.
func (r read) kinds() string {
	var s strings.Builder
	last := byte(0)
	for _, p := range r.pieces {
		k := "CPU"[p.Kind]
		if k != last && len(p.Data) > 0 {
			s.WriteByte(k)
			last = k
		}
	}
	return s.String()
}

// try makes one attempt and reads it to its end.
func try(t *testing.T, r *Relay, c *Call) read {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a, err := r.Try(ctx, c, "", 0)
	if err != nil {
		return read{err: err}
	}
	return drained(t, a)
}

func drained(t *testing.T, a Answer) read {
	t.Helper()
	defer a.Close()
	var out read
	out.header = a.Header()
	var given [][]byte
	defer func() {
		for _, data := range given {
			if len(bytes.Trim(data, "#")) > 0 {
				t.Errorf("a piece was changed after it was given out: %q", data)
			}
		}
	}()
	for {
		p, err := a.Next()
		if err != nil {
			out.err = err
			return out
		}
		given = append(given, p.Data)
		p.Data = bytes.Clone(p.Data)
		spoil(given[len(given)-1])
		out.pieces = append(out.pieces, p)
		if p.Last {
			out.end = a.End()
			return out
		}
	}
}

// spoil does to a piece's bytes what their owner may: nobody else's are to
// change by it.
func spoil(data []byte) {
	for i := range data {
		data[i] = '#'
	}
	_ = append(data, "################"...)
}

// failed compares what matters of a failure.
func failed(t *testing.T, got *Error, phase policy.Phase, status int) {
	t.Helper()
	switch {
	case got == nil:
		t.Fatalf("no error, want phase %d status %d", phase, status)
	case got.Phase != phase || got.Status != status:
		t.Fatalf("phase %d status %d (%v), want phase %d status %d", got.Phase, got.Status, got.Failure.Err, phase, status)
	case got.Failure.Err == nil:
		t.Fatal("a failure without a cause")
	}
}

func data(s string) string { return "data: " + s + "\n\n" }

func text(s string) string {
	return data(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"content":"` + s + `"},"finish_reason":null}]}`)
}

var (
	role   = data(`{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
	finish = data(`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	used   = data(`{"id":"c1","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`)
	done   = data("[DONE]")
)
