package cache

import "time"

// Reader reads a log from its start. One goroutine uses it.
type Reader struct {
	log   *Log
	woken chan struct{}
	until time.Time // when it stops waiting for the first frame; zero: never
	next  int       // index of the next frame to take; guarded by log.mu
	left  bool
}

// Join adds a reader that waits until the given time (zero: for ever) for its
// first frame. It is refused on a log that grew beyond its window or was
// abandoned.
func (l *Log) Join(until time.Time) (*Reader, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.first > 0 || l.closed {
		return nil, false
	}
	r := &Reader{log: l, until: until, woken: make(chan struct{}, 1)}
	l.idle = time.Time{}
	l.readers = append(l.readers, r)
	return r, true
}

func (r *Reader) tell() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// Begun says that the reader's client has its status line, by other means than
// a frame, and waits for the rest without a limit.
func (r *Reader) Begun() {
	r.log.mu.Lock()
	r.until = time.Time{}
	r.log.mu.Unlock()
}

// Woken receives when there may be something new to take since Take was last
// called: call that first.
func (r *Reader) Woken() <-chan struct{} { return r.woken }

// Take appends the frames that came since the last call to dst. ended: the
// log is over with them. opened is the head of an answer that has begun but
// shows nothing yet.
func (r *Reader) Take(dst []Frame) (frames []Frame, opened *Head, ended bool) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.next < l.first+len(l.frames) {
		if fresh := l.frames[r.next-l.first:]; l.ended && len(dst) == 0 {
			dst = fresh[:len(fresh):len(fresh)] // they change no more
		} else {
			dst = append(dst, fresh...)
		}
		r.next = l.first + len(l.frames)
		r.until = time.Time{}
		l.tellRoom()
	}
	return dst, l.opened, l.ended
}

func (l *Log) tellRoom() {
	if l.room != nil {
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
}

// Leave ends the reading. It may be called more than once.
func (r *Reader) Leave() {
	l := r.log
	l.mu.Lock()
	if r.left {
		l.mu.Unlock()
		return
	}
	r.left = true
	for i, other := range l.readers {
		if other == r {
			last := len(l.readers) - 1
			l.readers[i], l.readers[last] = l.readers[last], nil
			l.readers = l.readers[:last]
			break
		}
	}
	l.tellRoom()
	var idle func()
	if len(l.readers) == 0 {
		l.idle = time.Now()
		if l.gone != nil {
			close(l.gone)
			l.gone = nil
		}
		if !l.ended {
			idle = l.onIdle
		}
	}
	l.mu.Unlock()
	if idle != nil {
		idle()
	}
}
