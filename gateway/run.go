package gateway

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/policy"
)

var (
	errAbandoned = errors.New("nobody waits for the answer any more")
	errDeadline  = errors.New("the call's own deadline passed")
	errDrained   = errors.New("the gateway stopped")
)

// run is a record while its leader's call is under way.
type run struct {
	g       *Gateway
	entry   *cache.Entry
	log     *cache.Log
	c       *call
	trace   *trace
	targets []*target
	states  []*policy.Target // of targets

	ctx      context.Context // of the record: outlives every client
	cancel   context.CancelCauseFunc
	deadline time.Time
	timer    *time.Timer

	made   int          // attempts so far
	asked  string       // provider/model of the last one
	marked bool         // the same call failed a moment ago
	booked []cache.Line // what they come to in the ledger
	noted  []uint64     // their ids in the journal
	// unheard: the store did not hear how the call ended, and may never: what
	// the journal has stays there for the next start.
	unheard bool
	answer  // of the attempt under way, or of the last one
}

func (g *Gateway) newRun(entry *cache.Entry, c *call, tr *trace) *run {
	r := &run{g: g, entry: entry, log: entry.Log(), c: c, trace: tr, targets: c.targets()}
	r.states = make([]*policy.Target, len(r.targets))
	for i, t := range r.targets {
		r.states[i] = t.named(c.up.Model)
	}
	r.marked = !entry.Private() && g.failed.has(c.key, time.Now())
	r.ctx, r.cancel = context.WithCancelCause(g.base)
	total := r.states[0].Config.Timeouts.Total
	r.deadline = time.Now().Add(total)
	r.timer = time.AfterFunc(total, func() { r.cancel(errDeadline) })
	r.log.OnIdle(r.idle)
	g.metrics.inflight(c.op, 1)
	return r
}

// policyCall is the call as the retry policy sees it.
func (r *run) policyCall() policy.Call {
	return policy.Call{
		Kind: policy.Completion, Principal: r.c.who.name, Targets: r.states, Deadline: r.deadline, Readers: r.log,
		Once: r.marked, Made: r.made, On: r.onPolicy,
	}
}

// end lets go of what the run held. A run that panicked is settled, so that
// nobody waits for it.
func (r *run) end() {
	if p := recover(); p != nil {
		r.g.log.Error("a call panicked", zap.String("panic", fmt.Sprint(p)), zap.ByteString("stack", debug.Stack()))
		select {
		case <-r.log.Done():
		default:
			head, body := internal.answer(r.c.op.surface)
			r.finish(cache.Failed, 0, head, body)
		}
	}
	if !r.unheard {
		for _, id := range r.noted { // they are booked
			r.g.opt.Journal.End(id)
		}
	}
	r.g.settled(r.trace, "") // it is, but if its settlement panicked
	r.timer.Stop()
	r.cancel(nil)
	r.c.forget()
	r.g.metrics.inflight(r.c.op, -1)
}

// idle is called when the last reader left. A stream goes on for a moment,
// for a retry to attach, unless nobody else could; an answer that is billed
// whole anyway is read on.
func (r *run) idle() {
	if !r.c.up.Stream && !r.log.Opened() {
		return
	}
	linger := *r.g.opt.Dedupe.Linger
	if r.entry.Private() {
		linger = 0
	}
	time.AfterFunc(linger, func() {
		if idle := r.log.IdleFor(); idle > 0 && idle >= linger && r.log.Abandon() {
			r.cancel(errAbandoned)
		}
	})
}

// settle ends the record as its call came out. Only whole answers are kept;
// a failure for as long as it answers repeats.
func (r *run) settle(res policy.Result) {
	if res.Failure == nil && res.Reason == "" && r.last == nil {
		panic("gateway: a call succeeded without an answer")
	}
	if res.Failure != nil || res.Reason != "" {
		res.Attempts = r.made
		if res.Memo > 0 && !r.entry.Private() {
			r.g.failed.put(r.c.key, time.Now())
		}
		head, body := failure(r.c.op.surface, res, context.Cause(r.ctx))
		r.finish(cache.Failed, res.Memo, head, body)
		return
	}
	state, keep := cache.Released, time.Duration(0)
	if r.whole {
		state, keep = cache.Completed, retention(r.g.opt.Dedupe.TTL, r.c)
	}
	if r.bill != nil {
		r.last = append(r.last, cache.Frame{Kind: cache.BillFrame, Bill: r.bill})
	}
	r.record(cache.Result{State: state, Cut: r.cut}, keep, r.c.explicit(), r.head, r.last)
}

// finish ends the record with an error of ours or of the upstream's: as the
// answer, or, once a part of another was shown, as what ends that.
func (r *run) finish(state cache.State, keep time.Duration, head *cache.Head, body []byte) {
	head.Target = r.asked
	last := []cache.Frame{{Kind: cache.HeadFrame, Head: head}, {Kind: cache.BodyFrame, Data: body}}
	if r.shown {
		last = []cache.Frame{{Kind: cache.ErrorFrame, Head: head, Data: body}}
		keep = 0
	}
	r.record(cache.Result{State: state}, keep, false, head, last)
}

// record ends the record, and books what it came to. Of a claim that was lost
// who took it over has booked the attempts, but where a journal tells of them:
// that takes them for booked once this run ends.
func (r *run) record(res cache.Result, keep time.Duration, disk bool, head *cache.Head, last []cache.Frame) {
	r.entry.Lines = r.lines(head)
	if r.entry.Private() {
		r.g.opt.Store.Book(r.entry.Lines...)
	}
	err := r.entry.Settle(res, keep, disk, last...)
	r.g.settled(r.trace, ending(r.entry, res, err))
	switch {
	case errors.Is(err, cache.ErrAway):
		r.unheard = true
	case errors.Is(err, cache.ErrFenced) && r.g.opt.Journal != nil:
		r.g.opt.Store.Book(r.entry.Lines...)
	}
}

// retention says how long a call's answer is kept: longer for a longer input,
// which is dearer to run again.
func retention(t TTL, c *call) time.Duration {
	if c.ttl > 0 {
		return min(c.ttl, t.Max)
	}
	size := int64(c.size)
	base := t.Chat
	if c.op.short {
		base = t.Embeddings
	} else if size > 10*t.ScaleBytes {
		base = t.Long
	}
	return min(base*time.Duration(max(1, size/t.ScaleBytes)), t.Max)
}
