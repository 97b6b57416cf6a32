package providers

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"oncegate/policy"
)

func TestRequestAsSent(t *testing.T) {
	u := serve(t, json200(`{"choices":[{"finish_reason":"stop"}]}`))
	c := call(Chat, hi)
	c.Query = "api-version=1&x=a%2Bb"
	c.Header = http.Header{"X-Custom": {"a", "b"}, "Openai-Beta": {"z"}}
	if got := try(t, relay(t, u), c); got.err != nil {
		t.Fatal(got.err)
	}
	r, body := u.last()
	if r.RequestURI != "/v1/chat/completions?api-version=1&x=a%2Bb" || body != hi || "http://"+r.Host != u.url {
		t.Errorf("%s %s %s", r.RequestURI, r.Host, body)
	}
	want := map[string]string{
		"Authorization": "[Bearer sk-test-0123456789abcdef]", "Content-Type": "[application/json]", "X-Custom": "[a b]", "Openai-Beta": "[z]",
		"Accept-Encoding": "[identity]", "User-Agent": "[oncegate]", "Content-Length": fmt.Sprintf("[%d]", len(hi)),
	}
	for name, v := range want {
		if got := fmt.Sprint(r.Header[name]); got != v {
			t.Errorf("%s: %s, want %s", name, got, v)
		}
	}
	if len(r.Header) != len(want) {
		t.Errorf("headers %v", r.Header)
	}
	if len(c.Header) != 2 {
		t.Errorf("the call's own headers were changed: %v", c.Header)
	}
}

func TestCredentials(t *testing.T) {
	for _, c := range []struct {
		kind       Kind
		wire       Wire
		credential int
		want       string
	}{
		{KindOpenAI, Chat, 0, "Authorization Bearer k-first"},
		{KindOpenAI, Responses, 1, "Authorization Bearer k-second"},
		{KindAnthropic, Messages, 1, "X-Api-Key k-second"},
		{KindMock, Messages, 0, "X-Api-Key k-first"},
		{KindMock, Embeddings, 0, "Authorization Bearer k-first"},
	} {
		u := serve(t, json200(`{"choices":[{}],"content":[],"output":[]}`))
		r := relay(t, u, func(o *Options) { o.Kind, o.APIKeys = c.kind, []string{"k-first", "k-second"} })
		a, err := r.Try(t.Context(), call(c.wire, hi), "m2", c.credential)
		if err != nil {
			t.Fatal(err)
		}
		drained(t, a)
		request, body := u.last()
		var got strings.Builder
		for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key"} {
			if v := request.Header.Get(name); v != "" {
				got.WriteString(name + " " + v)
			}
		}
		if got.String() != c.want {
			t.Errorf("%s, wire %d: %q, want %q", c.kind, c.wire, got.String(), c.want)
		}
		if (request.Header.Get("Anthropic-Version") != "") != (c.wire == Messages) {
			t.Errorf("%s, wire %d: anthropic-version %q", c.kind, c.wire, request.Header.Get("Anthropic-Version"))
		}
		if !strings.Contains(body, `"model":"m2"`) {
			t.Error(body)
		}
	}
	u := serve(t, json200(`{"choices":[{}]}`))
	try(t, relay(t, u, func(o *Options) { o.APIKeys = nil }), call(Chat, hi))
	if r, _ := u.last(); r.Header["Authorization"] != nil {
		t.Error("a credential without a key")
	}
}

func TestServes(t *testing.T) {
	for kind, c := range map[Kind]struct{ yes, no []Wire }{
		KindOpenAI:    {[]Wire{Chat, Completions, Responses, Embeddings, Moderations, Images, Speech, Transcriptions, Rerank, Raw}, []Wire{Messages, CountTokens}},
		KindAnthropic: {[]Wire{Messages, CountTokens, Raw}, []Wire{Chat, Responses, Embeddings}},
		KindMock:      {[]Wire{Chat, Responses, Messages, CountTokens, Embeddings, Raw}, nil},
	} {
		r, err := New(Options{Kind: kind, BaseURL: "http://up"})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.yes {
			if !r.Serves(w) {
				t.Errorf("%s does not serve %d", kind, w)
			}
		}
		for _, w := range c.no {
			if r.Serves(w) {
				t.Errorf("%s serves %d", kind, w)
			}
		}
	}
}

// B017.
func TestResponseHeaders(t *testing.T) {
	u := serve(t, answer(200, "application/json", `{"choices":[{}]}`, "Connection: X-Foo, keep-alive", "X-Foo: 1", "Keep-Alive: 5", "Set-Cookie: a=b", "X-Bar: 2", "X-Request-Id: r1", "Openai-Processing-Ms: 3"))
	got := try(t, relay(t, u), call(Chat, hi))
	want := http.Header{"Content-Type": {"application/json"}, "X-Bar": {"2"}, "X-Request-Id": {"r1"}, "Openai-Processing-Ms": {"3"}}
	if fmt.Sprint(got.header) != fmt.Sprint(want) {
		t.Fatalf("%v, want %v", got.header, want)
	}
}

// How far an attempt came (POLICY.md 1, B047).
func TestPhases(t *testing.T) {
	quick := func(o *Options) {
		o.Timeouts = policy.Timeouts{Connect: 100 * time.Millisecond, FirstByte: 100 * time.Millisecond, Idle: 100 * time.Millisecond}
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, c := range map[string]struct {
		url     string
		scripts []func(net.Conn)
		body    string
		phase   policy.Phase
		timeout bool
	}{
		"refused":            {url: "http://" + closed.Addr().String(), phase: policy.NotSent},
		"no such name":       {url: "http://no-such-host.invalid", phase: policy.NotSent},
		"read, then reset":   {scripts: []func(net.Conn){reset}, phase: policy.Sent},
		"read, then closed":  {scripts: []func(net.Conn){func(c net.Conn) { c.Close() }}, phase: policy.Sent},
		"half a status line": {scripts: []func(net.Conn){func(c net.Conn) { io.WriteString(c, "HTTP/1."); c.Close() }}, phase: policy.Sent},
		"garbage":            {scripts: []func(net.Conn){func(c net.Conn) { io.WriteString(c, "SSH-2.0-x\r\n"); c.Close() }}, phase: policy.Sent},
		"only a 1xx":         {scripts: []func(net.Conn){func(c net.Conn) { io.WriteString(c, "HTTP/1.1 103 Early\r\n\r\n"); c.Close() }}, phase: policy.Sent},
		"no first byte":      {scripts: []func(net.Conn){hang}, body: hiStream, phase: policy.Sent, timeout: true},
		"no first event":     {scripts: []func(net.Conn){func(c net.Conn) { io.WriteString(c, eventsHead); hang(c) }}, body: hiStream, phase: policy.Broken, timeout: true},
		"a stream stops":     {scripts: []func(net.Conn){func(c net.Conn) { io.WriteString(c, eventsHead+chunk(text("a"))); hang(c) }}, body: hiStream, phase: policy.Broken, timeout: true},
		"a body stops":       {scripts: []func(net.Conn){func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"); hang(c) }}, phase: policy.Broken, timeout: true},
		"a body is cut":      {scripts: []func(net.Conn){func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{"); c.Close() }}, phase: policy.Broken},
		"a chunked body is cut": {scripts: []func(net.Conn){func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"")
			c.Close()
		}}, phase: policy.Broken},
		"a body in another coding": {scripts: []func(net.Conn){answer(200, "application/json", "xyz", "Content-Encoding: br")}, phase: policy.Answered},
	} {
		t.Run(name, func(t *testing.T) {
			u := &upstream{url: c.url}
			if c.url == "" {
				u = serve(t, c.scripts...)
			}
			r := relay(t, u, quick)
			if c.body == "" {
				c.body = hi
			}
			got := try(t, r, call(Chat, c.body))
			status := 0
			if c.phase == policy.Answered {
				status = 502
			}
			failed(t, got.err, c.phase, status)
			if got.err.Timeout != c.timeout || got.err.Cancelled {
				t.Errorf("timeout %v, cancelled %v", got.err.Timeout, got.err.Cancelled)
			}
			if text := got.err.Error(); strings.Contains(text, "127.0.0.1") || !strings.HasPrefix(text, "up ") {
				t.Errorf("not for a client's eyes: %s", text)
			}
			if n := r.TransportReplays(); n != 0 {
				t.Errorf("%d replays", n)
			}
		})
	}
}

// A dial that hangs is bounded by connect, and nothing was sent.
func TestConnectTimeout(t *testing.T) {
	r := relay(t, &upstream{url: "http://up"})
	r.conns.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return nil, failedDial(context.DeadlineExceeded)
	}
	got := try(t, r, call(Chat, hi))
	failed(t, got.err, policy.NotSent, 0)
	if !got.err.Timeout {
		t.Error("no time-out")
	}
	// A TLS handshake that is not answered counts as connecting.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r = relay(t, &upstream{url: "https://" + l.Addr().String()}, func(o *Options) { o.Timeouts.Connect = 50 * time.Millisecond })
	got = try(t, r, call(Chat, hi))
	failed(t, got.err, policy.NotSent, 0)
	if !got.err.Timeout {
		t.Error("no time-out in the handshake")
	}
}

// A non-streamed call has no first_byte limit: comments and empty lines of a
// slow answer count as life, its total is the record's.
func TestNonStreamedIsNotBoundByFirstByte(t *testing.T) {
	release := make(chan struct{})
	u := serve(t, func(c net.Conn) {
		<-release
		answer(200, "application/json", "\n\n \n"+`{"choices":[{}]}`)(c)
	})
	r := relay(t, u, func(o *Options) { o.Timeouts.FirstByte = 10 * time.Millisecond })
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	if got := try(t, r, call(Chat, hi)); got.err != nil {
		t.Fatal(got.err)
	}
}

func TestCancelled(t *testing.T) {
	for name, script := range map[string]func(net.Conn){
		"before headers": hang,
		"within a body":  func(c net.Conn) { io.WriteString(c, eventsHead+chunk(text("a"))); hang(c) },
	} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			u := serve(t, func(c net.Conn) { script(c); close(gone) })
			ctx, cancel := context.WithCancelCause(t.Context())
			why := errors.New("nobody reads")
			time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
			a, err := relay(t, u).Try(ctx, call(Chat, hiStream), "", 0)
			if err == nil {
				err = drained(t, a).err
			}
			if err == nil || !err.Cancelled || err.Timeout || !errors.Is(err, why) {
				t.Fatalf("%+v", err)
			}
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				t.Fatal("the upstream was not let go")
			}
		})
	}
}

// B047a: the upstream closed the idle connection. What matters is that a
// phase of "not sent" is never claimed for a request that was read.
func TestStaleConnections(t *testing.T) {
	u := serve(t, json200(`{"choices":[{}]}`), func(c net.Conn) { c.Close() })
	r := relay(t, u)
	if got := try(t, r, call(Chat, hi)); got.err != nil {
		t.Fatal(got.err)
	}
	got := try(t, r, call(Chat, hi))
	failed(t, got.err, policy.Sent, 0)
	if u.calls() != 2 || r.TransportReplays() != 0 {
		t.Fatalf("%d calls, %d replays", u.calls(), r.TransportReplays())
	}
}

// deadConn fails its second write before anything is written, as a
// connection does that was closed while idle.
func TestNothingWrittenIsNotSent(t *testing.T) {
	u := serve(t, json200(`{"choices":[{}]}`))
	r := relay(t, u)
	dial := r.conns.dial
	var conns []*markedConn
	r.conns.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err == nil {
			conns = append(conns, c.(*markedConn))
		}
		return c, err
	}
	if got := try(t, r, call(Chat, hi)); got.err != nil {
		t.Fatal(got.err)
	}
	conns[0].seal(0) // no write begins on it any more
	got := try(t, r, call(Chat, hi))
	failed(t, got.err, policy.NotSent, 0)
	if got := try(t, r, call(Chat, hi)); got.err != nil {
		t.Fatal(got.err)
	}
	if u.calls() != 2 {
		t.Fatalf("%d calls", u.calls())
	}
}

// The mark moves before the write: a write that fails half way counts as sent.
func TestMarkMovesBeforeTheWrite(t *testing.T) {
	here, there := net.Pipe()
	there.Close()
	c := &markedConn{Conn: here}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Fatal("written to nobody")
	}
	if c.seal(0) {
		t.Fatal("a write that began counts as nothing")
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, errSealed) {
		t.Fatal(err)
	}
}

// WRITES.md 2: net/http sends nothing twice by itself.
func TestNothingIsSentTwice(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT"} {
		for _, body := range []string{"", hi} {
			u := serve(t, json200(`{}`), func(c net.Conn) { c.Close() })
			r := relay(t, u)
			c := call(Raw, body)
			c.Header = http.Header{"X-Idempotency-Key": {"k"}}
			warm := call(Raw, "")
			warm.Method = "POST"
			try(t, r, warm)
			c.Method = method
			got := try(t, r, c)
			failed(t, got.err, policy.Sent, 0)
			if u.calls() != 2 || r.TransportReplays() != 0 {
				t.Errorf("%s with %d bytes: %d calls, %d replays", method, len(body), u.calls()-1, r.TransportReplays())
			}
		}
	}
}

func TestBodylessRequests(t *testing.T) {
	for _, method := range []string{"GET", "DELETE", "POST"} {
		u := serve(t, json200(`{}`))
		c := call(Raw, "")
		c.Method, c.ContentType = method, ""
		if got := try(t, relay(t, u), c); got.err != nil {
			t.Fatal(method, got.err)
		}
		if r, body := u.last(); body != "" || len(r.TransferEncoding) > 0 {
			t.Errorf("%s: %v", method, r.TransferEncoding)
		}
	}
}

// B095: a redirect is passed on, its target never called.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := serve(t, json200(`{}`))
	u := serve(t, answer(307, "text/plain", "", "Location: "+other.url+"/?k=sk-test-0123456789abcdef"))
	got := try(t, relay(t, u), call(Chat, hi))
	failed(t, got.err, policy.Answered, 307)
	if other.calls() != 0 {
		t.Fatal("followed")
	}
	if l := got.err.Header.Get("Location"); strings.Contains(l, "sk-test") {
		t.Error(l)
	}
}

func TestRefusals(t *testing.T) {
	const key = "sk-test-0123456789abcdef"
	for name, c := range map[string]struct {
		status int
		media  string
		body   string
		lines  []string
		want   policy.Failure
		object bool
		shown  string // the body, when it is not what was sent
	}{
		"503":                  {status: 503, body: `{"error":{"message":"x"}}`, object: true},
		"429 with a wait":      {status: 429, body: `{"error":{}}`, lines: []string{"Retry-After: 2"}, want: policy.Failure{Throttle: true, RetryAfter: 2 * time.Second, HasRetryAfter: true}, object: true},
		"529":                  {status: 529, body: `{"type":"error","error":{"type":"overloaded_error"}}`, want: policy.Failure{Throttle: true}, object: true},
		"a spent quota":        {status: 429, body: `{"error":{"code":"insufficient_quota"}}`, want: policy.Failure{Throttle: true, Quota: true}, object: true},
		"402":                  {status: 402, body: `{}`, want: policy.Failure{Quota: true}, object: true},
		"401 quoting the key":  {status: 401, body: `{"error":{"message":"Incorrect API key provided: sk-tes*******cdef; ` + key + `"}}`, want: policy.Failure{Credential: true}, object: true, shown: `{"error":{"message":"Incorrect API key provided: ***; ***"}}`},
		"403":                  {status: 403, body: `{}`, want: policy.Failure{Credential: true}, object: true},
		"too long":             {status: 400, body: `{"error":{"code":"context_length_exceeded"}}`, want: policy.Failure{ContextLength: true}, object: true},
		"too long, Anthropic":  {status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, want: policy.Failure{ContextLength: true}, object: true},
		"too long, in a list":  {status: 400, body: `[{"error":{"code":"context_length_exceeded"}}]`, want: policy.Failure{ContextLength: true}},
		"too long, an event":   {status: 400, body: `{"type":"response.failed","response":{"error":{"code":"context_length_exceeded"}}}`, want: policy.Failure{ContextLength: true}, object: true},
		"too long, a text":     {status: 400, body: `{"error":"too long","code":"context_length_exceeded"}`, want: policy.Failure{ContextLength: true}, object: true},
		"xsr false":            {status: 500, body: `{}`, lines: []string{"x-should-retry: false"}, want: policy.Failure{ShouldRetry: -1}, object: true},
		"xsr true":             {status: 409, body: `{}`, lines: []string{"x-should-retry: true"}, want: policy.Failure{ShouldRetry: 1}, object: true},
		"B033 HTML":            {status: 502, media: "text/html", body: "<html>" + strings.Repeat("x", 40<<10)},
		"B032 a list":          {status: 400, body: `[{"error":{}}]`},
		"B032 null":            {status: 400, body: `null`},
		"B032 not JSON":        {status: 400, body: `{"error":`},
		"B032 nothing":         {status: 400, body: ``},
		"B032 detail":          {status: 400, body: `{"detail":"x"}`, object: true},
		"B032 text":            {status: 400, body: `{"error":"text"}`, object: true},
		"an early hint, a 500": {status: 500, body: `{}`, object: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.media == "" {
				c.media = "application/json"
			}
			u := serve(t, func(conn net.Conn) {
				io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
				answer(c.status, c.media, c.body, c.lines...)(conn)
			})
			got := try(t, relay(t, u), call(Chat, hi))
			failed(t, got.err, policy.Answered, c.status)
			c.want.Phase, c.want.Status, c.want.Err = policy.Answered, c.status, got.err.Err
			if got.err.Failure != c.want {
				t.Errorf("%+v\nwant %+v", got.err.Failure, c.want)
			}
			if c.shown == "" {
				c.shown = c.body
			}
			if string(got.err.Body) != c.shown || got.err.Object != c.object {
				t.Errorf("body %.200q, object %v", got.err.Body, got.err.Object)
			}
		})
	}
}

// Headers and body of a usual request leave together: a write is a system
// call, and mostly a packet.
func TestRequestGoesOutInOneWrite(t *testing.T) {
	r := relay(t, serve(t, json200(`{"choices":[{}]}`)))
	c := call(Chat, strings.Replace(hi, "hi", strings.Repeat("x", 1024-len(hi)+2), 1))
	for _, name := range []string{"User-Agent", "Openai-Organization", "Openai-Project", "X-Request-Id"} {
		c.Header[name] = []string{strings.Repeat("v", 40)}
	}
	for n := uint64(1); n <= 3; n++ {
		a, err := r.Try(t.Context(), c, "m2", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.(*whole).conn.mark.Load() / 2; got != n {
			t.Errorf("%d requests took %d writes", n, got)
		}
		drained(t, a)
	}
}

// A request may be large, and its answer long: what was sent is not held as
// long as the answer comes.
func TestRequestBodyIsLetGo(t *testing.T) {
	u := serve(t, func(c net.Conn) {
		io.WriteString(c, eventsHead+chunk(text("a")))
		hang(c)
	})
	r := relay(t, u)
	c := call(Chat, strings.Replace(hiStream, "hi", strings.Repeat("x", 1<<20), 1))
	c.Body = []byte(strings.Replace(string(c.Body), "{", `{"stream_options":{"include_usage":true},`, 1)) // goes as it is
	sent := weak.Make(&c.Body[0])
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, err := r.Try(ctx, c, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if p, err := a.Next(); err != nil || len(p.Data) == 0 {
		t.Fatal(err)
	}
	c.Body = nil
	for end := time.Now().Add(10 * time.Second); sent.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("the request's body is held while its answer comes")
		}
	}
}

// B046: the bodies of errors are read and their connections used again.
func TestErrorConnectionsAreReused(t *testing.T) {
	u := serve(t, answer(429, "application/json", `{"error":"`+strings.Repeat("x", 64<<10)+`"}`))
	r := relay(t, u)
	for range 50 {
		failed(t, try(t, r, call(Chat, hi)).err, policy.Answered, 429)
		settle(r)
	}
	if n := u.connections(); n > 3 {
		t.Fatalf("%d connections", n)
	}
}

func TestErrorBodiesAreCapped(t *testing.T) {
	u := serve(t, answer(500, "text/plain", strings.Repeat("x", 3<<20)))
	got := try(t, relay(t, u), call(Chat, hi))
	failed(t, got.err, policy.Answered, 500)
	if len(got.err.Body) != maxErrorBody {
		t.Fatal(len(got.err.Body))
	}
}

// An upstream that compresses though it was asked not to is understood.
func TestUnaskedCompression(t *testing.T) {
	packed := func(s string) string {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		io.WriteString(z, s)
		z.Close()
		return b.String()
	}
	want := `{"choices":[{"finish_reason":"length"}]}`
	got := try(t, relay(t, serve(t, answer(200, "application/json", packed(want), "Content-Encoding: gzip"))), call(Chat, hi))
	if got.err != nil || got.bytes() != want || !got.end.Cut || got.header.Get("Content-Encoding") != "" {
		t.Fatalf("%v %q %v", got.err, got.bytes(), got.header)
	}
	events := role + text("a") + finish + done
	got = try(t, relay(t, serve(t, answer(200, "text/event-stream", packed(events), "Content-Encoding: gzip"))), call(Chat, hiStream))
	if got.err != nil || got.bytes() != events || !got.end.Whole {
		t.Fatalf("%v %q", got.err, got.bytes())
	}
	got = try(t, relay(t, serve(t, answer(400, "application/json", packed(`{"error":{}}`), "Content-Encoding: gzip"))), call(Chat, hi))
	failed(t, got.err, policy.Answered, 400)
	if string(got.err.Body) != `{"error":{}}` {
		t.Fatalf("%q", got.err.Body)
	}
	got = try(t, relay(t, serve(t, answer(200, "application/json", packed(want)[:12], "Content-Encoding: gzip"))), call(Chat, hi))
	failed(t, got.err, policy.Broken, 0)
}

// TLS: the same phases, with the mark above TLS.
func TestOverTLS(t *testing.T) {
	n := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n > 1 {
			panic(http.ErrAbortHandler)
		}
		if r.ProtoMajor != 1 {
			t.Error(r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[{}]}`)
	}))
	defer s.Close()
	r := relay(t, &upstream{url: s.URL})
	got := try(t, r, call(Chat, hi))
	failed(t, got.err, policy.NotSent, 0) // an unknown authority
	if !strings.Contains(got.err.Error(), "TLS failed") {
		t.Error(got.err)
	}
	r.dialer.tls.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if got := try(t, r, call(Chat, hi)); got.err != nil {
		t.Fatal(got.err)
	}
	failed(t, try(t, r, call(Chat, hi)).err, policy.Sent, 0)
	if r.TransportReplays() != 0 {
		t.Error("replayed")
	}
}
