package gateway

import (
	"context"
	"sync"
	"time"
)

// running counts the records that run, so that a gateway that stops can wait
// for them, for those too whose clients have gone.
type running struct {
	mu       sync.Mutex
	n        int
	refusing bool
	idle     chan struct{} // closed when refusing and n is zero
}

// enter counts one record more, unless the gateway is stopping.
func (r *running) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusing {
		return false
	}
	r.n++
	return true
}

func (r *running) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n--
	if r.refusing && r.n == 0 {
		close(r.idle)
	}
}

// stop lets no record begin any more. The channel is closed when the last has
// ended.
func (r *running) stop() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refusing {
		r.refusing, r.idle = true, make(chan struct{})
		if r.n == 0 {
			close(r.idle)
		}
	}
	return r.idle
}

func (r *running) stopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusing
}

// afterGrace is how long records may take to end once they were broken off.
const afterGrace = 2 * time.Second

// Unready takes readiness down, while requests are still taken.
func (g *Gateway) Unready() { g.unready.Store(true) }

// Drain refuses new requests and waits for the records that run, abandoned
// ones too. When ctx ends first, what still runs is broken off: streams get
// an error event, and the error is ctx's cause.
func (g *Gateway) Drain(ctx context.Context) error {
	g.unready.Store(true)
	idle := g.running.stop()
	defer g.stopped.Do(func() { close(g.workers.stop) })
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	g.cancel(errDrained)
	select {
	case <-idle:
	case <-time.After(afterGrace):
	}
	return context.Cause(ctx)
}
