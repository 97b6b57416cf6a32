package policy

import (
	"context"
	"time"
)

// follow finds out what follows a failed attempt, and sleeps as long as it
// takes. more says that another attempt is to be made; r is set for it.
func (r *run) follow(ctx context.Context, f *Failure) (reason Reason, more bool) {
	now := r.clock.Now()
	t := r.target()
	g := t.gate(now)
	v := Classify(r.call.Kind, f, r.lost)
	if f.lost() {
		r.lost++
	}
	if v.Larger {
		r.window = max(r.window, t.Context)
		v.Fallback = t.Context > 0 // else nobody knows which one is larger
	}
	known := r.putHold(f, v, now)
	r.pass.end(f, now, r.rand, &r.news)
	r.publish(t, f)
	if f.Cancelled {
		switch reason = r.over(ctx); {
		case reason != "":
		case r.late(now):
			reason = Deadline
		default: // the one other reason to cancel an attempt
			reason = ClientGone
		}
		r.keep(f, reason, 0, now)
		return reason, false
	}

	pay := r.payment(f)
	told := f.told()
	credential := r.pass.credential
	var refused Reason // by the gate, when an attempt was to be made
	full := false      // no other target took it
	for ; ; now = r.clock.Now() {
		wait := t.wait(credential, told, now)
		if refused == "" {
			refused = g.look(now, pay, &r.news).reason
			r.publish(t, f)
		}
		s := next(g.cfg, f, v, outlook{
			here: r.here, total: r.total, most: r.most(now),
			rotate:   t.free(r.credentials, now),
			fallback: !full && r.fallback(now),
			refused:  refused,
			wait:     wait,
			left:     r.left(ctx, now),
		}, r.rand)
		if s.reason == RetryAfterExceedsCap || s.reason == RetryAfterExceedsDeadline {
			known = max(known, wait) // another call may have been told more
		}
		r.keep(f, s.reason, known, now)
		if s.move != stop || s.reason == Deadline || s.reason == RetryAfterExceedsDeadline {
			if reason := r.over(ctx); reason != "" {
				return reason, false
			}
		}
		moved := false
		switch s.move {
		case stop:
			return s.reason, false
		case rotate:
			moved, refused, reason = r.another(ctx, r.credentials, pay, f)
		case fallBack:
			moved, reason = r.admit(ctx, now)
			full = !moved
		case again:
			if reason = r.sleep(ctx, s.wait, nil); reason != "" {
				return reason, false
			}
			if r.left(ctx, r.clock.Now()) < lastSecond { // the most patient reader left
				return Deadline, false
			}
			told, known, full = 0, 0, false
			r.credentials = 0
			moved, refused, reason = r.another(ctx, 0, pay, f)
		}
		if reason != "" {
			return reason, false
		}
		if moved {
			r.tell(Event{Kind: Retried, Target: t, Cause: f.Result(), Of: s.below})
			return "", true
		}
		// Another call was faster, or brought news of a hold: decide anew.
	}
}

// payment says what a further attempt on the target counts as, after f.
func (r *run) payment(f *Failure) payment {
	if f.Phase == NotSent && !r.freed {
		return free
	}
	return retry
}

// another takes a credential of the same target that is free. refused says
// that the target itself takes no attempt: its breaker opened meanwhile, others
// used up its budget, or too many wait. A reason ends the call.
func (r *run) another(ctx context.Context, skip uint64, pay payment, f *Failure) (ok bool, refused, reason Reason) {
	is, reason := r.enter(ctx, r.target(), r.clock.Now(), skip, pay, f)
	switch {
	case reason != "":
		return false, "", reason
	case is.wait == 0:
		r.freed = r.freed || pay == free
		r.credentials |= 1 << r.pass.credential
		return true, "", ""
	case is.reason != TargetHeld:
		refused = is.reason
	}
	return false, refused, ""
}

// fallback says whether a target is left that was not tried and is free.
func (r *run) fallback(now time.Time) bool {
	for i, t := range r.call.Targets {
		if r.may(i) && t.free(0, now) && t.gate(now).look(now, original, &r.news).wait == 0 {
			return true
		}
	}
	return false
}

// putHold sets the holds that follow from a failure. It returns what is known of
// when to come back.
func (r *run) putHold(f *Failure, v Verdict, now time.Time) time.Duration {
	t, i := r.target(), r.pass.credential
	told := f.told()
	if v.Another {
		t.rotate(i)
	}
	switch {
	case f.Committed || f.Cancelled:
		return 0
	case f.Quota:
		t.Credentials[i].hold.put(now.Add(credentialHold), now.Add(max(told, credentialHold)), 429)
		r.tell(Event{Kind: Held, Target: t, Cause: f.Result(), For: credentialHold})
		return max(told, credentialHold)
	case f.Credential:
		// A 401 is about the key, a 403 may be about this model alone: naming
		// one that the key may not use must not close the others.
		where := &t.Credentials[i].hold
		if f.Status == 403 {
			where = t.hold(i)
		}
		where.put(now.Add(credentialHold), now.Add(credentialHold), 503)
		r.tell(Event{Kind: Held, Target: t, Cause: f.Result(), For: credentialHold})
	case told > 0 && (v.Same || v.Fallback):
		status := 503
		if f.throttled() && f.Status != 529 {
			status = 429
		}
		d := min(told, holdMost)
		t.hold(i).put(now.Add(d), now.Add(told), status)
		r.tell(Event{Kind: Held, Target: t, Cause: f.Result(), For: d})
	}
	return told
}

// keep remembers f if it is no less specific than what came before it. known
// is what is known at now of when to come back.
func (r *run) keep(f *Failure, reason Reason, known time.Duration, now time.Time) {
	if r.best != nil && f.specific() < r.best.specific() {
		return
	}
	r.best, r.reason, r.back = f, reason, time.Time{}
	if known > 0 {
		r.back = now.Add(known)
	}
}
