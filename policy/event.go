package policy

import "time"

// Event is told while a call runs: of its own retries, and of what changed at
// its target because of it.
type Event struct {
	Kind   EventKind
	Target *Target
	Cause  string        // how the attempt came out that made it so, a word of Failure.Result: "429", "503", "timeout", ...; empty where none did
	Rule   string        // BreakerOpened: consecutive, low_traffic, failure_rate, probe
	For    time.Duration // Held, BreakerOpened: how long, at least
	Of     time.Duration // Retried: what the wait before it was drawn below; zero: there was none
}

// EventKind says what happened.
type EventKind uint8

const (
	Retried         EventKind = iota // an attempt follows, here or on another target
	Held                             // the upstream asked to be left alone, or refused a credential
	BreakerOpened                    // no attempt goes there
	BreakerHalfOpen                  // a few go, as probes
	BreakerClosed                    // all go again
	BudgetSpent                      // no retry goes there
	BudgetBack                       // retries go again
	LimitLowered                     // fewer may go at once than there were
	LimitBack                        // nobody is held back by it
)

func (k EventKind) String() string {
	return [...]string{"retry", "hold", "breaker_open", "breaker_half_open", "breaker_closed", "budget_spent", "budget_back", "limit_lowered", "limit_back"}[k]
}

// news are the events that arose under a lock, to be told after it.
type news struct {
	events [2]Event // no step changes more
	n      int
}

func (w *news) add(e Event) {
	if w.n < len(w.events) {
		w.events[w.n] = e
		w.n++
	}
}

// tell tells of an event of this call.
func (r *run) tell(e Event) {
	if r.call.On != nil {
		r.call.On(e)
	}
}

// publish tells of the news: of t, caused by f where an attempt came out so.
func (r *run) publish(t *Target, f *Failure) {
	if r.news.n == 0 {
		return
	}
	for i := range r.news.n {
		e := r.news.events[i]
		e.Target = t
		if f != nil {
			e.Cause = f.Result()
		}
		r.tell(e)
	}
	r.news.n = 0
}
