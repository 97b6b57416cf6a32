package policy

import (
	"context"
	"time"
)

// Clock is the time that an Engine goes by. A simulation supplies its own, so
// that it drives the code that serves.
type Clock interface {
	Now() time.Time
	// Wait returns once d has passed, or sooner when ctx ends or one of the
	// channels is closed. Either of them may be nil.
	Wait(ctx context.Context, d time.Duration, gone, woken <-chan struct{})
}

// wallClock is the time of this machine, or of a test's bubble.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func (wallClock) Wait(ctx context.Context, d time.Duration, gone, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	case <-woken:
	case <-ctx.Done():
	}
}
