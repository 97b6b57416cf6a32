package policy

import (
	"sync"
	"time"
)

// payment is what an attempt counts as in its target's budget.
type payment uint8

const (
	original payment = iota // the first of a call on the target
	retry                   // takes a token
	free                    // a retry after a request that was not sent, once a call
)

// gate is what every attempt on a target passes, both ways.
type gate struct {
	cfg   Config // no field is zero
	epoch time.Time

	mu      sync.Mutex
	budget  budget
	breaker breaker
	limit   limit
}

// gate gives the target's, and makes it when the first attempt comes.
func (t *Target) gate(now time.Time) *gate {
	if g := t.gates.Load(); g != nil {
		return g
	}
	t.gates.CompareAndSwap(nil, &gate{cfg: t.Config.Or(Defaults()), epoch: now})
	return t.gates.Load()
}

// since is the time that the gate's accounts go by. Who was told the time
// before another one, and comes after it, comes with it.
func (g *gate) since(now time.Time) time.Duration { return max(0, now.Sub(g.epoch)) }

// ticket is one attempt that a gate let in.
type ticket struct {
	gate  *gate
	gen   uint32 // of the breaker
	line  *line  // in the limit
	token token
	pay   payment
}

// enter lets an attempt in, or says why not. With turn it has a place among
// those under way, and gives it back if it is not let in. t is for leave or undo.
func (g *gate) enter(now time.Time, principal string, pay payment, turn *waiter, t *ticket, n *news) held {
	at := g.since(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	is := g.closed(at, pay, n)
	switch {
	case turn != nil:
		if t.line = turn.line; is.wait > 0 {
			g.limit.free(g.cfg.Concurrency, t.line)
		}
	case is.wait == 0:
		if t.line = g.limit.enter(g.cfg.Concurrency, principal, at); t.line == nil {
			is = held{wait: time.Second, told: time.Second, status: 503, reason: Overloaded}
		}
	}
	if is.wait > 0 {
		return is
	}
	t.gate, t.pay, t.token = g, pay, token{}
	switch pay {
	case original:
		t.token = g.budget.original(at)
	case retry:
		t.token = g.budget.retry()
		g.spent(false, at, n)
	}
	var changed bool
	if t.gen, changed = g.breaker.enter(); changed {
		n.add(change{to: HalfOpen}.event())
	}
	return held{}
}

// look says what enter would, without entering; of turns it knows nothing.
func (g *gate) look(now time.Time, pay payment, n *news) held {
	at := g.since(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed(at, pay, n)
}

// closed says whether the breaker or the budget lets no attempt go.
func (g *gate) closed(at time.Duration, pay payment, n *news) held {
	if wait := g.breaker.look(g.cfg.Breaker, at); wait > 0 {
		return held{wait: wait, told: wait, status: 503, reason: CircuitOpen}
	}
	if pay == retry && g.budget.room(g.cfg.Budget, at) < 1 {
		g.spent(true, at, n)
		return held{wait: budgetTick, reason: BudgetExhausted}
	}
	return held{}
}

// leave tells how the attempt came out.
func (t *ticket) leave(f *Failure, now time.Time, rnd func() float64, n *news) {
	g := t.gate
	if g == nil {
		return
	}
	at := g.since(now)
	var told time.Duration
	if f != nil {
		told = f.told()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if f == nil {
		g.budget.refund(t.token)
	}
	congested := f.congested()
	g.limit.leave(g.cfg.Concurrency, t.line, congested, at)
	g.limited(congested, n)
	if c, ok := g.breaker.leave(g.cfg.Breaker, t.gen, f.outcome(), told, at, rnd); ok {
		n.add(c.event())
	}
}

// undo takes the attempt back: it was not made.
func (t *ticket) undo() {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.pay != free {
		g.budget.undo(t.token)
	}
	g.breaker.leave(g.cfg.Breaker, t.gen, neutral, 0, 0, nil)
	g.limit.free(g.cfg.Concurrency, t.line)
}

// join waits for a turn among those under way; nil: too many do.
func (g *gate) join(principal string) *waiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit.join(g.cfg.Concurrency, principal)
}

// abandon ends a wait; true: the turn had come.
func (g *gate) abandon(w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limit.abandon(w)
}

// free gives back a turn that was not used.
func (g *gate) free(turn *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit.free(g.cfg.Concurrency, turn.line)
}

// limited notes whether the limit holds anybody back, where that is news: from
// when it gave way to what is in use, until half of it is not.
func (g *gate) limited(congested bool, n *news) {
	switch l := &g.limit; {
	case congested && !l.bites && l.inflight >= int(l.size):
		l.bites = true
		n.add(Event{Kind: LimitLowered})
	case l.bites && 2*l.inflight < int(l.size):
		l.bites = false
		n.add(Event{Kind: LimitBack})
	}
}

// spent notes whether the budget refuses, where that is news: it is back once
// it refused nothing for as long as it looks back.
func (g *gate) spent(refused bool, at time.Duration, n *news) {
	switch b := &g.budget; {
	case refused:
		if !b.spent {
			n.add(Event{Kind: BudgetSpent})
		}
		b.spent, b.refused = true, at
	case b.spent && at-b.refused >= budgetSpan*time.Second:
		b.spent = false
		n.add(Event{Kind: BudgetBack})
	}
}

// event tells of a change of the breaker.
func (c change) event() Event {
	switch c.to {
	case HalfOpen:
		return Event{Kind: BreakerHalfOpen}
	case Open:
		return Event{Kind: BreakerOpened, Rule: string(c.rule), For: c.open}
	}
	return Event{Kind: BreakerClosed}
}
