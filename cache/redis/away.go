package redis

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"oncegate/cache"
)

const (
	// failuresAway is how many steps in a row must fail for the server to be
	// away.
	failuresAway = 3
	probeEvery   = time.Second
)

// watchdog knows whether a server can be asked. While it can't, steps fail
// at once, and one probe a second asks.
type watchdog struct {
	probe  func() error
	told   func(cause error) // when it goes away, and nil when it is back
	closed <-chan struct{}

	down   atomic.Pointer[failure] // nil: it can be asked
	failed atomic.Int32            // steps in a row
	mu     sync.Mutex              // held while going away or coming back
}

// refuses says why the server is away; nil if it is not.
func (w *watchdog) refuses() error {
	if f := w.down.Load(); f != nil {
		return f
	}
	return nil
}

// heard is told how each step came out, and says whether the server is away.
func (w *watchdog) heard(f *failure) bool {
	if f == nil {
		if w.failed.Load() != 0 {
			w.failed.Store(0)
		}
		return false
	}
	if f.lasts && w.failed.Add(1) >= failuresAway {
		w.goAway(f.cause)
		return true
	}
	return false
}

func (w *watchdog) goAway(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down.Load() != nil {
		return
	}
	w.down.Store(&failure{cause: cause, lasts: true})
	go func() {
		w.told(cause)
		w.ask()
		w.told(nil)
	}()
}

func (w *watchdog) ask() {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.closed:
			return
		}
		err := w.probe()
		w.mu.Lock()
		if err == nil {
			w.failed.Store(0)
			w.down.Store(nil)
			w.mu.Unlock()
			return
		}
		w.down.Store(&failure{cause: err, lasts: true})
		w.mu.Unlock()
	}
}

// errClosed is what a closed store says.
var errClosed = fmt.Errorf("%w: it was closed", cache.ErrAway)
