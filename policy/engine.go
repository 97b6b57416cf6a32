package policy

import (
	"context"
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
