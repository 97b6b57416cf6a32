package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/policy"
)

// toolRun is the record of a tool's call while its leader's call is under way:
//
//	claimed -- dispatch, durable --> attempt upstream -- verdict --> completed, released or unknown
//
// Only what is dispatched is sent, and what was sent once and can't be told from
// what was not is unknown: nothing here runs it again, unless the upstream tells
// a second one by our key.
type toolRun struct {
	g     *Gateway
	entry *cache.Entry
	log   *cache.Log
	c     *call
	trace *trace
	t     *toolCall

	ctx      context.Context
	cancel   context.CancelCauseFunc
	deadline time.Time
	timer    *time.Timer

	made       int
	figures    cache.Figures // attempts, as they are booked with the record
	dispatched bool          // the store has it so
	undone     error         // why a dispatch was not confirmed: nothing was sent
	astray     error         // why its withdrawal was not: the store may have it as claimed, or as another's
	forgets    time.Time     // when the upstream may forget our key; zero: not found out yet
	doubt      bool          // an attempt was sent, and what became of it is not known
	happened   *toolAnswer   // one was executed, and its answer broke off
	last       *toolAnswer   // of the last attempt; nil: none came
	ended      chan struct{} // closed once the record is settled
	left       sync.WaitGroup
	end        cache.State // valid after ended: what the record was settled as
}

var errUndispatched = errors.New("the dispatch was not confirmed")

// leadTool is lead for a tool's call.
func (g *Gateway) leadTool(entry *cache.Entry, c *call, tr *trace) {
	r := g.newToolRun(entry, c, tr)
	defer r.close()
	if !g.running.enter() {
		r.settle(policy.Result{Reason: reasonDraining, ShouldRetry: true})
		return
	}
	defer g.running.leave()
	r.settle(g.engine.Do(r.ctx, r.policyCall(), r.attempt))
	r.left.Wait() // a late answer is welcome, and a drain waits for it
}

func (g *Gateway) newToolRun(entry *cache.Entry, c *call, tr *trace) *toolRun {
	r := &toolRun{g: g, entry: entry, log: entry.Log(), c: c, trace: tr, t: c.tool, ended: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancelCause(g.base)
	total := r.t.Policy.Timeouts.Total
	r.deadline = time.Now().Add(total)
	r.timer = time.AfterFunc(total, func() { r.cancel(errDeadline) })
	if r.t.write == nil {
		r.log.OnIdle(func() {
			if r.log.Abandon() {
				r.cancel(errAbandoned)
			}
		})
	}
	g.metrics.inflight(c.op, 1)
	return r
}

func (r *toolRun) policyCall() policy.Call {
	c := policy.Call{
		Kind: r.t.kind(), Principal: r.c.who.name, Targets: []*policy.Target{r.t.state}, Deadline: r.deadline, On: r.onPolicy,
	}
	if r.t.write == nil || r.t.keyed == unkeyed {
		c.Readers = r.log // nobody could take the answer
	}
	return c
}

// kind says what a second run of the call may be.
func (t *toolCall) kind() policy.Kind {
	switch {
	case t.write == nil:
		return policy.Read
	case t.keyed == unkeyed:
		return policy.UnkeyedWrite
	case t.UpstreamKeyWindow > 0:
		return policy.DedupWrite
	}
	return policy.Write
}

// close lets go of what the run held. A run that panicked is settled, so that
// nobody waits for it: as unknown, if it was dispatched.
func (r *toolRun) close() {
	if p := recover(); p != nil {
		r.g.log.Error("a tool's call panicked", zap.String("panic", fmt.Sprint(p)), zap.ByteString("stack", debug.Stack()))
		select {
		case <-r.log.Done():
		default:
			if r.dispatched {
				r.unknown(0)
			} else {
				r.refuse(internal)
			}
		}
	}
	r.g.settled(r.trace, "") // it is, but if its settlement panicked
	r.timer.Stop()
	r.cancel(nil)
	if !r.log.Lost() || r.c.left.Load() { // who reads a lost one claims anew, and needs its request
		r.c.forget()
	}
	r.g.metrics.inflight(r.c.op, -1)
}

// attempt is one attempt upstream, to the end of its answer, or until it is
// given up waiting for. The first one dispatches the record.
func (r *toolRun) attempt(ctx context.Context, a policy.Attempt) *policy.Failure {
	if r.t.write != nil {
		if err := r.mayGo(); err != nil {
			return &policy.Failure{Phase: policy.NotSent, Cancelled: true, Err: err}
		}
	}
	r.made++
	start := time.Now()
	if r.made == 1 {
		r.g.began(r.c, start)
	}
	ans := r.await(ctx)
	f := ans.failure
	r.last = ans
	billing := f.Billing()
	if r.t.write != nil && f != nil && r.t.judge(f) == inDoubt { // a 503, too, may have come after the effect
		billing = policy.Ambiguous
	}
	r.count(billing)
	took := r.g.attempted(start, r.t.Name, f.Result(), billing)
	r.trace.tried(start, took, r.t.Name, ans.status, f.Result())
	if r.t.write == nil || f == nil {
		return f
	}
	switch r.t.judge(f) {
	case inDoubt:
		r.doubt = true
	case answerLost:
		r.happened = ans
	case notExecuted:
		// So that a crash while it waits for its next attempt leaves nothing in
		// doubt.
		if !r.doubt && r.happened == nil {
			r.astray = r.entry.Withdraw()
			r.dispatched = r.astray != nil
		}
	}
	return f
}

// mayGo says whether the next attempt may be sent, and if not ends the attempts.
func (r *toolRun) mayGo() error {
	if r.doubt || r.happened != nil { // it was sent, and is dispatched; a late answer is still welcome
		return cmp.Or(r.remembered(), r.entry.Stands())
	}
	err := r.remembered()
	if err == nil {
		err = r.dispatch()
	}
	if err != nil {
		r.undone = err
		r.cancel(errUndispatched)
	}
	return err
}

var errForgotten = errors.New("the upstream may have forgotten our key (upstream_key_window)")

// remembered says that the upstream would tell the next attempt by our key from
// those that may have reached it. It remembers since the first of them, which
// an earlier claim may have sent.
func (r *toolRun) remembered() error {
	if r.t.kind() != policy.DedupWrite {
		return nil
	}
	if r.forgets.IsZero() {
		window, earlier := r.t.UpstreamKeyWindow, r.entry.Origin != r.entry.Fence
		now, left := time.Now(), window
		if earlier {
			rec, err := r.g.opt.Store.Record(context.Background(), r.c.key)
			if err != nil {
				return err
			}
			left -= r.entry.At.Sub(rec.Dispatched) // both by the store's clock
			if left <= 0 && r.t.write.Knowingly {  // it begins anew
				left = window
			}
		}
		r.forgets = now.Add(left)
	}
	if (r.doubt || r.happened != nil || r.entry.Origin != r.entry.Fence) && !time.Now().Before(r.forgets) {
		return errForgotten
	}
	return nil
}

// dispatch has the store know of the next attempt before it is sent. Nothing is
// sent after a withdrawal that was not confirmed: the store may have done it all
// the same, so that another could claim what is sent, or another may have
// claimed it already.
func (r *toolRun) dispatch() error {
	switch {
	case errors.Is(r.astray, cache.ErrFenced):
		// If it is only held for unknown, we know better: nothing happened.
		_ = r.entry.Amend(cache.Result{State: cache.Released}, 0, 0)
		return r.astray
	case r.astray != nil || r.dispatched:
		return r.astray
	}
	err := r.entry.Dispatch()
	r.dispatched = err == nil
	return err
}

func (r *toolRun) count(b policy.Billing) {
	switch b {
	case policy.Billed:
		r.figures.Billed++
	case policy.Unbilled:
		r.figures.Unbilled++
	default:
		r.figures.Ambiguous++
	}
}

// lines is what the record comes to in the ledger, now that it ends so.
func (r *toolRun) lines(head *cache.Head) []cache.Line {
	outcome, reason := ledBy(head, false)
	return []cache.Line{{At: time.Now(), Series: r.t.series(r.c, outcome, reason), Figures: r.figures}}
}

// record ends the record.
func (r *toolRun) record(res cache.Result, head *cache.Head, last []cache.Frame) {
	r.entry.Lines = r.lines(head)
	keep := time.Duration(0)
	if r.t.write == nil {
		r.g.opt.Store.Book(r.entry.Lines...)
	} else if res.State == cache.Completed {
		if r.t.keyed == unkeyed { // nobody can ask for it again
			res.State = cache.Released
		} else {
			keep = r.g.toolTTL(r.c)
			r.entry.Memory = max(keep, r.g.opt.Tombstone)
		}
	}
	r.end = res.State
	err := r.entry.Settle(res, keep, true, last...)
	r.g.settled(r.trace, ending(r.entry, res, err))
	close(r.ended)
	if r.t.write != nil && res.State == cache.Completed {
		r.contradicted(res.Status, err)
	}
	if res.State == cache.Unknown {
		r.g.probes.add(r.c.key, r.t.write.About, r.entry.Fence)
	}
}

// toolTTL is how long the answer of a write is kept.
func (g *Gateway) toolTTL(c *call) time.Duration {
	if c.ttl > 0 {
		return min(c.ttl, g.opt.Dedupe.TTL.Max)
	}
	return g.opt.ToolTTL
}
