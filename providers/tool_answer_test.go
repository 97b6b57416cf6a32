package providers

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"oncegate/policy"
)

func TestToolAnswers(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", 20<<16)
	chunked := func(parts ...string) func(net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
			for _, p := range parts {
				io.WriteString(c, chunk(p))
			}
			io.WriteString(c, "0\r\nX-Sum: 1\r\n\r\n")
		}
	}
	for name, c := range map[string]struct {
		method string
		script func(net.Conn)
		status int
		body   string
		header http.Header // all of it but Content-Type
	}{
		"a whole one": {script: answer(201, "application/json", `{"id":1}`, "Location: /v1/payments/1", "Set-Cookie: a=b", "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5"),
			status: 201, body: `{"id":1}`, header: http.Header{"Location": {"/v1/payments/1"}}},
		"chunked":    {script: chunked("a", "bc", "\x00\xff"), status: 201, body: "abc\x00\xff"},
		"20 MiB":     {script: answer(200, "application/octet-stream", large), status: 200, body: large},
		"in chunks":  {script: chunked(large[:1<<20], large[:1<<20]), status: 201, body: large[:2<<20]},
		"empty":      {script: answer(200, "text/plain", ""), status: 200},
		"no content": {script: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n") }, status: 204},
		"unmodified": {method: "GET", script: func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\nContent-Length: 9\r\nContent-Encoding: br\r\n\r\n")
		}, status: 304, header: http.Header{"Etag": {`"x"`}}},
		"a HEAD's": {method: "HEAD", script: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n") },
			status: 200, header: http.Header{"Content-Length": {"12345"}}},
		"after hints": {script: func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
			answer(202, "text/plain", "later")(c)
		}, status: 202, body: "later"},
		"gzip, unasked":        {script: answer(200, "text/plain", gzipped(large[:1<<20]), "Content-Encoding: gzip"), status: 200, body: large[:1<<20]},
		"zstd, unasked":        {script: answer(200, "text/plain", zstandard(t, large[:1<<20]), "Content-Encoding: zstd"), status: 200, body: large[:1<<20]},
		"gzip of a failure":    {script: answer(422, "text/plain", gzipped("no"), "Content-Encoding: gzip"), status: 422, body: "no"},
		"a charset's encoding": {script: answer(200, "text/plain", "x", "Content-Encoding: UTF-8"), status: 200, body: "x"},
		"brotli, of a read": {method: "GET", script: answer(200, "text/plain", "\x0b\x00", "Content-Encoding: br"),
			status: 200, body: "\x0b\x00", header: http.Header{"Content-Encoding": {"br"}}},
		"a failure's": {script: answer(409, "application/problem+json", `{"title":"in use"}`), status: 409, body: `{"title":"in use"}`},
		"no reason":   {script: func(c net.Conn) { io.WriteString(c, "HTTP/1.1 299\r\nContent-Length: 1\r\n\r\nx") }, status: 299, body: "x"},
		"unheard of":  {script: answer(999, "text/plain", "x"), status: 999, body: "x"},
	} {
		for _, way := range []string{"own", "transport"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				u := serve(t, c.script)
				to := tool(t, u.url)
				if way == "transport" {
					byProxy(t, to, u)
				}
				call := toolCall("POST", payment)
				if c.method != "" {
					call = toolCall(c.method, "")
					call.Write = false
				}
				for range 2 {
					got := use(t, to, call)
					if got.err != nil || got.status != c.status || got.body != c.body {
						t.Fatalf("%v, status %d, %d bytes", got.err, got.status, len(got.body))
					}
					delete(got.header, "Content-Type")
					if c.header == nil {
						c.header = http.Header{}
					}
					if fmt.Sprint(got.header) != fmt.Sprint(c.header) {
						t.Errorf("%v, want %v", got.header, c.header)
					}
					settleTool(to)
				}
				if u.calls() != 2 || u.connections() != 1 || to.TransportReplays() != 0 {
					t.Errorf("%d calls on %d connections, %d replays", u.calls(), u.connections(), to.TransportReplays())
				}
			})
		}
	}
}

func gzipped(s string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

func zstandard(t *testing.T, s string) string {
	var b strings.Builder
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

// settleTool waits until what is left of answers was read.
func settleTool(t *Tool) {
	for t.drains.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// A body that did not come whole is no answer, however much of it came, and
// is not taken for one whose end was meant.
func TestToolBrokenBodies(t *testing.T) {
	const chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	packed := gzipped(strings.Repeat("0123456789abcdef", 4<<10) + payment)
	begun := make(chan bool) // the head was read: a reset would take it away
	lines := func(s string, end func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) { io.WriteString(c, s); <-begun; end(c) }
	}
	coded := func(coding, body string) func(net.Conn) {
		return func(c net.Conn) { answer(201, "text/plain", body, "Content-Encoding: "+coding)(c); <-begun }
	}
	closes := func(c net.Conn) { c.Close() }
	for name, c := range map[string]struct {
		script  func(net.Conn)
		text    string
		timeout bool
	}{
		"short, closed":         {script: lines("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", closes), text: "connection closed"},
		"nothing, closed":       {script: lines("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", closes), text: "connection closed"},
		"short, reset":          {script: lines("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", reset), text: "connection reset"},
		"no last chunk":         {script: lines(chunks+chunk("abc"), closes), text: "connection closed"},
		"half a chunk":          {script: lines(chunks+"a\r\nabc", closes), text: "connection closed"},
		"no end of the trailer": {script: lines(chunks+chunk("abc")+"0\r\n", closes)},
		"a broken size":         {script: lines(chunks+"zz\r\nabc\r\n", closes), text: "connection failed"},
		"half a gzip":           {script: coded("gzip", packed[:len(packed)-9]), text: "connection closed"},
		"a changed gzip":        {script: coded("gzip", packed[:len(packed)-8]+"\x00\x00\x00\x00\x00\x00\x00\x00")},
		"no gzip":               {script: coded("gzip", "plain text of no gzip")},
		"no zstd":               {script: coded("zstd", "plain text of no zstd")},
		"brotli":                {script: coded("br", "\x0b\x00"), text: "answered in the encoding br, which was not asked for"},
		"two codings":           {script: coded("gzip, br", "x"), text: "gzip, br"},
		"half a failure":        {script: lines("HTTP/1.1 500 X\r\nContent-Length: 9\r\n\r\nabc", closes), text: "connection closed"},
		"silent":                {script: lines("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", hang), text: "sent nothing more for 100ms", timeout: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := serve(t, c.script)
			to := tool(t, u.url, func(o *ToolOptions) {
				if c.timeout {
					o.Timeouts.Idle = 100 * time.Millisecond
				}
			})
			a, err := to.Try(t.Context(), toolCall("POST", payment))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			begun <- true
			for range 2 { // it stays broken
				_, broke := io.ReadAll(a)
				var got *Error
				if !errors.As(broke, &got) {
					t.Fatalf("%v", broke)
				}
				failed(t, got, policy.Broken, 0)
				if !strings.Contains(got.Error(), c.text) || got.Timeout != c.timeout {
					t.Errorf("%q, time-out %v", got.Error(), got.Timeout)
				}
			}
			a.Close()
			if _, err := a.Read(make([]byte, 1)); err == nil {
				t.Error("read after it was closed")
			}
			if k := to.conns.take(); k != nil {
				k.Close()
				if !strings.Contains(name, "gzip") && name != "no zstd" { // that may be read to its end
					t.Error("the connection is kept for others")
				}
			}
			if u.calls() != 1 {
				t.Errorf("%d calls", u.calls())
			}
		})
	}
}

// A body without a length goes to the end of its connection: one that is
// closed is whole, as far as anyone can know, one that is reset is not.
func TestToolBodyToTheEnd(t *testing.T) {
	for name, end := range map[string]func(net.Conn){"closed": func(c net.Conn) { c.Close() }, "reset": reset} {
		begun := make(chan bool)
		u := serve(t, func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n{}")
			<-begun
			end(c)
		})
		to := tool(t, u.url)
		a, err := to.Try(t.Context(), toolCall("POST", payment))
		if err != nil {
			t.Fatal(err)
		}
		close(begun)
		body, broke := io.ReadAll(a)
		a.Close()
		if name == "closed" && (broke != nil || string(body) != "{}") || name == "reset" && broke == nil {
			t.Errorf("%s: %v %q", name, broke, body)
		}
		if len(to.conns.idle) != 0 {
			t.Error("kept for others")
		}
	}
}

// An upstream may answer before it has read all of a large request.
func TestToolEarlyAnswer(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"held open": func(net.Conn) {},
		"closed":    func(c net.Conn) { c.(*net.TCPConn).CloseWrite() },
	} {
		for _, status := range []int{201, 413} {
			t.Run(fmt.Sprintf("%s/%d", name, status), func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				over, gone := make(chan bool), make(chan bool)
				go func() {
					defer close(gone)
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					http.ReadRequest(bufio.NewReader(c))
					answer(status, "application/json", `{"early":true}`)(c)
					end(c)
					<-over
				}()
				to := tool(t, "http://"+l.Addr().String())
				got := use(t, to, toolCall("POST", strings.Repeat("x", 16<<20)))
				close(over)
				<-gone
				if got.err != nil || got.status != status || got.body != `{"early":true}` {
					t.Errorf("%v, status %d, %q", got.err, got.status, got.body)
				}
				if len(to.conns.idle) != 0 {
					t.Error("half a request is left on a connection for others")
				}
			})
		}
	}
}

// A stream goes on as it comes, and is cut when it is closed.
func TestToolEvents(t *testing.T) {
	next, gone := make(chan bool), make(chan bool)
	u := serve(t, func(c net.Conn) {
		io.WriteString(c, eventsHead)
		for _, s := range []string{"one", "two"} {
			io.WriteString(c, chunk(data(s)))
			<-next
		}
		hang(c)
		close(gone)
	})
	to := tool(t, u.url)
	a, err := to.Try(t.Context(), toolCall("POST", payment))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if !a.Events() || a.Failure() != nil {
		t.Error("no stream")
	}
	buf := make([]byte, 4<<10)
	for _, want := range []string{data("one"), data("two")} {
		n, err := a.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Fatalf("%v %q, want %q", err, buf[:n], want)
		}
		next <- true
	}
	a.Close()
	if to.drains.Load() != 0 {
		t.Error("a stream is read on")
	}
	<-gone
	for status, want := range map[int]bool{200: true, 500: false} {
		u := serve(t, answer(status, "text/event-stream; charset=utf-8", data("x")))
		a, err := tool(t, u.url).Try(t.Context(), toolCall("POST", payment))
		if err != nil {
			t.Fatal(err)
		}
		if a.Events() != want {
			t.Errorf("%d: %v", status, a.Events())
		}
		a.Close()
	}
}

// What is not read of an answer does not cost its connection, if it is little.
func TestToolUnreadAnswers(t *testing.T) {
	u := serve(t, answer(503, "text/plain", strings.Repeat("x", 10<<10)))
	to := tool(t, u.url)
	for range 20 {
		a, err := to.Try(t.Context(), toolCall("POST", payment))
		if err != nil {
			t.Fatal(err)
		}
		a.Close()
		a.Close()
		settleTool(to)
	}
	if n := u.connections(); n > 3 {
		t.Errorf("%d connections", n)
	}
}

func TestToolFailures(t *testing.T) {
	to := tool(t, "http://up", func(o *ToolOptions) { o.NotExecuted = []int{409, 503} })
	for status := 200; status < 1000; status++ {
		a := &ToolAnswer{attempt: attempt{to: &to.endpoint, header: http.Header{}, response: &http.Response{StatusCode: status}}, tool: to}
		f := a.Failure()
		if f == nil {
			if status >= 400 {
				t.Errorf("%d is no failure", status)
			}
			continue
		}
		want := policy.Failure{
			Phase: policy.Answered, Status: status, Err: f.Err,
			Throttle: status == 429 || status == 529, NotExecuted: status == 409 || status == 503,
		}
		if *f != want || status < 400 || f.Err.Error() != fmt.Sprintf("payments answered with status %d", status) {
			t.Errorf("%d: %+v", status, f)
		}
	}
	for line, want := range map[string]policy.Failure{
		"Retry-After: 7":         {RetryAfter: 7 * time.Second, HasRetryAfter: true},
		"Retry-After-Ms: 1500":   {RetryAfter: 1500 * time.Millisecond, HasRetryAfter: true},
		"X-Should-Retry: false":  {ShouldRetry: -1},
		"X-Should-Retry: true":   {ShouldRetry: 1},
		"X-Should-Retry: always": {},
	} {
		got := use(t, tool(t, serve(t, answer(429, "application/json", `{}`, line)).url), toolCall("POST", payment))
		want.Phase, want.Status, want.Throttle, want.Err = policy.Answered, 429, true, got.failure.Err
		if *got.failure != want {
			t.Errorf("%s: %+v", line, got.failure)
		}
	}
}
