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
	Kind     Kind
	Targets  []*Target   // at least one, in the order they are to be tried
	Deadline time.Time   // the record's own; zero: ctx's alone
	Readers  Readers     // who waits for the answer; nil: somebody does, to the end
	Made     int         // attempts made for the same record before, by an earlier Do: they count
	On       func(Event) // told of each retry and each hold; may be nil
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
	Failure     *Failure      // nil: the last attempt succeeded. Else the most specific failure; nil with Reason set when no attempt was made (TargetHeld: then Status is set)
	Reason      Reason        // why it failed
	Status      int           // TargetHeld: 429 or 503, as the hold was told
	Attempts    int           // how many were made, Call.Made included
	ShouldRetry bool          // what x-should-retry says
	RetryAfter  time.Duration // what is known of when to come back; 0: nothing
	Memo        time.Duration // how long this failure answers repeats of its key; 0: not at all
}

// Event is told while a call runs.
type Event struct {
	Target *Target // the one that failed
	Cause  string  // "429", "503", "timeout", "reset", "unreachable", "bad_answer", ...: a word of Failure.Result
	Retry  bool    // an attempt follows, here or on another target; else a hold was set
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
	r := run{call: c, rand: e.Rand, total: c.Made}
	if r.rand == nil {
		r.rand = rand.Float64
	}
	if reason, ok := r.begin(ctx); !ok {
		return r.result(reason)
	}
	for {
		r.here++
		r.total++
		f := try(ctx, Attempt{Target: r.target(), Index: r.index, Credential: r.pass.credential, N: r.total})
		if f == nil {
			r.pass.end(nil)
			return Result{Attempts: r.total}
		}
		if reason, more := r.follow(ctx, f); !more {
			return r.result(reason)
		}
	}
}

// run is a call on its way.
type run struct {
	call Call
	rand func() float64

	// The attempt that is made, and those before it.
	index       int    // of the target
	pass        pass   // for it
	here, total int    // attempts made: on this target, in all for the record
	lost        int    // attempts whose answer was lost
	targets     uint64 // bits of the targets that were tried; beyond the 64th one may be tried again
	credentials uint64 // likewise of this target's credentials, since the last sleep

	// What the call has come to so far.
	best   *Failure
	reason Reason    // what best is called
	back   time.Time // when to come back, as known from best; zero: unknown
	held   held      // why no attempt was made
}

func (r *run) target() *Target { return r.call.Targets[r.index] }

// most is how many attempts may be made for the record in all.
func (r *run) most() int { return r.call.Targets[0].Config.Or(Defaults()).TotalAttempts }

// begin finds the first target that is free, where an attempt is left. If all are on hold it waits for
// the one that is free first, where that is not too long.
func (r *run) begin(ctx context.Context) (reason Reason, ok bool) {
	if reason = r.over(ctx); reason != "" {
		return reason, false
	}
	if r.total >= r.most() {
		return AttemptsExhausted, false
	}
	if r.admit() {
		return "", true
	}
	for start := time.Now(); ; {
		now := time.Now()
		room := r.left(ctx, now) - lastSecond
		if now.Add(r.held.wait).Sub(start) > holdWait || r.held.wait > room {
			return TargetHeld, false
		}
		if reason = r.sleep(ctx, min(room, r.held.wait+spread(r.held.wait, r.rand()))); reason != "" {
			return reason, false
		}
		if r.admit() {
			return "", true
		}
	}
}

// admit takes the first target that is free and was not tried. If none is,
// held says which will be first.
func (r *run) admit() bool {
	r.held = held{}
	for i, t := range r.call.Targets {
		if r.targets&(1<<i) != 0 {
			continue
		}
		p, is, ok := t.admit(0)
		if ok {
			r.index, r.here, r.credentials = i, 0, 0
			r.targets |= 1 << i
			r.take(p)
			return true
		}
		if r.held.wait == 0 || is.wait < r.held.wait {
			r.held = is
		}
	}
	return false
}

func (r *run) take(p pass) {
	r.pass = p
	r.credentials |= 1 << p.credential
}

// follow finds out what follows a failed attempt, and sleeps as long as it
// takes. more says that another attempt is to be made; r is set for it.
func (r *run) follow(ctx context.Context, f *Failure) (reason Reason, more bool) {
	now := time.Now()
	t := r.target()
	cfg := t.Config.Or(Defaults())
	v := Classify(r.call.Kind, f, r.lost)
	if f.lost() {
		r.lost++
	}
	known := r.hold(f, v, now)
	r.pass.end(f)
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

	told := f.told()
	for ; ; now = time.Now() {
		wait := t.wait(r.pass.credential, told, now)
		s := next(cfg, f, v, outlook{
			here: r.here, total: r.total, most: r.most(),
			rotate:   t.free(r.credentials, now),
			fallback: r.fallback(now),
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
			moved = r.another(r.credentials)
		case fallBack:
			moved = r.admit()
		case again:
			if reason = r.sleep(ctx, s.wait); reason != "" {
				return reason, false
			}
			if r.left(ctx, time.Now()) < lastSecond { // the most patient reader left
				return Deadline, false
			}
			told, known = 0, 0
			r.credentials = 0
			moved = r.another(0)
		}
		if moved {
			r.tell(Event{Target: t, Cause: f.Result(), Retry: true})
			return "", true
		}
		// Another call was faster, or brought news of a hold: decide anew.
	}
}

// another takes a credential of the same target that is free.
func (r *run) another(skip uint64) bool {
	p, _, ok := r.target().admit(skip)
	if ok {
		r.take(p)
	}
	return ok
}

// fallback says whether a target is left that was not tried and is free.
func (r *run) fallback(now time.Time) bool {
	for i, t := range r.call.Targets {
		if r.targets&(1<<i) == 0 && t.free(0, now) {
			return true
		}
	}
	return false
}

// hold sets the holds that follow from a failure. It returns what is known of
// when to come back.
func (r *run) hold(f *Failure, v Verdict, now time.Time) time.Duration {
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
		r.tell(Event{Target: t, Cause: f.Result()})
		return max(told, credentialHold)
	case f.Credential:
		// A 401 is about the key, a 403 may be about this model alone: naming
		// one that the key may not use must not close the others.
		where := &t.Credentials[i].hold
		if f.Status == 403 {
			where = t.hold(i)
		}
		where.put(now.Add(credentialHold), now.Add(credentialHold), 503)
		r.tell(Event{Target: t, Cause: f.Result()})
	case told > 0 && (v.Same || v.Fallback):
		status := 503
		if f.throttled() && f.Status != 529 {
			status = 429
		}
		d := min(told, holdMost)
		t.hold(i).put(now.Add(d), now.Add(told), status)
		r.tell(Event{Target: t, Cause: f.Result()})
	}
	return told
}

func (r *run) tell(e Event) {
	if r.call.On != nil {
		r.call.On(e)
	}
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
	if err != nil && (errors.Is(err, context.DeadlineExceeded) || r.late(time.Now())) {
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

// sleep waits for d. A reason says why it ended before, and is final: who joins
// after that finds a call that has ended. Somebody who joins as the last one
// leaves keeps it going.
func (r *run) sleep(ctx context.Context, d time.Duration) Reason {
	if d <= 0 {
		return r.over(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		var gone <-chan struct{}
		if r.call.Readers != nil {
			gone = r.call.Readers.Gone()
		}
		select {
		case <-timer.C:
			return r.over(ctx)
		case <-gone:
		case <-ctx.Done():
		}
		if reason := r.over(ctx); reason != "" {
			return reason
		}
	}
}
