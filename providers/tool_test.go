package providers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/policy"
)

const (
	toolSecret = "acme-live-0123456789abcdef"
	ourKey     = "og-5f2c9b7a41d84e0e9c3b6a7d8e9f0a1b2c3d4e5f6a"
	payment    = `{"amount":1200,"to":"bob"}`
)

func tool(t testing.TB, at string, change ...func(*ToolOptions)) *Tool {
	t.Helper()
	o := ToolOptions{
		Name: "payments", BaseURL: at, UpstreamKeyHeader: "Idempotency-Key",
		Header: http.Header{"Authorization": {"Bearer " + toolSecret}},
	}
	for _, c := range change {
		c(&o)
	}
	tool, err := NewTool(o)
	if err != nil {
		t.Fatal(err)
	}
	tool.conns.idleFor = time.Minute // however slow the machine is
	t.Cleanup(tool.Close)
	return tool
}

// toolCall is a write as a client of the gateway's sends it, its own key on it.
func toolCall(method, body string) *ToolCall {
	c := &ToolCall{
		Method: method, Path: "/v1/payments", Body: []byte(body), UpstreamKey: ourKey, Write: true,
		Header: http.Header{"Idempotency-Key": {"client-key"}, "X-Idempotency-Key": {"client-key"}, "Authorization": {"Bearer ogk_client"}},
	}
	if body != "" {
		c.Header["Content-Type"] = []string{"application/json"}
	}
	return c
}

// toolRead is an answer read to its end.
type toolRead struct {
	status  int
	header  http.Header
	body    string
	failure *policy.Failure
	err     *Error // of Try, or of the reading
}

func use(t testing.TB, tool *Tool, c *ToolCall) (got toolRead) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a, failed := tool.Try(ctx, c)
	if failed != nil {
		return toolRead{err: failed}
	}
	defer a.Close()
	body, err := io.ReadAll(a)
	got = toolRead{status: a.Status(), header: a.Header(), body: string(body), failure: a.Failure()}
	if err != nil && !errors.As(err, &got.err) {
		t.Fatalf("%v is no *Error", err)
	}
	return got
}

// byProxy has a tool use net/http's transport, with the upstream as its proxy.
func byProxy(t *testing.T, tool *Tool, u *upstream) {
	at, err := url.Parse(u.url)
	if err != nil {
		t.Fatal(err)
	}
	tool.transport = newTransport(tool.dialer, time.Minute)
	tool.transport.Proxy = http.ProxyURL(at)
}

// The table of WRITES.md 2: on a connection in use the upstream reads the
// whole request and breaks off. Whatever it is, it was executed once, and that
// it was is not denied.
func TestToolSendsOnce(t *testing.T) {
	ends := map[string]func(net.Conn){"FIN": func(c net.Conn) { c.Close() }, "RST": reset}
	for _, way := range []string{"own", "transport"} {
		for end, script := range ends {
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS", "PURGE"} {
				for _, body := range []string{"", payment, strings.Repeat("x", 4*smallRequest)} {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", way, end, method, len(body)), func(t *testing.T) {
						u := serve(t, json200(`{}`), script)
						to := tool(t, u.url)
						if way == "transport" {
							byProxy(t, to, u)
						}
						if got := use(t, to, toolCall("POST", payment)); got.err != nil {
							t.Fatal(got.err)
						}
						c := toolCall(method, body)
						got := use(t, to, c)
						failed(t, got.err, policy.Sent, 0)
						if u.calls() != 2 || u.connections() != 1 {
							t.Errorf("%d executions on %d connections", u.calls()-1, u.connections())
						}
						if n := to.TransportReplays(); n != 0 {
							t.Errorf("%d replays", n)
						}
						request, came := u.last()
						key := request.Header.Values("Idempotency-Key")
						if came != body || len(request.TransferEncoding) > 0 || len(key) != 1 || key[0] != ourKey || request.Header["X-Idempotency-Key"] != nil {
							t.Errorf("%d bytes, %v, key %q, %v", len(came), request.TransferEncoding, key, request.Header)
						}
					})
				}
			}
		}
	}
}

// What the table is about: net/http as it comes does execute twice, so these
// upstreams would show it.
func TestNetHTTPWouldSendTwice(t *testing.T) {
	u := serve(t, json200(`{}`), func(c net.Conn) { c.Close() }, json200(`{}`))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 2 {
		r, err := http.NewRequest("POST", u.url, strings.NewReader(payment))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "k")
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if u.calls() != 3 {
		t.Fatalf("%d executions of two calls: the traps of WRITES.md 2 are gone", u.calls())
	}
}

// Should net/http set out to send once more all the same, it is counted, and
// nothing leaves.
func TestAReplayIsCountedAndStopped(t *testing.T) {
	u := serve(t, json200(`{}`), func(c net.Conn) { c.Close() })
	to := tool(t, u.url)
	byProxy(t, to, u)
	if got := use(t, to, toolCall("POST", payment)); got.err != nil {
		t.Fatal(got.err)
	}
	var a ToolAnswer
	a.begin(t.Context(), &to.endpoint)
	request, err := http.NewRequest("GET", u.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.sendByTransport(request)
	if !errors.Is(err, errSealed) {
		t.Fatal(err)
	}
	failed(t, a.unanswered(err), policy.Sent, 0)
	if u.calls() != 2 || to.TransportReplays() != 1 {
		t.Errorf("%d executions, %d replays", u.calls()-1, to.TransportReplays())
	}
}

// An upstream may offer HTTP/2, which sends again by itself: it is not taken.
func TestToolUsesNoHTTP2(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Header.Get("Authorization") == "" {
			fmt.Fprint(w, r.Proto)
			return
		}
		if r.ProtoMajor != 1 {
			t.Error(r.Proto)
		}
		if calls.Add(1)%2 == 0 {
			panic(http.ErrAbortHandler)
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	offered, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if proto, _ := io.ReadAll(offered.Body); string(proto) != "HTTP/2.0" {
		t.Fatalf("%s is offered", proto)
	}
	offered.Body.Close()

	for _, way := range []string{"own", "transport"} {
		for _, c := range []*ToolCall{toolCall("POST", payment), toolCall("POST", ""), toolCall("DELETE", "")} {
			to := tool(t, s.URL)
			to.dialer.tls.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			if way == "transport" {
				to.transport = newTransport(to.dialer, time.Minute)
			}
			before := calls.Load()
			if got := use(t, to, c); got.err != nil {
				t.Fatal(got.err)
			}
			failed(t, use(t, to, c).err, policy.Sent, 0)
			if calls.Load() != before+2 || to.TransportReplays() != 0 {
				t.Errorf("%s %s: %d executions, %d replays", way, c.Method, calls.Load()-before-1, to.TransportReplays())
			}
		}
	}

	// One that speaks no HTTP/1 is not spoken to.
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.Config.ErrorLog = log.New(io.Discard, "", 0)
	other.TLS = &tls.Config{NextProtos: []string{"h3"}}
	other.StartTLS()
	defer other.Close()
	to := tool(t, other.URL)
	to.dialer.tls.RootCAs = other.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	failed(t, use(t, to, toolCall("POST", payment)).err, policy.NotSent, 0)
}

func TestToolFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, way := range []string{"own", "transport"} {
			other := serve(t, json200(`{}`))
			u := serve(t, answer(status, "text/plain", "moved", "Location: "+other.url+"/v1/payments?token="+toolSecret))
			to := tool(t, u.url)
			if way == "transport" {
				byProxy(t, to, u)
			}
			got := use(t, to, toolCall("POST", payment))
			if got.err != nil || got.status != status || got.failure != nil || got.body != "moved" {
				t.Errorf("%+v", got)
			}
			if want := other.url + "/v1/payments?token=***"; got.header.Get("Location") != want {
				t.Errorf("%s, want %s", got.header.Get("Location"), want)
			}
			if other.calls() != 0 || u.calls() != 1 {
				t.Errorf("%d: the other host has %d calls", status, other.calls())
			}
		}
	}
}

// What proves that nothing was sent, and what does not.
func TestToolPhases(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	unknown := httptest.NewUnstartedServer(http.NotFoundHandler())
	unknown.Config.ErrorLog = log.New(io.Discard, "", 0)
	unknown.StartTLS()
	defer unknown.Close()
	lines := func(s string) func(net.Conn) {
		return func(c net.Conn) { io.WriteString(c, s); c.Close() }
	}
	for name, c := range map[string]struct {
		url    string
		script func(net.Conn)
		phase  policy.Phase
		text   string
	}{
		"refused":             {url: "http://" + closed.Addr().String(), phase: policy.NotSent, text: "payments could not be reached: connection refused"},
		"no such name":        {url: "http://no-such-host.invalid", phase: policy.NotSent, text: "payments could not be reached: its name could not be resolved"},
		"unknown authority":   {url: unknown.URL, phase: policy.NotSent, text: "payments could not be reached: TLS failed"},
		"a silent handshake":  {url: "https://" + silent.Addr().String(), phase: policy.NotSent, text: "payments could not be reached within 200ms"},
		"closed":              {script: lines(""), phase: policy.Sent, text: "payments broke off without an answer: connection closed"},
		"reset":               {script: reset, phase: policy.Sent, text: "payments broke off without an answer: connection reset"},
		"half a line":         {script: lines("HTTP/1."), phase: policy.Sent},
		"half a head":         {script: lines("HTTP/1.1 201 Created\r\nLocat"), phase: policy.Sent},
		"no HTTP":             {script: lines("SSH-2.0-x\r\n\r\n"), phase: policy.Sent},
		"1xx only":            {script: lines("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"), phase: policy.Sent},
		"another protocol":    {script: lines("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), phase: policy.Sent, text: "payments broke off without an answer: the status 101 is no end of an answer"},
		"two lengths":         {script: lines("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), phase: policy.Sent},
		"an encoding unheard": {script: lines("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nxx"), phase: policy.Sent},
	} {
		t.Run(name, func(t *testing.T) {
			if c.script != nil {
				c.url = serve(t, c.script).url
			}
			to := tool(t, c.url, func(o *ToolOptions) {
				if name == "a silent handshake" {
					o.Timeouts.Connect = 200 * time.Millisecond
				}
			})
			got := use(t, to, toolCall("POST", payment))
			failed(t, got.err, c.phase, 0)
			if c.text != "" && got.err.Error() != c.text {
				t.Errorf("%q, want %q", got.err.Error(), c.text)
			}
		})
	}
}

// A connection that died while idle: as long as no byte was written to it, it
// is said so, and the call may go again.
func TestToolNothingWrittenIsNotSent(t *testing.T) {
	u := serve(t, json200(`{}`))
	to := tool(t, u.url)
	if got := use(t, to, toolCall("POST", payment)); got.err != nil {
		t.Fatal(got.err)
	}
	to.conns.idle[0].seal(0) // no write begins on it any more
	failed(t, use(t, to, toolCall("POST", payment)).err, policy.NotSent, 0)
	if got := use(t, to, toolCall("POST", payment)); got.err != nil || u.calls() != 2 {
		t.Fatalf("%v, %d executions", got.err, u.calls())
	}
}

// A connection that was idle for long is not used, whether its timer fired or
// not.
func TestToolIdleConnectionsAreShortLived(t *testing.T) {
	u := serve(t, json200(`{}`))
	to := tool(t, u.url)
	for _, ago := range []time.Duration{0, 0, time.Hour} {
		if got := use(t, to, toolCall("POST", payment)); got.err != nil {
			t.Fatal(got.err)
		}
		to.conns.idle[0].since = time.Now().Add(-ago)
	}
	if u.connections() != 1 {
		t.Fatalf("%d connections", u.connections())
	}
	if got := use(t, to, toolCall("POST", payment)); got.err != nil || u.connections() != 2 {
		t.Errorf("%v, %d connections", got.err, u.connections())
	}
	fresh, err := NewTool(ToolOptions{BaseURL: "http://up"})
	if err != nil || fresh.conns.idleFor > 3*time.Second || newTransport(to.dialer, toolIdleFor).IdleConnTimeout != fresh.conns.idleFor {
		t.Errorf("%v, idle for %v", err, fresh.conns.idleFor)
	}
}

func TestToolMethodsThatAreNotForwarded(t *testing.T) {
	u := serve(t, json200(`{}`))
	for _, method := range []string{"TRACE", "CONNECT"} {
		failed(t, use(t, tool(t, u.url), toolCall(method, "")).err, policy.NotSent, 0)
	}
	if u.calls() != 0 {
		t.Error("forwarded")
	}
}

// A late answer is welcome: nothing but the call's own context ends the wait
// for it.
func TestToolHasNoFirstByteLimit(t *testing.T) {
	release := make(chan struct{})
	u := serve(t, func(c net.Conn) { <-release; json200(`{"late":true}`)(c) })
	to := tool(t, u.url, func(o *ToolOptions) {
		o.Timeouts = policy.Timeouts{FirstByte: time.Millisecond, Idle: time.Millisecond, Total: time.Millisecond}
	})
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	if got := use(t, to, toolCall("POST", payment)); got.err != nil || got.body != `{"late":true}` {
		t.Fatalf("%+v", got)
	}
}

func TestToolCancelled(t *testing.T) {
	why := errors.New("the record's deadline")
	for name, c := range map[string]struct {
		script func(net.Conn)
		phase  policy.Phase
	}{
		"before the head": {hang, policy.Sent},
		"within the body": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nabc")
			hang(c)
		}, policy.Broken},
	} {
		t.Run(name, func(t *testing.T) {
			reached, gone := make(chan struct{}), make(chan struct{})
			u := serve(t, func(conn net.Conn) { close(reached); c.script(conn); close(gone) })
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-reached; cancel(why) }()
			a, err := tool(t, u.url).Try(ctx, toolCall("POST", payment))
			if err == nil {
				defer a.Close()
				_, broke := io.ReadAll(a)
				errors.As(broke, &err)
			}
			if name == "within the body" && err != nil && err.Phase == policy.Sent {
				err.Phase = policy.Broken // the head came after the end
			}
			failed(t, err, c.phase, 0)
			if !err.Cancelled || err.Timeout || !errors.Is(err, why) {
				t.Errorf("%+v", err)
			}
			<-gone
		})
	}
	u := serve(t, json200(`{}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := tool(t, u.url).Try(ctx, toolCall("POST", payment))
	failed(t, err, policy.NotSent, 0)
	if !err.Cancelled || u.calls() != 0 {
		t.Errorf("%+v, %d calls", err, u.calls())
	}
}

// Whatever happens to connections, one attempt is at most one execution, one
// that says it was not sent is none, and each answer is its own request's.
func TestToolExecutesOnceUnderFaults(t *testing.T) {
	var mu sync.Mutex
	executions := map[string]int{}
	var notSent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		id := r.Header.Get("Idempotency-Key")
		mu.Lock()
		executions[id]++
		mu.Unlock()
		abort := func(how func(net.Conn)) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				how(c)
			}
		}
		switch rand.IntN(8) {
		case 0:
			abort(func(c net.Conn) { c.Close() })
		case 1:
			abort(reset)
		case 2:
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, id)
			w.(http.Flusher).Flush()
			abort(reset)
		case 3:
			w.Header().Set("Connection", "close")
			io.WriteString(w, id)
		case 4:
			w.WriteHeader(503)
			io.WriteString(w, id)
		default:
			w.(http.Flusher).Flush()
			io.WriteString(w, id)
		}
	}))
	defer s.Close()
	for _, way := range []string{"own", "transport"} {
		to := tool(t, s.URL)
		if way == "transport" {
			to.transport = newTransport(to.dialer, time.Minute)
		}
		var whole, broken, lost, unsent atomic.Int64
		var all sync.WaitGroup
		for worker := range 16 {
			all.Go(func() {
				for n := range 25 {
					ctx, cancel := context.WithCancel(t.Context())
					if rand.IntN(4) == 0 {
						time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
					}
					c := toolCall([]string{"POST", "DELETE", "GET"}[rand.IntN(3)], []string{"", payment, strings.Repeat("x", 100_000)}[rand.IntN(3)])
					c.UpstreamKey = fmt.Sprintf("%s-%d-%d", way, worker, n)
					a, err := to.Try(ctx, c)
					var body []byte
					if err == nil {
						var broke error
						body, broke = io.ReadAll(a)
						errors.As(broke, &err)
						a.Close()
					}
					cancel()
					mu.Lock()
					count := executions[c.UpstreamKey]
					mu.Unlock()
					switch {
					case err == nil:
						whole.Add(1)
						if count != 1 || string(body) != c.UpstreamKey {
							t.Errorf("%s: %d executions, answer %q", c.UpstreamKey, count, body)
						}
					case err.Phase == policy.Broken:
						broken.Add(1)
					case err.Phase == policy.NotSent:
						unsent.Add(1)
						mu.Lock()
						notSent = append(notSent, c.UpstreamKey)
						mu.Unlock()
					default:
						lost.Add(1)
					}
				}
			})
		}
		all.Wait()
		if whole.Load() < 100 || broken.Load() == 0 || lost.Load() == 0 {
			t.Errorf("%s: %d whole, %d broken, %d lost", way, whole.Load(), broken.Load(), lost.Load())
		}
		if n := to.TransportReplays(); n != 0 {
			t.Errorf("%d replays", n)
		}
		t.Logf("%s: %d whole, %d broken, %d lost, %d not sent", way, whole.Load(), broken.Load(), lost.Load(), unsent.Load())
	}
	s.Close() // what is under way has come
	for id, n := range executions {
		if n > 1 {
			t.Errorf("%s was executed %d times", id, n)
		}
	}
	for _, id := range notSent {
		if executions[id] != 0 {
			t.Errorf("%s was executed, though not sent", id)
		}
	}
}

// A call that may not be sent any more when its first byte is due is not: on a
// connection that was there, on a new one, and by way of a proxy.
func TestToolAsksBeforeTheFirstByte(t *testing.T) {
	u := serve(t, json200(`{}`))
	proxied := tool(t, u.url)
	proxied.transport = newTransport(proxied.dialer, time.Minute)
	for name, to := range map[string]*Tool{"directly": tool(t, u.url), "by net/http": proxied} {
		t.Run(name, func(t *testing.T) {
			before, asked := u.calls(), 0
			c := toolCall("POST", payment)
			c.May = func() bool { asked++; return false }
			failed(t, use(t, to, c).err, policy.NotSent, 0)
			c.May = func() bool { asked++; return true }
			for range 2 {
				if got := use(t, to, c); got.err != nil {
					t.Fatal(got.err)
				}
			}
			c.May = func() bool { asked++; return false }
			c.Body = []byte(strings.Repeat("x", 100<<10)) // which is sent while the answer is awaited
			failed(t, use(t, to, c).err, policy.NotSent, 0)
			if u.calls() != before+2 || asked != 4 {
				t.Errorf("%d executions, asked %d times", u.calls()-before, asked)
			}
		})
	}
}
