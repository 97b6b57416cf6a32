package policy

import (
	"context"
	"time"
)

// begin finds the first target that is free, where an attempt is left. If none
// is, it waits for the first hold to end, where that is not too long.
func (r *run) begin(ctx context.Context) (reason Reason, ok bool) {
	start := r.clock.Now()
	if reason = r.over(ctx); reason != "" {
		return reason, false
	}
	if r.total >= r.most(start) {
		return AttemptsExhausted, false
	}
	for now := start; ; now = r.clock.Now() {
		if ok, reason := r.admit(ctx, now); ok || reason != "" {
			return reason, ok
		}
		room := r.left(ctx, now) - lastSecond
		if r.hold.wait == 0 || now.Add(r.hold.wait).Sub(start) > holdWait || r.hold.wait > room {
			return r.held.reason, false
		}
		if reason = r.sleep(ctx, min(room, r.hold.wait+spread(r.hold.wait, r.rand())), nil); reason != "" {
			return reason, false
		}
	}
}

// admit takes the first target that is free and was not tried. If none is,
// held and hold say which will be first. A reason ends the call.
func (r *run) admit(ctx context.Context, now time.Time) (ok bool, reason Reason) {
	r.held, r.hold = held{}, held{}
	for i, t := range r.call.Targets {
		if !r.may(i) {
			continue
		}
		is, reason := r.enter(ctx, t, now, 0, original, nil)
		switch {
		case reason != "":
			return false, reason
		case is.wait == 0:
			r.index, r.here = i, 0
			r.targets |= 1 << i
			r.credentials = 1 << r.pass.credential
			return true, ""
		}
		if r.held.wait == 0 || is.wait < r.held.wait {
			r.held = is
		}
		if is.reason == TargetHeld && (r.hold.wait == 0 || is.wait < r.hold.wait) {
			r.hold = is
		}
	}
	return false, ""
}

// enter lets an attempt go to t, which may have to wait first, for the
// upstream's rate limits or for its turn, or says why not. A reason ends the call. f is the failure before it, if there was
// one.
func (r *run) enter(ctx context.Context, t *Target, now time.Time, skip uint64, pay payment, f *Failure) (is held, reason Reason) {
	wait, avoid := t.pace(now, skip, r.rand)
	if wait > 0 {
		if reason = r.sleep(ctx, min(wait, r.left(ctx, now)-lastSecond), nil); reason != "" {
			return held{}, reason
		}
		now = r.clock.Now()
	}
	skip |= avoid
	is = t.admit(now, r.call.Principal, skip, pay, nil, &r.pass, &r.news)
	r.publish(t, f)
	if is.reason != Overloaded {
		return is, ""
	}
	g := t.gate(now)
	wait = min(queueWait, r.left(ctx, now)/10)
	if wait <= 0 {
		return is, ""
	}
	w := g.join(r.call.Principal)
	if w == nil {
		return is, ""
	}
	reason = r.sleep(ctx, wait, w.turn)
	switch turn := g.abandon(w); {
	case turn && reason != "":
		g.free(w)
	case turn:
		is = t.admit(r.clock.Now(), r.call.Principal, skip, pay, w, &r.pass, &r.news)
		r.publish(t, f)
	}
	return is, reason
}

// may says that the i-th target was not tried, and is none for which the
// input is known, or likely, to be too long.
func (r *run) may(i int) bool {
	return r.targets&(1<<i) == 0 && (r.window == 0 || r.call.Targets[i].Context > r.window)
}
