package providers

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
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

	"github.com/tidwall/gjson"

	"oncegate/policy"
)

const ok200 = `{"choices":[{}]}`

// wait polls until cond holds.
func wait(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestConnectionsAreReused(t *testing.T) {
	for name, script := range map[string]func(net.Conn){
		"whole": json200(ok200),
		"chunked": func(c net.Conn) {
			io.WriteString(c, strings.Replace(eventsHead, "text/event-stream", "application/json", 1)+chunk(ok200)+"0\r\n\r\n")
		},
	} {
		u := serve(t, script)
		r := relay(t, u)
		for range 10 {
			if got := try(t, r, call(Chat, hi)); got.err != nil {
				t.Fatal(name, got.err)
			}
			settle(r)
		}
		if n := u.connections(); n != 1 {
			t.Errorf("%s: %d connections", name, n)
		}
	}
}

// What an upstream has closed, or written to, while nobody used it is not
// written to: whether it would be read nobody could say.
func TestClosedWhileIdle(t *testing.T) {
	for name, after := range map[string]func(net.Conn){
		"closed":  func(c net.Conn) { c.Close() },
		"reset":   reset,
		"written": func(c net.Conn) { io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			idle, done := make(chan bool), make(chan bool)
			u := serve(t, func(c net.Conn) {
				json200(ok200)(c)
				<-idle
				after(c)
				close(done)
			}, json200(ok200))
			r := relay(t, u)
			if got := try(t, r, call(Chat, hi)); got.err != nil {
				t.Fatal(got.err)
			}
			close(idle)
			<-done
			wait(t, "the end never shows", func() bool { return !r.conns.idle[0].quiet() })
			if got := try(t, r, call(Chat, hi)); got.err != nil {
				t.Fatal(got.err)
			}
			if u.calls() != 2 || u.connections() != 2 {
				t.Errorf("%d calls on %d connections", u.calls(), u.connections())
			}
		})
	}
}

// corked is a connection that sends what is written to it in one piece.
type corked struct {
	net.Conn
	held []byte
	on   bool
}

func (c *corked) Write(p []byte) (int, error) {
	if c.on {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *corked) uncork() {
	c.on = false
	c.Conn.Write(c.held)
}

// What nobody asked for may have come along with the end of the answer, and be
// with TLS already, where the kernel knows nothing of it.
func TestWordsThatNobodyAskedForBeneathTLS(t *testing.T) {
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{url: "https://" + l.Addr().String(), scripts: []func(net.Conn){
		func(c net.Conn) {
			cork := c.(*tls.Conn).NetConn().(*corked)
			cork.on = true
			json200(ok200)(c)
			json200(`{"choices":[{}],"id":"of nobody"}`)(c)
			cork.uncork()
		},
		json200(ok200),
	}}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			u.mu.Lock()
			u.accepted++
			u.mu.Unlock()
			conns.Go(func() { u.converse(tls.Server(&corked{Conn: c}, secure.TLS)) })
		}
	})
	r := relay(t, u)
	t.Cleanup(func() { r.Close(); l.Close(); conns.Wait() })
	r.dialer.tls.RootCAs = secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	r.dialer.tls.ServerName = "example.com"
	for range 3 {
		if got := try(t, r, call(Chat, hi)); got.err != nil || got.bytes() != ok200 {
			t.Fatalf("%v %s", got.err, got.bytes())
		}
		settle(r)
	}
	if u.calls() != 3 || u.connections() != 2 {
		t.Errorf("%d calls on %d connections", u.calls(), u.connections())
	}
}

// Answers after which a connection is no good.
func TestConnectionsThatAreNotReused(t *testing.T) {
	for name, script := range map[string]func(net.Conn){
		"told to close":  answer(200, "application/json", ok200, "Connection: close"),
		"HTTP/1.0":       func(c net.Conn) { io.WriteString(c, "HTTP/1.0 200 OK\r\nContent-Length: 16\r\n\r\n"+ok200) },
		"more than told": func(c net.Conn) { json200(ok200)(c); io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n") },
		"to the end": func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"+ok200)
			c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, script)
			r := relay(t, u)
			for range 2 {
				if got := try(t, r, call(Chat, hi)); got.err != nil {
					t.Fatal(got.err)
				}
				if k := r.conns.take(); k != nil {
					k.Close()
					if name != "more than told" { // that may come later
						t.Error("kept for others")
					}
				}
			}
		})
	}
}

// An upstream may refuse a large request before it has read it, and read no
// further.
func TestRefusedWhileSending(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"held open": func(net.Conn) {},
		"closed":    func(c net.Conn) { c.(*net.TCPConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			over := make(chan bool)
			defer close(over)
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				http.ReadRequest(bufio.NewReader(c))
				answer(413, "application/json", `{"error":{}}`)(c)
				end(c)
				<-over
			}()
			c := call(Chat, strings.Replace(hi, "hi", strings.Repeat("x", 32<<20), 1))
			got := try(t, relay(t, &upstream{url: "http://" + l.Addr().String()}), c)
			failed(t, got.err, policy.Answered, 413)
		})
	}
}

func TestLongHead(t *testing.T) {
	u := serve(t, func(c net.Conn) {
		for range 64 {
			io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: "+strings.Repeat("x", 32<<10)+"\r\n\r\n")
		}
		json200(ok200)(c)
	})
	failed(t, try(t, relay(t, u), call(Chat, hi)).err, policy.Sent, 0)
}

// The end of a call says nothing to whoever has its connection now.
func TestALateEndSparesTheNextAttempt(t *testing.T) {
	u := serve(t, json200(ok200))
	r := relay(t, u)
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		a, err := r.Try(ctx, call(Chat, hi), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Next(); err != nil {
			t.Fatal(err)
		}
		go cancel() // as the answer is closed
		a.Close()
		if got := try(t, r, call(Chat, hi)); got.err != nil {
			t.Fatal(got.err)
		}
	}
}

// Whatever ends early, no answer is given to another request: the worst that
// reused connections could do.
func TestAnswersBelongToTheirRequests(t *testing.T) {
	t.Run("plain", func(t *testing.T) { answersBelong(t, httptest.NewServer) })
	t.Run("TLS", func(t *testing.T) { answersBelong(t, httptest.NewTLSServer) })
}

func answersBelong(t *testing.T, start func(http.Handler) *httptest.Server) {
	s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id := gjson.GetBytes(body, "id").Str
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"%s",`, id)
		if rand.IntN(2) == 0 {
			w.(http.Flusher).Flush() // in chunks
		}
		if rand.IntN(8) == 0 {
			w.Header().Set("Connection", "close")
		}
		fmt.Fprintf(w, `"text":"%s","choices":[{}],"again":"%s"}`, strings.Repeat("x", rand.IntN(5000)), id)
		if rand.IntN(16) == 0 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer s.Close()
	r := relay(t, &upstream{url: s.URL})
	if c := s.Certificate(); c != nil {
		r.dialer.tls.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	}
	var whole atomic.Int64
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for n := range 40 {
				id := fmt.Sprintf("%d-%d", worker, n)
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(3) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
				}
				size := []int{10, 1000, 100_000}[rand.IntN(3)]
				a, err := r.Try(ctx, call(Chat, fmt.Sprintf(`{"id":"%s","model":"m1","pad":"%s"}`, id, strings.Repeat("p", size))), "", 0)
				if err == nil {
					if p, err := a.Next(); err == nil && p.Last {
						whole.Add(1)
						if got := gjson.GetBytes(p.Data, "id").Str + gjson.GetBytes(p.Data, "again").Str; got != id+id {
							t.Errorf("%s got the answer of %s", id, got)
						}
					}
					a.Close()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if n := whole.Load(); n < 100 {
		t.Errorf("only %d answers came whole", n)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	u := serve(t, json200(ok200))
	r := relay(t, u)
	try(t, r, call(Chat, hi))
	r.conns.closeBefore(time.Now().Add(-time.Minute))
	if len(r.conns.idle) != 1 {
		t.Fatal("closed too early")
	}
	r.conns.closeBefore(time.Now())
	if len(r.conns.idle) != 0 {
		t.Fatal("kept for ever")
	}
}

// Through a proxy net/http's transport serves.
func TestThroughAProxy(t *testing.T) {
	proxy := serve(t, json200(ok200), func(c net.Conn) { c.Close() })
	r := relay(t, &upstream{url: "http://up.invalid"})
	r.transport = newTransport(r.dialer, idleFor)
	at, _ := url.Parse(proxy.url)
	r.transport.Proxy = http.ProxyURL(at)
	if got := try(t, r, call(Chat, hi)); got.err != nil {
		t.Fatal(got.err)
	}
	if request, body := proxy.last(); request.RequestURI != "http://up.invalid/v1/chat/completions" || body != hi {
		t.Errorf("%s %s", request.RequestURI, body)
	}
	failed(t, try(t, r, call(Chat, hi)).err, policy.Sent, 0)
	if proxy.calls() != 2 || r.TransportReplays() != 0 {
		t.Errorf("%d calls, %d replays", proxy.calls(), r.TransportReplays())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Try(ctx, call(Chat, hi), "", 0); err == nil || !err.Cancelled {
		t.Fatalf("%+v", err)
	}
}

func TestAddress(t *testing.T) {
	for url, want := range map[string]string{
		"http://a": "a:80", "https://a/v1": "a:443", "https://a:8443": "a:8443", "http://[::1]": "[::1]:80", "http://[::1]:1": "[::1]:1",
	} {
		b, err := parseBase(url, "/v1")
		if err != nil {
			t.Fatal(err)
		}
		if got := b.address(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}
