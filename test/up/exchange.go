package up

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Exchange is one call being answered.
type Exchange struct {
	Call *Call

	conn        *net.TCPConn
	done        <-chan struct{} // the server is stopping
	begun       bool            // a head was written
	framing     framing
	ended       bool
	closed      bool
	closeOnNext bool
}

type framing uint8

const (
	byLength framing = iota // the head carries a Content-Length: written as it is
	byChunks
	byClose
)

// Head writes a status line and headers, each "Name: value". Without a
// Content-Length the body is chunked, or with "Connection: close" ends with
// the connection.
func (x *Exchange) Head(status int, lines ...string) {
	h := header(lines)
	x.begun = true
	switch {
	case h.Get("Content-Length") != "":
		x.framing = byLength
	case strings.EqualFold(h.Get("Connection"), "close"):
		x.framing = byClose
	default:
		x.framing = byChunks
		lines = append(slices.Clone(lines), "Transfer-Encoding: chunked")
	}
	x.Raw(fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n\r\n", status, http.StatusText(status), strings.Join(lines, "\r\n")))
}

// Write sends bytes of the body at once, in the framing that Head chose. The
// answer to a HEAD has none.
func (x *Exchange) Write(p string) {
	if p == "" || x.Call.Method == http.MethodHead {
		return
	}
	if x.framing == byChunks {
		p = fmt.Sprintf("%x\r\n%s\r\n", len(p), p)
	}
	x.Raw(p)
}

// Raw sends bytes as they are. That the peer is gone is no error here: tests
// see it in Call.Gone.
func (x *Exchange) Raw(p string) { _, _ = io.WriteString(x.conn, p) }

// End ends the body in an orderly way; without a Content-Length and without
// chunks that closes the connection.
func (x *Exchange) End() {
	if x.ended || x.closed || !x.begun {
		return
	}
	x.ended = true
	switch x.framing {
	case byChunks:
		if x.Call.Method != http.MethodHead {
			x.Raw("0\r\n\r\n")
		}
	case byClose:
		x.Close()
	}
}

// Close closes the connection in an orderly way, wherever the body is.
func (x *Exchange) Close() {
	x.closed = true
	_ = x.conn.Close()
}

// Reset closes the connection with a reset.
func (x *Exchange) Reset() {
	_ = x.conn.SetLinger(0)
	x.Close()
}

// Wait waits for d, and no longer than the peer or the server is there. It
// reports whether the whole time passed.
func (x *Exchange) Wait(d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	return x.until(limit.C)
}

func (x *Exchange) until(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	case <-x.Call.gone:
		return false
	case <-x.done:
		return false
	}
}
