package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/providers"
)

var (
	errAbandoned = errors.New("nobody waits for the answer any more")
	errDeadline  = errors.New("the call's own deadline passed")
	errDrained   = errors.New("the gateway stopped")
)

// maxHeldBack bounds, in bytes, what is held back of a stream before its first
// content, so that a retry stays invisible.
const maxHeldBack = 64 << 10

// run is one record's life: attempts upstream until one answers, its frames
// into the log, and the settlement. It belongs to no connection.
type run struct {
	g       *Gateway
	entry   *cache.Entry
	log     *cache.Log
	c       *call
	targets []*target
	cancel  context.CancelCauseFunc

	held []cache.Frame // before the first content
	last []cache.Frame // the end of the answer, not shown until it is recorded
	end  providers.End
	head *cache.Head // of the answer, once there is one
	sent bool        // something of the answer was shown: no other attempt can replace it
	made int         // attempts so far
}

func (g *Gateway) run(e *cache.Entry, c *call) {
	defer c.release()
	r := &run{g: g, entry: e, log: e.Log(), c: c, targets: c.route.order(c.op.wire)}
	defer r.recover()
	if !g.running.enter() {
		r.settleFailure(g.base, policy.Result{Reason: reasonDraining, ShouldRetry: true})
		return
	}
	defer g.running.leave()

	ctx, cancel := context.WithCancelCause(g.base)
	defer cancel(nil)
	r.cancel = cancel
	states := make([]*policy.Target, len(r.targets))
	for i, t := range r.targets {
		states[i] = t.named(c.up.Model)
	}
	total := states[0].Config.Timeouts.Total
	timer := time.AfterFunc(total, func() { cancel(errDeadline) })
	defer timer.Stop()
	g.metrics.inflight(c.op, 1)
	defer g.metrics.inflight(c.op, -1)
	r.log.OnIdle(r.idle)

	call := policy.Call{
		Kind: policy.Completion, Targets: states, Deadline: time.Now().Add(total), Readers: r.log,
		On: r.onPolicy,
	}
	for {
		res := g.engine.Do(ctx, call, r.attempt)
		if res.Reason == policy.ClientGone && !r.log.Abandon() {
			continue // somebody joined at the last moment
		}
		res.Attempts = r.made
		if res.Failure == nil && res.Reason == "" {
			r.settleAnswer()
		} else {
			r.settleFailure(ctx, res)
		}
		return
	}
}

// idle is called when the last reader left. A stream goes on for a moment,
// for a retry to attach; an answer that is billed whole anyway is read on.
func (r *run) idle() {
	if !r.c.up.Stream {
		return
	}
	linger := *r.g.opt.Dedupe.Linger
	time.AfterFunc(linger, func() {
		if idle := r.log.IdleFor(); idle > 0 && idle >= linger && r.log.Abandon() {
			r.cancel(errAbandoned)
		}
	})
}

// attempt is one attempt upstream, to its end.
func (r *run) attempt(ctx context.Context, a policy.Attempt) *policy.Failure {
	t := r.targets[a.Index]
	r.held, r.last, r.head = nil, nil, nil
	r.made++
	begun := r.g.beginAttempt(r, a)
	err := r.relay(ctx, t, a)
	if err == nil {
		r.g.endAttempt(begun, nil)
		return nil
	}
	err.Committed = r.sent
	f := err.Failure // a copy, whose cause is the whole error
	f.Err = err
	r.g.endAttempt(begun, &f)
	return &f
}

// relay makes the attempt, and moves its answer into the log.
func (r *run) relay(ctx context.Context, t *target, a policy.Attempt) *providers.Error {
	model := t.model
	answer, err := t.up.Provider.Try(ctx, &r.c.up, orElse(model, r.c.up.Model), a.Credential)
	if err != nil {
		return err
	}
	defer answer.Close()
	shared, own := split(answer.Header())
	head := &cache.Head{
		Status: answer.Status(), Header: shared, Own: own, Attempts: r.made, Events: answer.Events(),
		Target: t.up.Provider.Name() + "/" + orElse(model, r.c.up.Model),
	}
	if head.Events {
		r.log.Open(head)
	}
	for held := 0; ; {
		piece, err := answer.Next()
		if err != nil {
			r.end = answer.End()
			return err
		}
		if len(piece.Data) > 0 {
			f := cache.Frame{Kind: cache.BodyFrame, Data: piece.Data}
			if piece.Kind == providers.Usage {
				f.Kind = cache.UsageFrame
			}
			r.held = append(r.held, f)
			held += len(piece.Data)
		}
		if piece.Last {
			r.end = answer.End()
			r.head = head
			r.last = r.frames(head)
			return nil
		}
		if !r.sent && piece.Kind != providers.Content && held <= maxHeldBack {
			continue
		}
		if err := r.log.Append(ctx, r.frames(head)...); err != nil {
			r.end = answer.End()
			return &providers.Error{Failure: policy.Failure{Phase: policy.Broken, Cancelled: true, Err: err}}
		}
		r.sent, r.held = true, nil
		held = 0
	}
}

// frames gives what was held back, behind the head where that is not out yet.
func (r *run) frames(head *cache.Head) []cache.Frame {
	if r.sent {
		return r.held
	}
	return append([]cache.Frame{{Kind: cache.HeadFrame, Head: head}}, r.held...)
}

// settleAnswer records a usable answer and shows its end. Only whole ones are
// kept.
func (r *run) settleAnswer() {
	keep := time.Duration(0)
	if r.end.Whole && r.c.op != &passthrough {
		keep = r.g.retention(r.c)
	}
	r.entry.Settle(cache.Result{State: cache.Completed, Cut: r.end.Cut}, keep, r.c.explicit, r.last...)
	r.last, r.held = nil, nil
}

// settleFailure tells the readers of a call that came to nothing.
func (r *run) settleFailure(ctx context.Context, res policy.Result) {
	head, body := r.g.failure(r.c, res, context.Cause(ctx))
	if r.sent { // the status is out: the stream ends with one error
		r.entry.Settle(cache.Result{State: cache.Released}, 0, false,
			cache.Frame{Kind: cache.ErrorFrame, Head: head, Data: body})
		return
	}
	state, keep := cache.Released, time.Duration(0)
	if res.Memo > 0 {
		state, keep = cache.Failed, res.Memo
	}
	r.entry.Settle(cache.Result{State: state}, keep, false,
		cache.Frame{Kind: cache.HeadFrame, Head: head}, cache.Frame{Kind: cache.BodyFrame, Data: body})
}

// failure makes the answer for a call that failed: the upstream's own where it
// can be passed on, else ours.
func (g *Gateway) failure(c *call, res policy.Result, cause error) (*cache.Head, []byte) {
	h := make(http.Header, 6)
	head := &cache.Head{Failed: true, Reason: string(res.Reason), Attempts: res.Attempts, Header: h}
	var upstream *providers.Error
	if res.Failure != nil {
		errors.As(res.Failure.Err, &upstream)
	}
	code, message := "upstream_error", ""
	switch {
	case errors.Is(cause, errDrained) || res.Reason == reasonDraining:
		head.Status, code, message = 503, "draining", draining.message
		head.Reason, res.ShouldRetry = string(reasonDraining), true
	case res.Reason == policy.TargetHeld:
		head.Status = res.Status
		code, message = "rate_limit_exceeded", "the upstream asked not to be called for a while"
		if res.Status != 429 {
			code = "upstream_unavailable"
		}
	case upstream != nil && upstream.Status >= 300 && upstream.Status < 400:
		head.Status, head.Reason = 502, cmp.Or(head.Reason, string(policy.AttemptsExhausted))
		message = fmt.Sprintf("the upstream answered with a redirect (%d), which is never followed: its base_url leads elsewhere", upstream.Status)
	case upstream != nil && upstream.Status >= 400 && (upstream.Phase >= policy.Answered):
		head.Status = upstream.Status
		if upstream.BadAnswer {
			message = "the upstream's answer was no answer: " + upstream.Error()
		} else {
			message = fmt.Sprintf("the upstream answered %d", upstream.Status)
		}
		if upstream.Status == 429 {
			code = "rate_limit_exceeded"
		}
	case res.Failure != nil && res.Failure.Timeout:
		head.Status, code, message = 504, "upstream_timeout", "the upstream did not answer in time"
	case res.Failure == nil && res.Reason == policy.Deadline, errors.Is(cause, errDeadline):
		head.Status, code, message = 504, "upstream_timeout", "the call's deadline passed before the upstream answered"
	case res.Failure != nil && res.Failure.Phase == policy.NotSent:
		head.Status, message = 502, "the upstream can't be reached"
	default:
		head.Status, message = 502, "the upstream broke off"
	}
	if upstream != nil {
		var shared map[string][]string
		shared, head.Own = split(upstream.Header)
		for name, values := range shared {
			h[name] = values
		}
		delete(head.Own, "Location")
	}
	h.Set("Content-Type", "application/json")
	retryHeaders(h, head.Status, res.ShouldRetry, res.RetryAfter)
	if head.Reason == "" { // the upstream's own final word: it was executed
		head.Failed = false
	}
	if upstream != nil && upstream.Object && upstream.Status == head.Status {
		return head, upstream.Body
	}
	if upstream != nil && len(upstream.Body) > 0 && upstream.Status == head.Status {
		message += ": " + clip(upstream.Body, 1000)
	}
	return head, errorBody(c.op.surface, head.Status, code, message, "")
}

// recover settles a record whose run panicked, so that nobody waits for it.
func (r *run) recover() {
	p := recover()
	if p == nil {
		return
	}
	r.g.log.Error("a call panicked", zap.String("panic", fmt.Sprint(p)), zap.ByteString("stack", debug.Stack()))
	select {
	case <-r.log.Done(): // after its end: only this goroutine is at fault
		return
	default:
	}
	head := &cache.Head{Status: 500, Failed: true, Reason: string(reasonInternal), Header: map[string][]string{
		"Content-Type": {"application/json"}, "X-Should-Retry": {"false"}}}
	body := errorBody(r.c.op.surface, 500, internal.code, internal.message, "")
	last := []cache.Frame{{Kind: cache.HeadFrame, Head: head}, {Kind: cache.BodyFrame, Data: body}}
	if r.sent {
		last = []cache.Frame{{Kind: cache.ErrorFrame, Head: head, Data: body}}
	}
	r.entry.Settle(cache.Result{State: cache.Released}, 0, false, last...)
}

// clip gives at most n bytes of what an upstream said, as text.
func clip(b []byte, n int) string {
	if len(b) > n {
		b = b[:n]
	}
	return strings.ToValidUTF8(string(b), "?")
}
