package simulate

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"oncegate/policy"
)

// epoch is when every simulation begins. Nothing depends on it.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a virtual time, and what happens in it: events in the order of
// their times, those of one time in the order in which they were set. Nothing
// runs at once with anything else, so a run with the same seed is the same run.
//
// What waits in it, such as a call on its way through policy.Engine.Do, is a
// process: a coroutine that Wait suspends, so that code which sleeps on a
// policy.Clock needs no change to run here.
type world struct {
	now     time.Duration
	events  []event // a heap
	set     uint64  // counts events
	running *process
	idle    []*process // coroutines whose work is done, for the next
	all     []*process
	alert   []*process // those that wait for a channel too, the first one first
}

var _ policy.Clock = (*world)(nil)

// event is something that happens at a time: act, or the end of a process's wait.
type event struct {
	at      time.Duration
	n       uint64 // breaks ties
	act     func()
	process *process
	wait    uint64 // the wait that it ends; one that has ended already is let be
}

func (e event) before(o event) bool {
	return e.at < o.at || e.at == o.at && e.n < o.n
}

// process is a coroutine.
type process struct {
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	work   func()
	waits  uint64 // counts its waits

	// What ends its wait before its time.
	ctx, gone, woken <-chan struct{}
}

// Now gives the virtual time.
func (w *world) Now() time.Time { return epoch.Add(w.now) }

// Wait suspends the process that runs. The channels are looked at after each
// event: nothing else could close them.
func (w *world) Wait(ctx context.Context, d time.Duration, gone, woken <-chan struct{}) {
	p := w.running
	p.ctx, p.gone, p.woken = ctx.Done(), gone, woken
	if p.called() {
		return
	}
	p.waits++
	w.push(event{at: w.after(d), process: p, wait: p.waits})
	if p.ctx != nil || gone != nil || woken != nil {
		w.alert = append(w.alert, p)
	}
	p.yield(struct{}{})
}

// pause is Wait with nothing that could end it.
func (w *world) pause(d time.Duration) { w.Wait(context.Background(), d, nil, nil) }

// called says that one of the channels is closed.
func (p *process) called() bool {
	return closed(p.woken) || closed(p.gone) || closed(p.ctx)
}

func closed(c <-chan struct{}) bool {
	if c == nil {
		return false
	}
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// at has f called after d. It must not wait.
func (w *world) at(d time.Duration, f func()) { w.push(event{at: w.after(d), act: f}) }

// start begins f as a process, at once but after what runs now.
func (w *world) start(f func()) {
	p := w.spare()
	p.work = f
	p.waits++
	w.push(event{at: w.now, process: p, wait: p.waits})
}

func (w *world) spare() *process {
	if n := len(w.idle); n > 0 {
		p := w.idle[n-1]
		w.idle = w.idle[:n-1]
		return p
	}
	p := new(process)
	p.resume, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		p.yield = yield
		for {
			p.work()
			w.idle = append(w.idle, p)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	w.all = append(w.all, p)
	return p
}

// run lets everything happen, until nothing is left to.
func (w *world) run() {
	for len(w.events) > 0 {
		e := w.pop()
		w.now = e.at
		switch {
		case e.act != nil:
			e.act()
		case e.wait == e.process.waits:
			w.step(e.process)
		}
		for _, p := range w.alert { // whose wait it ended by that
			if p.called() {
				w.push(event{at: w.now, process: p, wait: p.waits})
			}
		}
	}
	for _, p := range w.all { // all of them are idle
		p.stop()
	}
}

// step lets a process run until it waits again, or has done its work.
func (w *world) step(p *process) {
	p.waits++ // whatever else was to end this wait comes too late
	if p.ctx != nil || p.gone != nil || p.woken != nil {
		w.alert = slices.DeleteFunc(w.alert, func(o *process) bool { return o == p })
	}
	p.ctx, p.gone, p.woken = nil, nil, nil
	w.running = p
	p.resume()
	w.running = nil
}

// after is the time in d, or the end of all time.
func (w *world) after(d time.Duration) time.Duration {
	return w.now + min(max(0, d), math.MaxInt64-w.now)
}

func (w *world) push(e event) {
	w.set++
	e.n = w.set
	w.events = append(w.events, e)
	i := len(w.events) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(w.events[up]) {
			break
		}
		w.events[i] = w.events[up]
		i = up
	}
	w.events[i] = e
}

func (w *world) pop() event {
	first, n := w.events[0], len(w.events)-1
	e := w.events[n]
	w.events[n] = event{}
	w.events = w.events[:n]
	i := 0
	for {
		down := 4*i + 1
		if down >= n {
			break
		}
		for k := down + 1; k < min(4*i+5, n); k++ {
			if w.events[k].before(w.events[down]) {
				down = k
			}
		}
		if !w.events[down].before(e) {
			break
		}
		w.events[i] = w.events[down]
		i = down
	}
	if n > 0 {
		w.events[i] = e
	}
	return first
}
