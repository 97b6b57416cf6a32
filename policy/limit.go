package policy

import "time"

const (
	limitStep = time.Second     // the limit moves each way at most once in this time
	limitDown = 0.9             // by this factor
	limitUp   = 1.1             // or this one
	queueWait = 5 * time.Second // the longest that an attempt waits for its turn
)

// limit bounds the attempts that are under way on a target. It gives way when
// the upstream says that it is asked too much, and comes back slowly. It
// starts open: calls last from seconds to minutes, and a limit that had to
// find its size from below would starve them for hours. It is pure: its caller
// holds the gate's lock and tells the time, as since any fixed moment.
type limit struct {
	size     float64 // 0: as configured, nothing has come yet
	inflight int
	lowered  time.Duration // when it gave way last
	raised   time.Duration // when it moved last
	bites    bool          // it was told that it holds somebody back
	queue    []*waiter     // whose turn has not come, the first one first
}

// waiter waits for its turn.
type waiter struct {
	turn  chan struct{} // closed when it has come
	given bool
}

// most is how many attempts may be under way.
func (l *limit) most(c Concurrency) int {
	if l.size == 0 {
		l.size, l.lowered, l.raised = float64(min(c.Start, c.Max)), -limitStep, -limitStep
	}
	return int(l.size)
}

// enter takes a place, if there is one that nobody waits for.
func (l *limit) enter(c Concurrency, at time.Duration) bool {
	if l.inflight >= l.most(c) || len(l.queue) > 0 {
		return false
	}
	l.inflight++
	l.raise(c, at)
	return true
}

// raise lets the limit come back while at least half of it is used: of what is
// not used nobody knows whether the upstream would bear it.
func (l *limit) raise(c Concurrency, at time.Duration) {
	if l.size < float64(c.Max) && 2*l.inflight >= int(l.size) && at-l.raised >= limitStep {
		l.size, l.raised = min(float64(c.Max), l.size*limitUp), at
	}
}

// leave gives a place back. congested says that the upstream was asked more
// than it bears.
func (l *limit) leave(c Concurrency, congested bool, at time.Duration) {
	if !congested {
		l.raise(c, at)
	} else if at-l.lowered >= limitStep {
		l.size, l.lowered, l.raised = max(float64(min(c.Min, c.Max)), l.size*limitDown), at, at
	}
	l.free(c)
}

// free gives a place back, to those who wait.
func (l *limit) free(c Concurrency) {
	l.inflight--
	for len(l.queue) > 0 && l.inflight < l.most(c) {
		w := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.inflight++
		w.given = true
		close(w.turn)
	}
}

// join waits in the queue, which is as long as the limit; nil: it is full.
func (l *limit) join(c Concurrency) *waiter {
	if len(l.queue) >= l.most(c) {
		return nil
	}
	w := &waiter{turn: make(chan struct{})}
	l.queue = append(l.queue, w)
	return w
}

// abandon ends a wait. It says whether the turn had come all the same: then
// the place is the waiter's.
func (l *limit) abandon(w *waiter) bool {
	if w.given {
		return true
	}
	for i, o := range l.queue {
		if o == w {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			break
		}
	}
	return false
}

// congested says that the upstream was asked more than it bears, or may have
// been. A spent quota is about money.
func (f *Failure) congested() bool {
	switch {
	case f == nil, f.Cancelled, f.Quota:
		return false
	case f.Timeout, f.Throttle:
		return true
	}
	switch f.status() {
	case 429, 503, 529:
		return true
	}
	return false
}
