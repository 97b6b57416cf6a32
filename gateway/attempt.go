package gateway

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/providers"
)

// maxHeldBack bounds, in bytes, what is held back of a stream before its first
// content, so that a retry stays invisible.
const maxHeldBack = 64 << 10

// answer is what came of an attempt so far.
type answer struct {
	head   *cache.Head
	frames []cache.Frame // held back: they come before the first content
	last   []cache.Frame // the end, not shown until it is recorded
	shown  bool          // something was shown: no other attempt can replace it
	whole  bool          // it came to its own end
	cut    bool          // whole, but ended by length or content filter
	bill   *cache.Bill   // what it cost; nil: it did not succeed
}

// attempt is one attempt upstream, to its end. It is written down before its
// first byte leaves, so that a crash leaves none uncounted, and booked with the
// record's end.
func (r *run) attempt(ctx context.Context, a policy.Attempt) *policy.Failure {
	g, t := r.g, r.targets[a.Index]
	r.answer = answer{}
	r.made++
	start := time.Now()
	if r.made == 1 {
		g.began(r.c, start)
	}
	if g.opt.Journal != nil {
		id, err := g.opt.Journal.Begin(r.entry.Hold(), t.state.Name)
		if err != nil {
			g.log.Warn("an attempt could not be journaled", zap.Error(err))
		}
		r.noted = append(r.noted, id)
	} else {
		r.note(t)
	}
	back := false
	defer func() {
		if !back { // it panicked: nobody knows what the upstream did
			r.count(t, policy.Ambiguous)
			g.metrics.attempt(t.state.Name, "crash", policy.Ambiguous)
		}
	}()
	var f *policy.Failure
	if err := r.relay(ctx, t, a); err != nil {
		failed := err.Failure // a copy, whose cause is the whole error
		failed.Err, failed.Committed = err, r.shown
		f = &failed
	}
	back = true
	r.count(t, f.Billing())
	took := g.attempted(start, t.state.Name, f.Result(), f.Billing())
	r.trace.tried(start, took, r.asked, r.status(f), f.Result())
	return f
}

// status is the upstream's of the attempt that came out so; 0: it sent none.
func (r *run) status(f *policy.Failure) int {
	switch {
	case r.head != nil:
		return r.head.Status
	case f != nil:
		return f.Status
	}
	return 0
}

// note has the record tell what the call has come to, should this node die in an
// attempt that the claim did not tell of: any but a first one at the first target.
func (r *run) note(t *target) {
	n, ok := r.g.opt.Store.(noter)
	if !ok || r.made == 1 && t == r.targets[0] || r.entry.Private() {
		return
	}
	lines := append(r.lapsed(), lapses(r.c, t)...)
	if err := n.Note(r.entry.Hold(), lines); err != nil {
		r.g.log.Warn("an attempt could not be noted", zap.Error(err))
		return
	}
	r.entry.Lapses = lines
}

// relay makes the attempt, and moves its answer into the log.
func (r *run) relay(ctx context.Context, t *target, a policy.Attempt) *providers.Error {
	model := cmp.Or(t.model, r.c.up.Model)
	r.asked = t.up.Provider.Name() + "/" + model
	upstream, err := t.up.Provider.Try(ctx, &r.c.up, model, a.Credential)
	if err != nil {
		a.Target.Observe(a.Credential, err.Header, time.Now())
		return err
	}
	defer upstream.Close()
	a.Target.Observe(a.Credential, upstream.Header(), time.Now())
	shared, own := split(upstream.Header())
	head := &cache.Head{
		Status: upstream.Status(), Header: shared, Own: own, Attempts: r.made, Events: upstream.Events(),
		Target: r.asked,
	}
	r.head = head
	if head.Events {
		r.log.Open(head)
	}
	for held := 0; ; {
		piece, err := upstream.Next()
		if err != nil {
			return err
		}
		if len(piece.Data) > 0 {
			f := cache.Frame{Kind: cache.BodyFrame, Data: piece.Data}
			if piece.Kind == providers.Usage {
				f.Kind = cache.UsageFrame
			}
			if r.frames == nil && !r.shown {
				r.frames = append(make([]cache.Frame, 0, 3), cache.Frame{Kind: cache.HeadFrame, Head: head})
			}
			r.frames = append(r.frames, f)
			held += len(piece.Data)
		}
		if piece.Last {
			if r.frames == nil && !r.shown { // an answer without a body
				r.frames = []cache.Frame{{Kind: cache.HeadFrame, Head: head}}
			}
			end := upstream.End()
			r.last, r.whole, r.cut = r.frames, end.Whole, end.Cut
			r.bill = t.bill(&end, model, r.c.up.Model)
			return nil
		}
		if !r.shown && piece.Kind != providers.Content && held <= maxHeldBack {
			continue
		}
		if err := r.log.Append(ctx, r.frames...); err != nil {
			return &providers.Error{Failure: policy.Failure{Phase: policy.Broken, Cancelled: true, Err: err}}
		}
		r.shown, r.frames = true, r.frames[:0] // Append has copied them
	}
}
