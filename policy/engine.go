package policy

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// Call is one call to be brought through.
type Call struct {
	Kind      Kind
	Principal string      // whose call it is: where targets are full, turns are shared out between principals
	Targets   []*Target   // at least one, in the order they are to be tried
	Deadline  time.Time   // the record's own; zero: ctx's alone
	Readers   Readers     // who waits for the answer; nil: somebody does, to the end
	Once      bool        // one attempt, whatever comes of it: an earlier one of the same call has just failed
	Made      int         // attempts made for the same record before, by an earlier Do: they count
	On        func(Event) // told of what happens; may be nil
}

// Readers tells of those who wait for a call's answer.
type Readers interface {
	// Left says how long the most patient of them still waits: what a sleep
	// may use up. Negative or zero: nobody does.
	Left() time.Duration
	// Gone is closed once nobody waits any more; it ends a sleep.
	Gone() <-chan struct{}
}

// Attempt is one attempt that Do asks for.
type Attempt struct {
	Target     *Target
	Index      int // of Target in Call.Targets
	Credential int // index into the target's credentials
	N          int // counted over the whole call, from Call.Made+1
}

// Result is how a call came out.
type Result struct {
	Failure     *Failure      // nil: the last attempt succeeded. Else the most specific failure; nil with Reason set when no attempt was made (TargetHeld, CircuitOpen: then Status is set)
	Reason      Reason        // why it failed
	Status      int           // of a call that was not made: 503, or 429 where that is what the upstream said
	Attempts    int           // how many were made, Call.Made included
	ShouldRetry bool          // what x-should-retry says
	RetryAfter  time.Duration // what is known of when to come back; 0: nothing
	Memo        time.Duration // how long this failure answers repeats of its key; 0: not at all
}

// Do brings a call through: it asks try for attempts, one after the other,
// and sleeps between them as the policy says, until one succeeds or no
// further one is worth making.
//
// try returns nil on success. ctx is the record's; when it ends no attempt
// follows.
//
// Of several failures the result has the most specific: an upstream's own
// error status first, then a refused credential's, then an error or garbage
// inside a 200, then an answer that broke off, then a request whose answer
// never came, then an upstream that was not reached; of equals the last.
func (e *Engine) Do(ctx context.Context, c Call, try func(context.Context, Attempt) *Failure) Result {
	r := run{call: c, rand: e.Rand, clock: e.Clock, total: c.Made}
	if r.rand == nil {
		r.rand = rand.Float64
	}
	if r.clock == nil {
		r.clock = wallClock{}
	}
	if reason, ok := r.begin(ctx); !ok {
		return r.result(reason)
	}
	for {
		r.here++
		r.total++
		f := r.try(ctx, try, Attempt{Target: r.target(), Index: r.index, Credential: r.pass.credential, N: r.total})
		if f == nil {
			r.pass.end(nil, r.clock.Now(), r.rand, &r.news)
			r.publish(r.target(), nil)
			return Result{Attempts: r.total}
		}
		if reason, more := r.follow(ctx, f); !more {
			return r.result(reason)
		}
	}
}

// try makes the attempt. One that panics leaves its target as if it had not
// been made: what it held would else be missing for good.
func (r *run) try(ctx context.Context, try func(context.Context, Attempt) *Failure, a Attempt) *Failure {
	back := false
	defer func() {
		if !back {
			r.pass.unhold(false)
			r.pass.undo()
		}
	}()
	f := try(ctx, a)
	back = true
	return f
}

// run is a call on its way.
type run struct {
	call  Call
	rand  func() float64
	clock Clock
	news  news

	// The attempt that is made, and those before it.
	index       int    // of the target
	pass        pass   // for it; of no meaning while there is none
	here, total int    // attempts made: on this target, in all for the record
	lost        int    // attempts whose answer was lost
	freed       bool   // the one retry that costs no budget was made
	window      int    // in tokens: the input is too long for it
	targets     uint64 // bits of the targets that were tried; beyond the 64th one may be tried again
	credentials uint64 // likewise of this target's credentials, since the last sleep

	// What the call has come to so far.
	best   *Failure
	reason Reason    // what best is called
	back   time.Time // when to come back, as known from best; zero: unknown
	held   held      // why no attempt was made: the target that is free first
	hold   held      // likewise, of those on hold
}

func (r *run) target() *Target { return r.call.Targets[r.index] }

// most is how many attempts may be made for the record in all.
func (r *run) most(now time.Time) int {
	if r.call.Once {
		return r.call.Made + 1
	}
	return r.call.Targets[0].gate(now).cfg.TotalAttempts
}

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

// left is how long a sleep may use up: to the earlier of the record's
// deadline and that of the most patient reader.
func (r *run) left(ctx context.Context, now time.Time) time.Duration {
	left := time.Duration(math.MaxInt64)
	if !r.call.Deadline.IsZero() {
		left = r.call.Deadline.Sub(now)
	}
	if end, ok := ctx.Deadline(); ok {
		left = min(left, end.Sub(now))
	}
	if r.call.Readers != nil {
		left = min(left, r.call.Readers.Left())
	}
	return left
}

// late says that the record's own deadline has passed.
func (r *run) late(now time.Time) bool {
	return !r.call.Deadline.IsZero() && !now.Before(r.call.Deadline)
}

// over says why no further attempt may be made: the record's deadline passed,
// or nobody waits any more; "" while one may.
func (r *run) over(ctx context.Context) Reason {
	err := ctx.Err()
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || r.late(r.clock.Now())) {
		return Deadline
	}
	if r.call.Readers != nil && r.call.Readers.Left() <= 0 { // else somebody waits
		select {
		case <-r.call.Readers.Gone():
			return ClientGone
		default:
		}
	}
	if err != nil {
		return Deadline
	}
	return ""
}

// sleep waits for d, or until woken is closed. A reason says why it ended
// before, and is final: who joins after that finds a call that has ended.
// Somebody who joins as the last one leaves keeps it going.
func (r *run) sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) Reason {
	if d <= 0 {
		return r.over(ctx)
	}
	for end := r.clock.Now().Add(d); ; {
		var gone <-chan struct{}
		if r.call.Readers != nil {
			gone = r.call.Readers.Gone()
		}
		r.clock.Wait(ctx, d, gone, woken)
		if reason := r.over(ctx); reason != "" {
			return reason
		}
		select {
		case <-woken:
			return ""
		default:
		}
		if d = end.Sub(r.clock.Now()); d <= 0 {
			return ""
		}
	}
}
