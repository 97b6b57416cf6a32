package gateway

import (
	"net/http"
	"time"

	"oncegate/cache"
)

// serve is the path of one request, from its client to the record that it
// reads and back:
//
//	principal -> call -> key -> claim -- lead --> attempts upstream -> record -> settle
//	                              |                                      |
//	                              +-- follow, replay -----------------> read -> client
//
// Whoever leads a record has it run on its own, in run; from there on every
// client is a reader of a record, the leader's own too.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, op *operation) {
	ev := g.begin(r, op)
	defer g.recoverTo(w, ev)

	who, refusal := g.principal(r)
	if refusal != nil {
		g.refuse(w, ev, refusal)
		return
	}
	ev.principal = who.name
	if g.running.stopping() {
		g.refuse(w, ev, draining)
		return
	}

	c, refusal := g.read(w, r, op, who)
	if refusal != nil {
		g.refuse(w, ev, refusal)
		return
	}
	ev.of(c)

	entry, refusal := g.claim(r, c, ev)
	if refusal != nil {
		c.release()
		g.refuse(w, ev, refusal)
		return
	}
	if entry.Role == cache.Lead {
		g.workers.do(func() { g.run(entry, c) })
	} else {
		c.release()
	}
	g.deliver(w, r, c, entry, ev)
}

// claim finds out what the request is: a leader, a follower, a replay; or
// refuses it.
func (g *Gateway) claim(r *http.Request, c *call, ev *event) (*cache.Entry, *refusal) {
	ev.key = c.key
	if c.mode == cache.Off && !c.explicit {
		return g.private(c), nil
	}
	entry, err := g.records.Open(r.Context(), cache.Claim{
		Key: c.key, Fingerprint: c.fingerprint, Nonce: cache.NewNonce(), Explicit: c.explicit,
		Mode: c.mode, Retry: c.retry, Lease: g.opt.Lease,
	}, c.until)
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, &refusal{status: statusClientGone, code: "client_closed_request", reason: reasonClientGone, message: "the client left"}
	case err != nil: // unprotected is better than unanswered, for a completion
		g.metrics.storeAway.Inc()
		ev.bypassed = true
		return g.private(c), nil
	}
	switch entry.Role {
	case cache.Mismatch:
		return nil, keyReused
	case cache.Twin: // in flight, and this request may not share it
		return g.private(c), nil
	}
	if entry.Lapsed {
		g.metrics.attempt("-", "crash", "ambiguous")
	}
	ev.share = entry.Share
	return entry, nil
}

// private makes a record in memory, that nobody else can join.
func (g *Gateway) private(c *call) *cache.Entry {
	return cache.Private(g.opt.MaxAnswer, c.until)
}

// retention says how long the call's answer is kept: longer for a longer
// input, which is dearer to run again.
func (g *Gateway) retention(c *call) time.Duration {
	t := g.opt.Dedupe.TTL
	if c.ttl > 0 {
		return min(c.ttl, t.Max)
	}
	base, size := t.Chat, int64(len(c.up.Body))
	if c.op.name == "embeddings" {
		base = t.Embeddings
	} else if size > 10*t.ScaleBytes {
		base = t.Long
	}
	return min(base*time.Duration(max(1, size/t.ScaleBytes)), t.Max)
}
