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
	frames []cache.Frame // held back: they come before the first content
	last   []cache.Frame // the end, not shown until it is recorded
	shown  bool          // something was shown: no other attempt can replace it
	whole  bool          // it came to its own end
	cut    bool          // whole, but ended by length or content filter
}

// attempt is one attempt upstream, to its end. It is written down before its
// first byte leaves, so that a crash leaves none uncounted, and booked after.
func (r *run) attempt(ctx context.Context, a policy.Attempt) *policy.Failure {
	g, t := r.g, r.targets[a.Index]
	r.answer = answer{}
	r.made++
	start, id := time.Now(), uint64(0)
	if r.made == 1 {
		g.metrics.overhead.Observe(start.Sub(r.c.arrived).Seconds())
	}
	if g.opt.Journal != nil {
		var err error
		if id, err = g.opt.Journal.Begin(r.entry.Hold(), t.state.Name); err != nil {
			g.log.Warn("an attempt could not be journaled", zap.Error(err))
		}
	} else {
		r.note(t.state.Name)
	}
	var f *policy.Failure
	if err := r.relay(ctx, t, a); err != nil {
		failed := err.Failure // a copy, whose cause is the whole error
		failed.Err, failed.Committed = err, r.shown
		f = &failed
	}
	if g.opt.Journal != nil {
		g.opt.Journal.End(id)
	}
	g.metrics.upstream.Observe(time.Since(start).Seconds())
	g.metrics.attempt(t.state.Name, f.Result(), f.Billing())
	return f
}

// note has the record name the target of an attempt that is about to be made.
// The claim named that of the first.
func (r *run) note(target string) {
	n, ok := r.g.opt.Store.(noter)
	if !ok || r.noted == target || r.entry.Private() {
		return
	}
	r.noted = target
	if err := n.Note(r.entry.Hold(), target); err != nil {
		r.g.log.Warn("an attempt could not be noted", zap.Error(err))
	}
}

// relay makes the attempt, and moves its answer into the log.
func (r *run) relay(ctx context.Context, t *target, a policy.Attempt) *providers.Error {
	model := cmp.Or(t.model, r.c.up.Model)
	upstream, err := t.up.Provider.Try(ctx, &r.c.up, model, a.Credential)
	if err != nil {
		return err
	}
	defer upstream.Close()
	shared, own := split(upstream.Header())
	head := &cache.Head{
		Status: upstream.Status(), Header: shared, Own: own, Attempts: r.made, Events: upstream.Events(),
		Target: t.up.Provider.Name() + "/" + model,
	}
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
