package providers

import (
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
	start  time.Time
	cancel context.CancelCauseFunc

	waiting atomic.Int64 // since when, in ns after start, 1 or more; 0: nobody waits

	mu    sync.Mutex // guards the below
	timer *time.Timer
	limit time.Duration
	cause error
	done  bool
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return
	}
	left := w.limit
	if since := w.waiting.Load(); since > 0 {
		left -= time.Duration(w.now() - since)
	}
	if left <= 0 {
		w.done = true
		w.cancel(w.cause)
		return
	}
	w.timer.Reset(left)
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
