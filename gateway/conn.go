package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	stallTimeout = 60 * time.Second // a client that takes nothing for so long is cut
	bodyTimeout  = 60 * time.Second // a client that owes a body and sends nothing of it for so long is cut
	lossWindow   = time.Second      // for so long after the last byte a sign of loss counts
	writePiece   = 256 << 10
)

// conn is a client's connection, which tells what became of an answer after
// its last byte was written: the kernel takes bytes that nobody will read.
type conn struct {
	net.Conn

	cut   time.Time // the write deadline; only the writer uses it and queue
	queue int       // what the kernel held when the deadline was set

	body    atomic.Bool // a body is owed
	limit   sync.Mutex
	limited bool // a read deadline was set for it; guarded by limit, as changes of body are

	mu      sync.Mutex
	events  bool      // it was a stream
	lost    owing     // told on a sign that the last answer did not arrive; nil: none is watched
	written time.Time // when its last byte was
}

// owing is an answer that can be owed.
type owing interface{ Owe() }

// NewConn wraps a client's connection; a listener for the gateway's data
// surface gives such connections.
func NewConn(c net.Conn) net.Conn { return &conn{Conn: c} }

type connKey struct{}

// ConnContext is for http.Server.ConnContext: it lets a request find its connection.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// watch has a sign of loss after the last byte make the answer owed.
// Of a stream that was written to its last event a reset is none: clients close
// right after [DONE], with the end of the transfer unread.
func watch(r *http.Request, debt owing, events bool) {
	if k, ok := r.Context().Value(connKey{}).(*conn); ok {
		k.mu.Lock()
		k.lost, k.written, k.events = debt, time.Now(), events
		k.mu.Unlock()
	}
}

func (c *conn) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		piece := p[:min(len(p), writePiece)]
		if now := time.Now(); c.cut.Sub(now) < stallTimeout { // not with each write: it costs as much as a small one
			c.cut = now.Add(stallTimeout + stallTimeout/10)
			c.Conn.SetWriteDeadline(c.cut)
			c.queue = unacknowledged(c.Conn)
		}
		m, err := c.Conn.Write(piece)
		n += m
		p = p[m:]
		// Slow, but it takes some: of us, or of what the kernel holds, which
		// makes room in large lumps only.
		if errors.Is(err, os.ErrDeadlineExceeded) && (m > 0 || unacknowledged(c.Conn) < c.queue) {
			c.cut = time.Time{}
			continue
		}
		if err != nil {
			c.judge(true)
			return n, err
		}
	}
	c.mu.Lock()
	if c.lost != nil {
		c.written = time.Now()
	}
	c.mu.Unlock()
	return n, nil
}

// Read is where the server waits for the next request, and hears of the
// client's end.
func (c *conn) Read(p []byte) (int, error) {
	if c.body.Load() {
		c.limit.Lock()
		if c.body.Load() { // the server listens on for the client's end when the body is there
			c.limited = true
			c.Conn.SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		c.limit.Unlock()
	}
	n, err := c.Conn.Read(p)
	switch {
	case n > 0:
		c.judge(false) // it asks for more: it got what it had
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
	case errors.Is(err, io.EOF):
		c.judge(unacknowledged(c.Conn) > 0)
	default:
		c.mu.Lock()
		events := c.events
		c.mu.Unlock()
		c.judge(!events)
	}
	return n, err
}

// owesBody says that the client owes a body now: it may be slow, but not
// silent. What the server had read along with the headers costs no deadline.
func (c *conn) owesBody(owes bool) {
	c.limit.Lock()
	defer c.limit.Unlock()
	c.body.Store(owes)
	if !owes && c.limited {
		c.limited = false
		c.Conn.SetReadDeadline(time.Time{})
	}
}

// judge settles what became of the last answer.
func (c *conn) judge(lost bool) {
	c.mu.Lock()
	f, at := c.lost, c.written
	c.lost = nil
	c.mu.Unlock()
	if f != nil && lost && time.Since(at) <= lossWindow {
		go f.Owe()
	}
}
