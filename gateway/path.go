package gateway

import (
	"net/http"

	"oncegate/cache"
	"oncegate/policy"
)

// path is the way of one request, from its client to the record that it reads
// and back. A refusal is answered by its caller; nil means that all was said.
//
//	principal -> call -> key -> claim -- lead --> attempts upstream -> record -> settle
//	                              |                                      |
//	                              +-- follow, replay -----------------> read -> client
//
// Whoever leads a record has it run on its own, in lead below; from there on
// every client is a reader of a record, the leader's own too. A call of a tool
// goes the same way; its record has a step more, since a write must not run
// twice: see leadTool.
func (g *Gateway) path(w http.ResponseWriter, r *http.Request, ev *event) *refusal {
	who, why := g.principal(r)
	if why != nil {
		return why
	}
	ev.principal = who.name
	if g.running.stopping() {
		return draining
	}
	c, why := g.read(w, r, ev, who)
	if why != nil {
		return why
	}
	ev.of(c)
	g.setKey(c, r.Header)
	for {
		entry, why := g.claim(r.Context(), c, ev)
		if why != nil {
			c.forget()
			return why
		}
		tr := joined(c, entry, ev)
		switch {
		case entry.Role == cache.Lead && c.tool != nil:
			g.workers.do(func() { g.leadTool(entry, c, tr) })
		case entry.Role == cache.Lead:
			g.workers.do(func() { g.lead(entry, c, tr) })
		case !entry.MayLose(): // its answer comes from elsewhere
			c.forget()
		}
		if g.deliver(w, r, c, entry, ev) {
			return nil
		}
		// The node that led it was lost before anything was shown, or had ended
		// just before this request came: claim anew.
	}
}

// lead is one record's life: attempts upstream until one answers, its frames
// into the log, and the settlement. It belongs to no connection.
func (g *Gateway) lead(entry *cache.Entry, c *call, tr *trace) {
	run := g.newRun(entry, c, tr)
	defer run.end()
	if !g.running.enter() {
		run.settle(policy.Result{Reason: reasonDraining, ShouldRetry: true})
		return
	}
	defer g.running.leave()
	for {
		result := g.engine.Do(run.ctx, run.policyCall(), run.attempt)
		if result.Reason == policy.ClientGone && !run.log.Abandon() {
			continue // somebody joined at the last moment
		}
		run.settle(result)
		return
	}
}
