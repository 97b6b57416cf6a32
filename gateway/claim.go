package gateway

import (
	"context"

	"oncegate/cache"
	"oncegate/policy"
)

// claim finds out what a call is: a leader, a follower, a replay; or refuses
// it. A call that may share nothing leads a record that nobody else can join.
func (g *Gateway) claim(ctx context.Context, c *call, ev *event) (*cache.Entry, *refusal) {
	if c.tool != nil {
		return g.claimTool(ctx, c, ev)
	}
	if c.mode == cache.Off && !c.explicit() {
		return g.private(c), nil
	}
	asked := cache.Claim{Key: c.key, Fingerprint: c.fingerprint, Explicit: c.explicit(), Mode: c.mode, Retry: c.retry}
	if g.opt.Journal == nil {
		asked.Lapses = lapses(c, c.targets()[0])
	}
	entry, err := g.records.Open(ctx, asked, c.until)
	switch {
	case err != nil && (ctx.Err() != nil || g.opt.RefuseUnprotected):
		if entry != nil {
			entry.Settle(cache.Result{State: cache.Released}, 0, false)
		}
		if ctx.Err() != nil {
			return nil, clientGone
		}
		return nil, storeUnavailable
	case err != nil: // unprotected is better than unanswered, for a completion
		c.bypassed = true
		if entry == nil {
			entry = g.private(c)
		}
		return entry, nil
	case entry.Role == cache.Twin && c.explicit(): // grew too large to be shared: the key still stands for it
		ev.key = c.key
		return nil, inFlight
	case entry.Role == cache.Twin: // in flight, and this request may not share it
		return g.private(c), nil
	}
	ev.key = c.key
	if entry.Role == cache.Mismatch {
		return nil, keyReused
	}
	if entry.Lapsed && g.opt.Journal == nil { // the ledger's line is the claim's
		g.metrics.attempt("-", "crash", policy.Ambiguous)
	}
	ev.share = entry.Share
	return entry, nil
}

func (g *Gateway) private(c *call) *cache.Entry {
	return cache.Private(g.opt.MaxAnswer, c.until)
}
