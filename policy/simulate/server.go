package simulate

import "time"

// The upstream of the outages has one queue, first come first served, and
// serves a fifth more calls than come. What its caller no longer waits for it
// serves all the same. So a queue that takes longer than callers wait does not
// go away by itself: retries need only take up the spare fifth.
const (
	serviceTime  = time.Second / 1200    // its capacity
	queueMost    = 6000 * serviceTime    // beyond it 503
	fullAfter    = 5 * time.Millisecond  // that one comes so soon
	refusedAfter = 20 * time.Millisecond // a 503 of an outage
	latency      = 20 * time.Millisecond // of an answer, beside the queue
)

// outage is a time in which the upstream serves nobody.
type outage struct {
	from, to time.Duration
	stall    bool // calls queue up; else they get 503
}

// server is the upstream.
type server struct {
	outage outage
	free   time.Duration // when it will have served all that it took
}

// take takes a call, and says when that is answered and whether by a 503.
func (s *server) take(at time.Duration) (takes time.Duration, refused bool) {
	o := s.outage
	if !o.stall && o.from <= at && at < o.to {
		return refusedAfter, true
	}
	begin := max(s.free, at)
	if o.stall && o.from <= begin && begin < o.to {
		begin = o.to
	}
	queue := begin - at
	if o.stall { // in an outage nobody moves up
		queue -= max(0, min(begin, o.to)-max(at, o.from))
	}
	if queue >= queueMost {
		return fullAfter, true
	}
	s.free = begin + serviceTime
	return s.free + latency - at, false
}
