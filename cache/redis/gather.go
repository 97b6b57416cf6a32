package redis

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// gatherFor is how long notices wait for others after the last ones were read: to
// wake for each costs more than to hand them out. With what frames wait for on
// their leader's node it stays below the 25 ms that a follower may be behind.
const gatherFor = 10 * time.Millisecond

// noticesKey marks the context with which the connection for notices is dialled.
type noticesKey struct{}

func forNotices(ctx context.Context) bool { return ctx.Value(noticesKey{}) != nil }

// gathering is a connection that is read again only when there has been time for
// more to come; at once, if there is more than was taken, or something was asked.
type gathering struct {
	net.Conn
	asked atomic.Bool // since it was read
	due   time.Time   // when it may be read again; of who reads
}

func (g *gathering) Read(p []byte) (int, error) {
	if !g.asked.Swap(false) {
		time.Sleep(time.Until(g.due))
	}
	n, err := g.Conn.Read(p)
	if n < len(p) {
		g.due = time.Now().Add(gatherFor)
	}
	return n, err
}

func (g *gathering) Write(p []byte) (int, error) {
	g.asked.Store(true)
	return g.Conn.Write(p)
}
