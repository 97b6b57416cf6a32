package policy

import "time"

// lastSecond is what must be left for a retry to start.
const lastSecond = time.Second

// sameTargetAgain is the ceiling up to which a target is tried once more
// although there is a fallback, and patience the longest Retry-After for
// which it is.
const (
	sameTargetAgain = time.Second
	patience        = 5 * time.Second
)

// move is what a call does next.
type move uint8

const (
	stop     move = iota
	again         // the same target, after a wait
	rotate        // another credential of the same target, at once
	fallBack      // another target, at once
)

// outlook is where a call stands after a failed attempt.
type outlook struct {
	here, total int           // attempts made, on the target and in all
	most        int           // attempts allowed in all
	rotate      bool          // another credential of the target is free
	fallback    bool          // another target is free
	refused     Reason        // why the target takes no further attempt of this call now: circuit_open, budget_exhausted; "": it does
	wait        time.Duration // until the target may be called again, as told; 0: nothing was told
	left        time.Duration // until the deadline
}

// step is a decision.
type step struct {
	move   move
	wait   time.Duration
	below  time.Duration // what wait was drawn below
	reason Reason        // what the failure is called if the call ends with it
}

// next decides what follows a failed attempt. rnd draws from [0, 1).
func next(cfg Config, f *Failure, v Verdict, o outlook, rnd func() float64) step {
	s := step{reason: v.Reason}
	spent := o.here >= cfg.Attempts
	switch {
	case o.total >= o.most:
		return s
	case v.Another && o.rotate && !spent && o.refused == "":
		s.move = rotate
	case v.Fallback && o.fallback && (spent || !v.Same || v.AtOnce || o.refused != "" || o.wait > patience ||
		o.here > 1 || cfg.Backoff.Ceiling(o.here, f.throttled()) > sameTargetAgain):
		s.move = fallBack
	case v.Same && !spent:
		s = sleep(cfg, f, v, o, rnd)
		switch {
		case s.move == stop && v.Fallback && o.fallback:
			s.move = fallBack
		case s.move != stop && o.refused != "":
			s.move, s.reason = stop, o.refused
		}
	case v.Another && o.rotate && !spent:
		s.reason = o.refused
	}
	if s.move != stop && o.left < lastSecond {
		s.move, s.reason = stop, Deadline
	}
	return s
}

// sleep decides how long to wait before the same target is tried again, or
// that it is not worth it.
func sleep(cfg Config, f *Failure, v Verdict, o outlook, rnd func() float64) step {
	room := o.left - lastSecond
	below := cfg.Backoff.Ceiling(o.here, f.throttled())
	delay := cfg.Backoff.Delay(o.here, f.throttled(), rnd())
	switch {
	case o.wait > cfg.RetryAfterCap:
		return step{reason: RetryAfterExceedsCap}
	case o.wait > 0 && o.wait > room:
		return step{reason: RetryAfterExceedsDeadline}
	case o.wait > 0:
		// Never early; of the spread, what fits.
		delay = min(room, max(o.wait, delay)+spread(o.wait, rnd()))
		below = min(room, max(o.wait, below)+spreadBelow(o.wait))
	case delay > room:
		return step{reason: Deadline}
	}
	return step{move: again, wait: delay, below: below, reason: v.Reason}
}
