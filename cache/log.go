package cache

import (
	"context"
	"sync"
	"time"
)

// Log is a record's log in this process: one leader appends, any number of
// readers follow from the beginning, each at its own pace.
//
// Up to window bytes a slow reader holds back nobody. A log that grew beyond
// it can be neither kept nor joined any more: it holds the window only, and
// its slowest reader paces the leader.
type Log struct {
	window int64

	mu      sync.Mutex
	onIdle  func() // called, without the lock, when the last reader has left
	frames  []Frame
	fate    *Head     // how the answer came out: its head, or of an error told inside it
	whole   bool      // it ended as an answer that others may be given
	bill    *Bill     // what it cost, once it is known
	unkept  bool      // the store could not be told of the end
	endedBy time.Time // of a copy: see Result.Ended
	lost    bool      // its leader, on another node, was lost before the end
	first   int       // index of frames[0]: those before it were dropped
	held    int64     // size of frames
	opened  *Head     // the upstream has answered 200 and nothing was appended yet
	over    bool      // grew beyond the window
	closed  bool      // abandoned: takes no readers, though it may still run
	ended   bool
	done    chan struct{} // closed at the end; made on demand
	readers []*Reader
	idle    time.Time     // since when nobody reads; zero while somebody does
	gone    chan struct{} // closed when the last reader leaves; made on demand
	room    chan struct{} // told when the slowest reader moved on, or left
}

// NewLog makes an empty log. window is in bytes.
func NewLog(window int64) *Log {
	return &Log{window: window}
}

// OnIdle has f called each time the last reader leaves a log that has not
// ended; at once if nobody reads it now.
func (l *Log) OnIdle(f func()) {
	l.mu.Lock()
	l.onIdle = f
	idle := len(l.readers) == 0 && !l.ended
	l.mu.Unlock()
	if idle {
		f()
	}
}

// Fate is what the answer came to: its head, or that of the error that ended
// it; and whether it is whole. It is final once the log is Done.
func (l *Log) Fate() (head *Head, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fate, l.whole
}

// Bill is what the answer cost; nil if nothing is known of that. It is final
// once the log is Done.
func (l *Log) Bill() *Bill {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bill
}

// note remembers the heads, whose frames may be dropped while the answer goes
// on, and the bill.
func (l *Log) note(frames []Frame) {
	for i := range frames {
		if f := &frames[i]; f.Head != nil {
			l.fate = f.Head
		} else if f.Bill != nil {
			l.bill = f.Bill
		}
	}
}

// mark says, before the end, what it is.
func (l *Log) mark(whole, recorded bool) {
	l.mu.Lock()
	l.whole, l.unkept = whole, !recorded
	l.mu.Unlock()
}

// endAt says, before the end of a copy, when that was by the store's clock.
func (l *Log) endAt(t time.Time) {
	l.mu.Lock()
	l.endedBy = t
	l.mu.Unlock()
}

func (l *Log) endedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endedBy
}

// lose ends a copy of a log whose leader was lost.
func (l *Log) lose() {
	l.mu.Lock()
	l.lost = true
	l.mu.Unlock()
	l.End()
}

// Lost says that the log has ended because its leader, on another node, was
// lost: who was shown nothing of it may claim anew.
func (l *Log) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// Unrecorded says that the log has ended and the store could not be told.
func (l *Log) Unrecorded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unkept
}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// SettledLog is the log of a result: already at its end.
func SettledLog(r *Result) *Log {
	l := &Log{frames: r.Frames, ended: true, window: 1 << 62, whole: r.State == Completed}
	l.note(r.Frames)
	return l
}

// Open says that an answer has begun with this head, though nothing of it may
// be shown yet: readers of a stream may send its status, and comments.
func (l *Log) Open(h *Head) {
	l.mu.Lock()
	l.opened = h
	l.wake()
	l.mu.Unlock()
}

// Opened says that Open was called.
func (l *Log) Opened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened != nil
}

// Append adds frames. Beyond the window it waits for the slowest reader; an
// error is ctx's cause, and then nothing was added.
func (l *Log) Append(ctx context.Context, frames ...Frame) error {
	n := size(frames)
	l.mu.Lock()
	for l.held+n > l.window && l.held > 0 {
		l.over = true
		l.trim()
		if l.held+n <= l.window || l.held == 0 {
			break
		}
		if l.room == nil {
			l.room = make(chan struct{}, 1)
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		l.mu.Lock()
	}
	if n > l.window {
		l.over = true
	}
	if l.frames == nil {
		l.frames = make([]Frame, 0, max(2, len(frames)))
	}
	l.note(frames)
	l.frames = append(l.frames, frames...)
	l.held += n
	l.wake()
	l.mu.Unlock()
	return nil
}

// full says that Append would have to wait now, or almost.
func (l *Log) full(frames []Frame) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held+size(frames) > l.window && l.held > 0
}

// trim drops the frames that every reader has taken.
func (l *Log) trim() {
	slowest := l.first + len(l.frames)
	for _, r := range l.readers {
		slowest = min(slowest, r.next)
	}
	if drop := slowest - l.first; drop > 0 {
		for i := range drop {
			l.held -= l.frames[i].size()
			l.frames[i] = Frame{}
		}
		l.frames = l.frames[drop:]
		l.first = slowest
	}
}

// End closes the log. Frames given with it are its last; the slice is the
// log's from then on.
func (l *Log) End(frames ...Frame) {
	l.mu.Lock()
	l.note(frames)
	if l.frames == nil {
		l.frames = frames
	} else {
		l.frames = append(l.frames, frames...)
	}
	l.ended = true
	l.wake()
	if l.done != nil {
		close(l.done)
	}
	l.mu.Unlock()
}

// Done is closed when the log has ended.
func (l *Log) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return closedChan
	}
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

func (l *Log) wake() {
	for _, r := range l.readers {
		r.tell()
	}
}

// Whole gives all frames, unless the log grew beyond its window.
func (l *Log) Whole() ([]Frame, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frames, !l.over && l.first == 0
}

// Readers says how many read now.
func (l *Log) Readers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.readers)
}

// IdleFor says for how long nobody has been reading; 0 while somebody does.
func (l *Log) IdleFor() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle.IsZero() {
		return 0
	}
	return time.Since(l.idle)
}

// Abandon closes the log to new readers if nobody reads it, and says whether
// it did. A claim that meets an abandoned log waits for its end.
func (l *Log) Abandon() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.readers) > 0 {
		return false
	}
	l.closed = true
	return true
}

// abandoned says that the log takes no readers though it is of a good size.
func (l *Log) abandoned() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Left says how long the most patient reader still waits, zero without one.
func (l *Log) Left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left time.Duration
	for _, r := range l.readers {
		if r.until.IsZero() {
			return 1 << 62
		}
		left = max(left, time.Until(r.until))
	}
	return left
}

// Gone is closed once nobody reads any more.
func (l *Log) Gone() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.readers) == 0 {
		return closedChan
	}
	if l.gone == nil {
		l.gone = make(chan struct{})
	}
	return l.gone
}
