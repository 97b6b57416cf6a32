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
	token token
	pay   payment
}

// enter lets an attempt in, or says why not.
func (g *gate) enter(now time.Time, pay payment, n *news) (ticket, held) {
	at := g.since(now)
	g.mu.Lock()
	defer g.mu.Unlock()
	if wait := g.breaker.look(g.cfg.Breaker, at); wait > 0 {
		return ticket{}, held{wait: wait, told: wait, status: 503, reason: CircuitOpen}
	}
	t := ticket{gate: g, pay: pay}
	switch pay {
	case original:
		t.token = g.budget.original(at)
	case retry:
		var ok bool
		t.token, ok = g.budget.retry(g.cfg.Budget, at)
		g.spent(!ok, at, n)
		if !ok {
			return ticket{}, held{wait: budgetTick, reason: BudgetExhausted}
		}
	}
	var changed bool
	if t.gen, changed = g.breaker.enter(); changed {
		n.add(change{to: HalfOpen}.event())
	}
	return t, held{}
}

// look says what enter would, without entering.
func (g *gate) look(now time.Time, pay payment, n *news) held {
	at := g.since(now)
	g.mu.Lock()
	defer g.mu.Unlock()
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
