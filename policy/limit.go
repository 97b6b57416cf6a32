package policy

import (
	"slices"
	"time"
)

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
	waiting  int

	// What each principal has. lines are those who have something under way,
	// or wait, and some who had; queued those who wait, in the order in which
	// their first one came.
	lines  map[string]*line
	queued []*line
}

// line is a principal at a target: what it has under way, and what waits for
// its turn, the first one first.
type line struct {
	principal string
	inflight  int
	queue     []*waiter
}

// waiter waits for its turn.
type waiter struct {
	line  *line
	turn  chan struct{} // closed when it has come, or never will
	given bool
}

// idleLines is how many lines of those who have nothing under way are kept, so
// that the next call of the same principal makes none.
const idleLines = 64

// of gives a principal's line.
func (l *limit) of(principal string) *line {
	n := l.lines[principal]
	if n != nil {
		return n
	}
	if len(l.lines) >= l.inflight+l.waiting+idleLines {
		for name, n := range l.lines {
			if n.inflight == 0 && len(n.queue) == 0 {
				delete(l.lines, name)
			}
		}
	}
	if l.lines == nil {
		l.lines = map[string]*line{}
	}
	n = &line{principal: principal}
	l.lines[principal] = n
	return n
}

// most is how many attempts may be under way.
func (l *limit) most(c Concurrency) int {
	if l.size == 0 {
		l.size, l.lowered, l.raised = float64(min(c.Start, c.Max)), -limitStep, -limitStep
	}
	return int(l.size)
}

// enter takes a place, if there is one that nobody waits for; nil: there is
// none. The line is given to leave.
func (l *limit) enter(c Concurrency, principal string, at time.Duration) *line {
	if l.inflight >= l.most(c) || l.waiting > 0 {
		return nil
	}
	n := l.of(principal)
	l.inflight++
	n.inflight++
	l.raise(c, at)
	return n
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
func (l *limit) leave(c Concurrency, n *line, congested bool, at time.Duration) {
	if !congested {
		l.raise(c, at)
	} else if at-l.lowered >= limitStep {
		l.size, l.lowered, l.raised = max(float64(min(c.Min, c.Max)), l.size*limitDown), at, at
	}
	l.free(c, n)
}

// free gives a place back, to those who wait: to whoever has least under way,
// of equals to who came first. So nobody gets more than half of the limit
// while others wait, nor more than a third while two others do.
func (l *limit) free(c Concurrency, n *line) {
	l.inflight--
	n.inflight--
	for l.waiting > 0 && l.inflight < l.most(c) {
		least := 0
		for i, n := range l.queued {
			if n.inflight < l.queued[least].inflight {
				least = i
			}
		}
		n := l.queued[least]
		w := n.queue[0]
		l.remove(n, 0)
		if len(n.queue) > 0 { // behind its equals
			l.queued = append(slices.Delete(l.queued, least, least+1), n)
		}
		l.inflight++
		n.inflight++
		w.given = true
		close(w.turn)
	}
}

// join waits in the queue, which is as long as the limit; nil: it is full. Who
// has fewer in it than another one takes the place of that one's last.
func (l *limit) join(c Concurrency, principal string) *waiter {
	n := l.of(principal)
	if l.waiting >= l.most(c) && !l.evict(n) {
		return nil
	}
	w := &waiter{line: n, turn: make(chan struct{})}
	if n.queue = append(n.queue, w); len(n.queue) == 1 {
		l.queued = append(l.queued, n)
	}
	l.waiting++
	return w
}

// evict sends away the last of the longest line, if that is longer than n
// would be.
func (l *limit) evict(n *line) bool {
	longest := n
	for _, o := range l.queued {
		if len(o.queue) > len(longest.queue) {
			longest = o
		}
	}
	last := len(longest.queue) - 1
	if last <= len(n.queue) {
		return false
	}
	close(longest.queue[last].turn)
	l.remove(longest, last)
	return true
}

// abandon ends a wait. It says whether the turn had come all the same: then
// the place is the waiter's.
func (l *limit) abandon(w *waiter) bool {
	if i := slices.Index(w.line.queue, w); i >= 0 {
		l.remove(w.line, i)
	}
	return w.given
}

// remove takes the i-th of a line out of the queue.
func (l *limit) remove(n *line, i int) {
	l.waiting--
	if n.queue = slices.Delete(n.queue, i, i+1); len(n.queue) == 0 {
		l.queued = slices.DeleteFunc(l.queued, func(o *line) bool { return o == n })
	}
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
