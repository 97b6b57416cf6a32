package harness

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Raw is a TCP connection to the data listener, for what no HTTP client sends.
type Raw struct {
	*net.TCPConn
	In *bufio.Reader
	g  *Gateway
}

// Dial opens a TCP connection to the data listener.
func (g *Gateway) Dial() *Raw {
	g.t.Helper()
	conn, err := net.Dial("tcp", g.Addr)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = conn.Close() })
	return &Raw{TCPConn: conn.(*net.TCPConn), In: bufio.NewReader(conn), g: g}
}

// Send writes bytes as they are.
func (r *Raw) Send(p string) {
	r.g.t.Helper()
	if _, err := io.WriteString(r, p); err != nil {
		r.g.t.Fatalf("write: %v", err)
	}
}

// Response reads one response, at most for d.
func (r *Raw) Response(d time.Duration) *Answer {
	r.g.t.Helper()
	begun := time.Now()
	_ = r.SetReadDeadline(begun.Add(d))
	res, err := http.ReadResponse(r.In, nil)
	if err != nil {
		return &Answer{Header: http.Header{}, Err: err, Took: time.Since(begun)}
	}
	a := &Answer{Status: res.StatusCode, Header: res.Header}
	if res.StatusCode >= 200 {
		body, err := io.ReadAll(res.Body)
		a.Body, a.Err = string(body), err
	}
	a.Took = time.Since(begun)
	return a
}

// Request builds the bytes of a request. A Host and a Content-Length are added
// where the lines have none.
func (g *Gateway) Request(method, target, body string, lines ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, target)
	has := func(name string) bool {
		for _, l := range lines {
			if n, _, _ := strings.Cut(l, ":"); strings.EqualFold(n, name) {
				return true
			}
		}
		return false
	}
	if !has("Host") {
		fmt.Fprintf(&b, "Host: %s\r\n", g.Addr)
	}
	if body != "" && !has("Content-Length") && !has("Transfer-Encoding") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	if body != "" && !has("Content-Type") {
		b.WriteString("Content-Type: application/json\r\n")
	}
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	return b.String() + "\r\n" + body
}
