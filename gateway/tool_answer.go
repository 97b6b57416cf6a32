package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/providers"
)

// toolAnswer is what came of one attempt.
type toolAnswer struct {
	failure *policy.Failure // nil: a status below 400, read to its end
	status  int             // 0: none came
	head    *cache.Head
	frames  []cache.Frame // read, and not shown yet
	shown   bool          // it is relayed live: too large to be held, or a stream
	broken  bool          // it ended before its end
	size    int64         // bytes of its body
	digest  hash.Hash     // over them
}

func (a *toolAnswer) sum() (sum [32]byte) {
	if a.digest != nil {
		a.digest.Sum(sum[:0])
	}
	return sum
}

// rest is what is still to be shown of it.
func (a *toolAnswer) rest() []cache.Frame {
	if a.head != nil && !a.shown {
		return append([]cache.Frame{{Kind: cache.HeadFrame, Head: a.head}}, a.frames...)
	}
	return a.frames
}

// await makes one attempt. A write's is not ended by the limit on the first
// byte: that ends the waiting for it, and its answer is welcome when it comes.
func (r *toolRun) await(ctx context.Context) *toolAnswer {
	limit, n := r.t.Policy.Timeouts.FirstByte, r.made
	if r.t.write == nil {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		timer := time.AfterFunc(limit, func() { cancel(errFirstByte) })
		defer timer.Stop()
		a := r.send(ctx, n, func() bool { timer.Stop(); return true })
		if errors.Is(context.Cause(ctx), errFirstByte) && a.failure != nil {
			a.failure.Timeout, a.failure.Cancelled = true, false
		}
		return a
	}
	// Of the record, not of this attempt: it outlives what waits for it.
	var (
		decided    atomic.Bool // that it came in time, or that it did not
		begun      = make(chan struct{})
		done       = make(chan *toolAnswer, 1)
		timer      = time.NewTimer(limit)
		comesFirst = func() bool { return decided.CompareAndSwap(false, true) }
		over       func() // of one that nobody waits for; set before that is decided
	)
	defer timer.Stop()
	r.left.Go(func() {
		inTime := false
		a := r.guarded(n, func() bool {
			if inTime = comesFirst(); inTime {
				close(begun)
			}
			return inTime
		})
		if inTime || comesFirst() {
			done <- a
			return
		}
		<-r.ended
		r.late(a)
		over()
	})
	select {
	case a := <-done:
		return a
	case <-begun:
	case <-timer.C:
		if over = r.g.probes.late(r.c.key); comesFirst() {
			return &toolAnswer{failure: &policy.Failure{Phase: policy.Sent, Timeout: true, Err: errFirstByte}}
		}
		over()
	}
	return <-done
}

var errFirstByte = errors.New("nothing came of the answer in time")

// guarded is send for a goroutine of its own: whatever panics there, the run is
// told.
func (r *toolRun) guarded(n int, begun func() bool) (a *toolAnswer) {
	defer func() {
		if p := recover(); p != nil {
			r.g.log.Error("an attempt panicked", zap.Any("panic", p))
			a = &toolAnswer{failure: &policy.Failure{Phase: policy.Sent, Err: errors.New("a fault inside the gateway")}}
		}
	}()
	return r.send(r.ctx, n, begun)
}

// send makes the n-th attempt and reads its answer. begun is called once the
// status is there, and says whether somebody still waits for it.
func (r *toolRun) send(ctx context.Context, n int, begun func() bool) *toolAnswer {
	up := r.t.up
	if r.t.write != nil {
		up.May = r.entry.Held
	}
	if r.t.write != nil && r.t.UpstreamKeyWindow > 0 {
		up.UpstreamKey = r.g.upstreamKey(r.c.key, r.entry.Origin)
	}
	from, err := r.t.Upstream.Try(ctx, &up)
	if err != nil {
		f := err.Failure
		f.Err = err
		return &toolAnswer{failure: &f}
	}
	defer from.Close()
	late := !begun()
	shared, own := r.t.split(from.Header())
	a := &toolAnswer{
		status: from.Status(), digest: sha256.New(), failure: from.Failure(),
		head: &cache.Head{Status: from.Status(), Header: shared, Own: own, Attempts: n, Events: from.Events(), Target: r.t.Name},
	}
	if a.failure != nil { // a tool's credential is not ours to judge
		a.failure.Credential, a.failure.Quota = false, false
		a.tell(false, 0)
	}
	r.read(ctx, from, a, late)
	return a
}

// tell says in an error's headers whether another try is of use.
func (a *toolAnswer) tell(retry bool, after time.Duration) {
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry"} {
		delete(a.head.Own, name) // the API's own
	}
	retryHeaders(a.head.Header, a.status, retry, after)
}

const (
	toolChunk    = 32 << 10 // bytes read at once
	toolErrorMax = 1 << 20  // of an error's body that is tried again
)

// read reads an answer's body: whole, so that it is recorded before anything of
// it is shown, or, where it is a stream or too large for that, live.
// Of a late one nothing is shown: another attempt may be.
func (r *toolRun) read(ctx context.Context, from *providers.ToolAnswer, a *toolAnswer, late bool) {
	live := from.Events() && a.failure == nil && !late
	most := r.g.opt.MaxAnswer - maxHead
	if a.failure != nil && (r.t.write == nil || r.t.judge(a.failure) != final) { // another attempt may follow
		most = toolErrorMax
	}
	b := make([]byte, toolChunk)
	for {
		n, err := from.Read(b)
		if n > 0 {
			a.hold(b[:n])
		}
		switch {
		case live || a.size <= most:
		case most == toolErrorMax: // nothing says that it is a whole answer
			a.broken = true
			return
		case late: // it will not be kept
			a.frames, a.shown = nil, true
		default:
			live = true
		}
		if live && (n > 0 || !a.shown) && err != io.EOF {
			if err := r.show(ctx, a); err != nil {
				a.broken = true
				a.failure = &policy.Failure{Phase: policy.Broken, Cancelled: true, Committed: true, Err: err}
				return
			}
		}
		switch {
		case err == io.EOF:
			return
		case err != nil:
			a.broken = true
			f := policy.Failure{Phase: policy.Broken, Committed: a.shown, Err: err}
			var broken *providers.Error
			if errors.As(err, &broken) {
				f = broken.Failure
				f.Committed = a.shown
			}
			if a.failure == nil {
				a.failure = &f
			}
			return
		}
	}
}

// hold keeps what was read, in frames that are no larger than what is in them.
func (a *toolAnswer) hold(p []byte) {
	a.size += int64(len(p))
	a.digest.Write(p)
	if n := len(a.frames); n > 0 && len(a.frames[n-1].Data)+len(p) <= 8*toolChunk {
		a.frames[n-1].Data = append(a.frames[n-1].Data, p...)
		return
	}
	a.frames = append(a.frames, cache.Frame{Kind: cache.BodyFrame, Data: bytes.Clone(p)})
}

// maxHead is room for an answer's status and headers beside its body, in bytes.
const maxHead = 64 << 10

// show moves what was read into the log.
func (r *toolRun) show(ctx context.Context, a *toolAnswer) error {
	frames := a.rest()
	a.shown = true
	a.frames = nil
	return r.log.Append(ctx, frames...)
}

// late settles the record anew by an answer that came after its waiting ended.
func (r *toolRun) late(a *toolAnswer) {
	if r.end != cache.Unknown {
		return
	}
	verdict := final
	if a.failure != nil {
		verdict = r.t.judge(a.failure)
	}
	var res cache.Result
	switch {
	case verdict == answerLost, verdict == final && a.broken:
		res = cache.Result{State: cache.Completed, Status: a.status, Frames: r.lostAnswer(a)}
	case verdict == final && !a.shown:
		res = cache.Result{State: cache.Completed, Status: a.status, Size: a.size, Sum: a.sum(), Frames: a.rest()}
	case verdict == final:
		res = cache.Result{State: cache.Completed, Status: a.status, Size: a.size, Sum: a.sum()}
	case (verdict == notExecuted || verdict == refusedIt) && !r.doubted():
		res = cache.Result{State: cache.Released}
	default:
		return
	}
	if r.t.keyed == unkeyed {
		res = cache.Result{State: cache.Released}
	}
	keep := r.g.toolTTL(r.c)
	err := r.entry.Amend(res, keep, max(keep, r.g.opt.Tombstone))
	if res.State == cache.Completed {
		r.contradicted(res.Status, err)
	}
	if errors.Is(err, cache.ErrAway) {
		r.g.log.Warn("a late answer could not be recorded at once", zap.String("key", keyText(r.c.key)), zap.Error(err))
	}
}

// doubted says that another attempt than the one that was waited for is in
// doubt too.
func (r *toolRun) doubted() bool { return r.figures.Ambiguous > 1 }
