package up

import "sync"

// Effects counts what a write API has done. Its zero value is ready to use,
// by any number of exchanges at once.
type Effects struct {
	mu sync.Mutex
	n  int
}

// Do is one execution: its number, counted from 1. What a script does before
// it happens before the effect, what it does afterwards is after it.
func (e *Effects) Do() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n++
	return e.n
}

// N is the number of executions.
func (e *Effects) N() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}
