package gateway

import (
	"context"
	"errors"
	"net/http"

	"oncegate/cache"
	"oncegate/policy"
)

// finding is what a failed attempt of a write says of whether it happened.
type finding uint8

const (
	inDoubt     finding = iota // it may have happened
	notExecuted                // it did not, and the next attempt may
	refusedIt                  // it did not, and its caller may mend it and use the same key
	final                      // it was judged: repeats get the same answer
	answerLost                 // it happened, and its answer broke off
)

// judge is WRITES.md's table of verdicts.
func (t *toolCall) judge(f *policy.Failure) finding {
	switch {
	case f.Phase == policy.NotSent:
		return notExecuted
	case f.Phase == policy.Broken:
		return answerLost
	case f.Phase == policy.Sent:
		return inDoubt
	case f.NotExecuted, f.Status == http.StatusTooEarly, f.Status == http.StatusTooManyRequests:
		return notExecuted
	}
	switch f.Status {
	case 401, 403, 407, 411, 413, 414, 415, 417, 421, 426, 428, 431, 501, 505, 511:
		return refusedIt
	case http.StatusRequestTimeout:
		return inDoubt
	case http.StatusConflict:
		if t.kind() == policy.DedupWrite { // the first of the two still runs
			return inDoubt
		}
	}
	if f.Status >= 500 {
		return inDoubt
	}
	return final
}

// settle ends the record as its call came out.
func (r *toolRun) settle(res policy.Result) {
	switch {
	case r.undone != nil && errors.Is(r.undone, cache.ErrFenced):
		r.entry.Lose()
		r.end = cache.Released
		close(r.ended)
	case r.undone != nil:
		r.refuse(writesRefused)
	case res.Failure == nil && res.Reason == "" && r.last != nil:
		r.complete()
	case r.t.write == nil || r.made == 0:
		r.failed(res)
	default:
		r.judged(res)
	}
}

// judged ends a write that failed.
func (r *toolRun) judged(res policy.Result) {
	f := r.last.failure
	verdict := inDoubt
	if f != nil { // else the deadline came between two attempts
		verdict = r.t.judge(f)
	}
	switch {
	case verdict == final && r.last.broken: // a part of it is no answer
		r.lost(r.last)
	case verdict == final:
		r.complete()
	case r.happened != nil:
		r.lost(r.happened)
	case r.doubt || verdict == inDoubt:
		r.unknown(r.last.status)
	default:
		r.failed(res)
	}
}

// complete ends the record with the answer of the last attempt.
func (r *toolRun) complete() {
	a := r.last
	if r.t.keyed == unkeyed && r.t.write != nil {
		a.head.Reason = string(reasonUnkeyed)
	}
	r.record(cache.Result{State: cache.Completed, Status: a.status, Size: a.size, Sum: a.sum()}, a.head, a.rest())
}

// lost ends the record of a write that happened, and whose answer broke off.
func (r *toolRun) lost(a *toolAnswer) {
	res := cache.Result{State: cache.Completed, Status: a.status}
	frames := r.lostAnswer(a)
	if a.shown {
		frames = []cache.Frame{{Kind: cache.ErrorFrame, Head: frames[0].Head, Data: frames[1].Data}}
	}
	r.record(res, frames[0].Head, frames)
}

// lostAnswer is what is told of such a write.
func (r *toolRun) lostAnswer(a *toolAnswer) []cache.Frame {
	head, body := responseLost(r.c.key, a.status).answer(problemJSON)
	head.Failed, head.Attempts, head.Target = false, r.made, r.t.Name
	return []cache.Frame{{Kind: cache.HeadFrame, Head: head}, {Kind: cache.BodyFrame, Data: body}}
}

// unknown ends the record of a write of which nobody knows whether it happened.
func (r *toolRun) unknown(status int) {
	head, body := outcomeUnknown(r.c.key, status).answer(problemJSON)
	head.Attempts, head.Target = r.made, r.t.Name
	r.record(cache.Result{State: cache.Unknown, Status: status}, head,
		[]cache.Frame{{Kind: cache.HeadFrame, Head: head}, {Kind: cache.BodyFrame, Data: body}})
}

// refuse ends the record of a call of which nothing was sent.
func (r *toolRun) refuse(p *refusal) {
	head, body := p.answer(problemJSON)
	head.Attempts, head.Target = r.made, r.t.Name
	r.record(cache.Result{State: cache.Released}, head, []cache.Frame{{Kind: cache.HeadFrame, Head: head}, {Kind: cache.BodyFrame, Data: body}})
}

// failed ends the record of a call that did not happen, or of a read: with the
// API's own answer, where the last attempt got one.
func (r *toolRun) failed(res policy.Result) {
	res.Attempts = r.made
	a := r.last
	if a != nil && a.status >= 400 && !a.broken {
		final := res.Reason == "" || r.t.write != nil && r.t.judge(a.failure) == refusedIt
		if final { // its own word, and not what our attempts came to
			res.Reason = ""
		}
		a.head.Failed, a.head.Reason = !final, string(res.Reason)
		if !final {
			a.tell(res.ShouldRetry, res.RetryAfter)
		}
		r.record(cache.Result{State: cache.Released}, a.head, a.rest())
		return
	}
	if a != nil && a.shown { // a read that broke off
		r.record(cache.Result{State: cache.Released}, a.head, []cache.Frame{{Kind: cache.ErrorFrame, Head: a.head}})
		return
	}
	var s surface = problemJSON
	head, body := failure(s, res, context.Cause(r.ctx))
	head.Target = r.t.Name
	r.record(cache.Result{State: cache.Released}, head, []cache.Frame{{Kind: cache.HeadFrame, Head: head}, {Kind: cache.BodyFrame, Data: body}})
}
