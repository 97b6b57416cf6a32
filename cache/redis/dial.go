package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// dialer makes the connections, and knows more of each than its pool asks for.
type dialer struct {
	tls  *tls.Config // nil: plain TCP
	made atomic.Int64

	mu  sync.Mutex
	old map[string]*atomic.Int64 // by address: how often its connections were given up
}

func (d *dialer) givenUp(addr string) *atomic.Int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.old == nil {
		d.old = make(map[string]*atomic.Int64)
	}
	n := d.old[addr]
	if n == nil {
		n = new(atomic.Int64)
		d.old[addr] = n
	}
	return n
}

// giveUp has the pools drop the connections to an address that are idle, or
// will be: each was made before something went wrong there. Empty: to all.
func (d *dialer) giveUp(addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for to, n := range d.old {
		if addr == "" || addr == to {
			n.Add(1)
		}
	}
}

// dial never fails: a connection that can't be made says so when it is used.
// A pool that hears of as many failures as it has room for connections asks
// by itself once a second from then on, beside our probe and out of step with it.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.made.Add(1)
	old := d.givenUp(addr)
	c := &conn{old: old, born: old.Load()}
	raw, err := (&net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3},
	}).DialContext(ctx, network, addr)
	if err != nil {
		return undialled{unsent(err)}, nil
	}
	c.raw, _ = raw.(syscall.Conn)
	if forNotices(ctx) {
		raw = &gathering{Conn: raw}
	}
	c.Conn = raw
	if d.tls == nil {
		return c, nil
	}
	config := d.tls
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		raw.Close()
		return undialled{unsent(err)}, nil
	}
	c.Conn = secure
	return c, nil
}

// conn is one of a pool's connections. Before each use of an idle one the pool
// looks at its socket, whether the server has ended it. It can't by itself
// find the socket below TLS, nor know that a connection is older than an
// outage in which its other end may have gone without a word.
type conn struct {
	net.Conn
	raw  syscall.Conn
	old  *atomic.Int64 // how often connections to its address were given up
	born int64         // old, when it was made
	used atomic.Bool   // the server has said something
}

var errGivenUp = errors.New("the connection is older than an outage of its server")

// SyscallConn is what the pool looks at.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if c.old.Load() != c.born || c.raw == nil {
		return nil, errGivenUp
	}
	return c.raw.SyscallConn()
}

// Read says so of a connection that ended before its first reply: what answers
// there is no Redis, as a balancer before one that is away.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		if !c.used.Load() {
			c.used.Store(true)
		}
	} else if err != nil && !c.used.Load() {
		err = unsent(err)
	}
	return n, err
}

// undialled is a connection that could not be made.
type undialled struct{ err error }

func (c undialled) Read([]byte) (int, error)       { return 0, c.err }
func (c undialled) Write([]byte) (int, error)      { return 0, c.err }
func (undialled) Close() error                     { return nil }
func (undialled) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (undialled) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (undialled) SetDeadline(time.Time) error      { return nil }
func (undialled) SetReadDeadline(time.Time) error  { return nil }
func (undialled) SetWriteDeadline(time.Time) error { return nil }

var (
	_ net.Conn     = undialled{}
	_ net.Conn     = (*conn)(nil)
	_ syscall.Conn = (*conn)(nil)
)
