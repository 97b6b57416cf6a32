package policy

import "time"

// Status is how a target stands, for people to read.
type Status struct {
	Target     string
	Breaker    State
	Rule       string        // what an open breaker opened by, else empty
	HalfOpenIn time.Duration // of an open breaker
	Streak     int           // failures in a row
	Probes     int           // in flight, while half-open
	Budget     int           // retries that may go now
	Limit      int           // attempts that may be under way
	InFlight   int           // that are
	Queued     int           // that wait for their turn
	Holds      []HoldStatus
	RateLimits []RateLimitStatus
}

// RateLimitStatus is what the upstream said last of one of its limits.
type RateLimitStatus struct {
	Credential int
	RateLimit
	Seen time.Duration // how long ago it said so
}

// HoldStatus is a hold that still lasts.
type HoldStatus struct {
	Credential int           // index into the target's credentials
	All        bool          // it holds for all targets: the credential itself was refused, or its quota is spent
	For        time.Duration // until it ends
	Told       time.Duration // until the time that the upstream named, For or longer
	Status     int           // what calls are answered with meanwhile
}

// Status gives the target as it is at now.
func (t *Target) Status(now time.Time) Status {
	g := t.gate(now)
	at := g.since(now)
	s := Status{Target: t.Name}
	g.mu.Lock()
	s.Budget = max(0, int(g.budget.room(g.cfg.Budget, at)))
	s.Breaker, s.Streak, s.Probes = g.breaker.state, g.breaker.streak, g.breaker.probes
	s.Limit, s.InFlight, s.Queued = g.limit.most(g.cfg.Concurrency), g.limit.inflight, g.limit.waiting
	if s.Breaker == Open {
		s.Rule = string(g.breaker.rule)
		if s.HalfOpenIn = g.breaker.until - at; s.HalfOpenIn <= 0 { // the next call will find it so
			s.Breaker, s.Rule, s.HalfOpenIn = HalfOpen, "", 0
		}
	}
	g.mu.Unlock()
	for i, c := range t.Credentials {
		if is := c.hold.look(now); is.wait > 0 {
			s.Holds = append(s.Holds, HoldStatus{Credential: i, All: true, For: is.wait, Told: is.told, Status: is.status})
		}
		if t.holds.Load() == nil {
			continue
		}
		if is := t.hold(i).look(now); is.wait > 0 {
			s.Holds = append(s.Holds, HoldStatus{Credential: i, For: is.wait, Told: is.told, Status: is.status})
		}
	}
	if paces := t.paces.Load(); paces != nil {
		for i := range *paces {
			p := &(*paces)[i]
			p.mu.Lock()
			for _, l := range p.limits[:p.n] {
				s.RateLimits = append(s.RateLimits, RateLimitStatus{Credential: i, RateLimit: l, Seen: now.Sub(p.seen)})
			}
			p.mu.Unlock()
		}
	}
	return s
}
