package providers

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// An attempt's own limits, as the causes of its context's end.
var (
	errFirstByte = errors.New("no byte of the answer came in time")
	errIdle      = errors.New("the answer stopped coming")
)

// watch ends an attempt that waits too long for bytes. One timer serves the
// whole attempt: a read only notes when it began to wait, and the timer looks
// there when it fires. A pause of whoever reads the answer is no wait.
type watch struct {
	start time.Time

	waiting atomic.Int64 // since when, in ns after start, 1 or more; 0: nobody waits

	mu    sync.Mutex // guards the below
	timer *time.Timer
	limit time.Duration
	cause error
	done  bool
	over  error       // why the attempt ended before its answer did
	link  *connection // in use: closed when the attempt ends
	abort func()      // ends what the attempt waits for without one; may be nil
}

// cancel ends the attempt: the first cause counts.
func (w *watch) cancel(why error) {
	w.mu.Lock()
	link, abort := w.link, w.abort
	w.link, w.abort = nil, nil
	if w.over == nil {
		w.over = cmp.Or(why, context.Canceled)
	}
	w.mu.Unlock()
	if link != nil {
		link.Close()
	}
	if abort != nil {
		abort()
	}
}

// use says what is to be closed, or called, when the attempt ends. false: it
// has ended.
func (w *watch) use(link *connection, abort func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return false
	}
	w.link, w.abort = link, abort
	return true
}

// leave gives back the connection in use, which nobody closes any more; nil
// where the attempt has ended.
func (w *watch) leave() *connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	link := w.link
	w.link = nil
	return link
}

// why says why the attempt ended before its answer did; nil: it did not.
func (w *watch) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over
}

func (w *watch) now() int64 { return int64(time.Since(w.start)) + 1 }

// set makes limit the bound of each wait from here on, and cause what it
// ends with.
func (w *watch) set(limit time.Duration, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || w.limit == limit && w.cause == cause {
		return
	}
	w.limit, w.cause = limit, cause
	if w.timer == nil {
		w.timer = time.AfterFunc(limit, w.fire)
	} else {
		w.timer.Reset(limit)
	}
}

func (w *watch) fire() {
	if why := w.overdue(); why != nil {
		w.cancel(why)
	}
}

// overdue says that nothing came for too long; else the timer is set anew.
func (w *watch) overdue() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	left := w.limit
	if since := w.waiting.Load(); since > 0 {
		left -= time.Duration(w.now() - since)
	}
	if left <= 0 {
		w.done = true
		return w.cause
	}
	w.timer.Reset(left)
	return nil
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
