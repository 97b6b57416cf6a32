package up

import "sync"

// Effects counts what a write API has done. Its zero value is ready to use,
// by any number of exchanges at once.
type Effects struct {
	mu     sync.Mutex
	n      int
	bodies map[string]int
}

// Do is one execution: its number, counted from 1. What a script does before
// it happens before the effect, what it does afterwards is after it.
func (e *Effects) Do(x *Exchange) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bodies == nil {
		e.bodies = map[string]int{}
	}
	e.n++
	e.bodies[string(x.Call.Body)]++
	return e.n
}

// N is the number of executions.
func (e *Effects) N() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

// Of is the number of executions of calls with that body.
func (e *Effects) Of(body string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bodies[body]
}
