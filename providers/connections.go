package providers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	maxIdle = 4096             // connections to one upstream that nobody uses
	idleFor = 60 * time.Second // after which one to a provider is closed
)

// connections are those to one upstream that nobody uses at the moment.
type connections struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // gives marked ones
	idleFor time.Duration                                                        // the longest that nobody uses one

	mu       sync.Mutex
	idle     []*connection // the one used last is the last
	sweeping bool          // a sweep is on its way
}

// take gives the connection that was used last, nil where there is none. One
// that its upstream has closed meanwhile is passed over: a request that is
// written to it may have been read or not.
func (cs *connections) take() *connection {
	for {
		cs.mu.Lock()
		last := len(cs.idle) - 1
		if last < 0 {
			cs.mu.Unlock()
			return nil
		}
		k := cs.idle[last]
		cs.idle[last] = nil
		cs.idle = cs.idle[:last]
		cs.mu.Unlock()
		if time.Since(k.since) <= cs.idleFor && k.quiet() {
			return k
		}
		k.Close()
	}
}

func (cs *connections) put(k *connection) {
	k.since = time.Now()
	cs.mu.Lock()
	full := len(cs.idle) >= maxIdle
	if !full {
		cs.idle = append(cs.idle, k)
		if !cs.sweeping {
			cs.sweeping = true
			time.AfterFunc(cs.idleFor, cs.sweep)
		}
	}
	cs.mu.Unlock()
	if full {
		k.Close()
	}
}

// sweep closes the connections that were idle for too long.
func (cs *connections) sweep() { cs.closeBefore(time.Now().Add(-cs.idleFor)) }

func (cs *connections) closeBefore(t time.Time) {
	cs.mu.Lock()
	n := 0
	for n < len(cs.idle) && !cs.idle[n].since.After(t) {
		n++
	}
	old := slices.Clone(cs.idle[:n])
	cs.idle = slices.Delete(cs.idle, 0, n)
	if cs.sweeping = len(cs.idle) > 0; cs.sweeping {
		time.AfterFunc(cs.idle[0].since.Sub(t), cs.sweep)
	}
	cs.mu.Unlock()
	for _, k := range old {
		k.Close()
	}
}

// close closes all of them.
func (cs *connections) close() { cs.closeBefore(time.Now()) }

// always is the quietness of connections that can't be asked.
func always() bool { return true }

// beneathTLS is what the kernel knows of a connection.
func beneathTLS(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

// nothingLeft says that TLS has read nothing ahead that it was not asked for
// yet: the kernel does not know of that any more. A read that is out of time
// before it begins gives what is there, and harms nothing.
func nothingLeft(c *tls.Conn) bool {
	var b [1]byte
	c.SetReadDeadline(time.Unix(1, 0))
	n, err := c.Read(b[:])
	c.SetReadDeadline(time.Time{})
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
