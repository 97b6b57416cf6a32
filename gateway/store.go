package gateway

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"oncegate/cache"
)

// What a store may have beside what cache.Store asks of it.
type (
	// announcer hears at once when somebody on another node reads a log that
	// is led here.
	announcer interface{ OnWanted(func(cache.Hold)) }
	// giver leaves it to its user to end a claim whose answer was lost.
	giver interface {
		GiveBack(cache.Claim, *cache.Settlement)
		Landed(cache.Claim) (cache.Hold, bool, error)
	}
	// durable says "strict" when what it acknowledged outlives a crash; else
	// "relaxed: " and why.
	durable interface{ Durability() string }
	// noter keeps with a record what is booked if this node dies in a further
	// attempt.
	noter interface {
		Note(h cache.Hold, lapses []cache.Line) error
	}
	// reachable says why the store is away; nil: it can be asked.
	reachable interface{ Reachable() error }
)

// durability is what the store says of itself.
func (g *Gateway) durability() string {
	if d, ok := g.opt.Store.(durable); ok {
		return d.Durability()
	}
	return "relaxed: the store does not say what it keeps"
}

func (g *Gateway) relaxed() float64 {
	if strings.HasPrefix(g.durability(), "strict") {
		return 0
	}
	return 1
}

// storeAway says that the store is away.
func (g *Gateway) storeAway() bool {
	r, ok := g.opt.Store.(reachable)
	return ok && r.Reachable() != nil
}

// timed is a store whose steps are measured, those too that failed. Not Read:
// that waits by its nature.
type timed struct {
	cache.Store
	claim, renew, publish, settle, owe prometheus.Observer
}

func newTimed(s cache.Store, seconds *prometheus.HistogramVec) *timed {
	of := seconds.WithLabelValues
	return &timed{s, of("claim"), of("renew"), of("append"), of("settle"), of("owe")}
}

func since(o prometheus.Observer, start time.Time) { o.Observe(time.Since(start).Seconds()) }

func (t *timed) Claim(ctx context.Context, c cache.Claim) (cache.Grant, error) {
	defer since(t.claim, time.Now())
	return t.Store.Claim(ctx, c)
}

func (t *timed) Renew(ctx context.Context, h cache.Hold, lease time.Duration) (bool, error) {
	defer since(t.renew, time.Now())
	return t.Store.Renew(ctx, h, lease)
}

func (t *timed) Append(ctx context.Context, h cache.Hold, from int, frames []cache.Frame) error {
	defer since(t.publish, time.Now())
	return t.Store.Append(ctx, h, from, frames)
}

func (t *timed) Settle(ctx context.Context, h cache.Hold, s cache.Settlement) error {
	defer since(t.settle, time.Now())
	return t.Store.Settle(ctx, h, s)
}

func (t *timed) Owe(ctx context.Context, h cache.Hold, n cache.Nonce, d time.Duration) error {
	defer since(t.owe, time.Now())
	return t.Store.Owe(ctx, h, n, d)
}
