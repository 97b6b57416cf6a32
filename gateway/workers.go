package gateway

import "sync/atomic"

// maxIdleWorkers bounds the goroutines that wait for the next record.
const maxIdleWorkers = 64

// workers runs records on goroutines that were used before: their stacks have
// grown already, and growing one costs more than waking one (3% of a request).
type workers struct {
	jobs chan func()
	stop chan struct{} // closed when none of them need wait any more
	idle atomic.Int32
}

func newWorkers() workers {
	return workers{jobs: make(chan func()), stop: make(chan struct{})}
}

// do runs f on a goroutine of its own.
func (w *workers) do(f func()) {
	select {
	case w.jobs <- f:
	default:
		go w.work(f)
	}
}

func (w *workers) work(f func()) {
	for {
		f()
		if w.idle.Add(1) > maxIdleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case f = <-w.jobs:
			w.idle.Add(-1)
		case <-w.stop:
			return
		}
	}
}
