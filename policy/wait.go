package policy

import (
	"context"
	"errors"
	"math"
	"time"
)

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
