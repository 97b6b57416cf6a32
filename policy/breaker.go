package policy

import (
	"math"
	"time"
)

// State is that of a target's breaker.
type State uint8

const (
	Closed   State = iota // calls go
	HalfOpen              // a few go, as probes
	Open                  // none goes
)

func (s State) String() string {
	switch s {
	case HalfOpen:
		return "half_open"
	case Open:
		return "open"
	}
	return "closed"
}

// rule is what a breaker opened by.
type rule string

const (
	byStreak     rule = "consecutive"
	byLowTraffic rule = "low_traffic"
	byRate       rule = "failure_rate"
	byProbe      rule = "probe"
)

// outcome is what an attempt tells of its target's health.
type outcome uint8

const (
	healthy   outcome = iota
	unhealthy         // a fault of the upstream
	throttled         // it limits us: the hold's business, and the limit's
	neutral           // nothing: our side ended it
)

// outcome judges an attempt. An error inside a 200 is judged by the status it
// names: one that blames the request is no fault of the upstream.
func (f *Failure) outcome() outcome {
	switch {
	case f == nil:
		return healthy
	case f.Cancelled:
		return neutral
	case f.Phase < Answered, f.Timeout, !f.refused() && !f.BadAnswer:
		return unhealthy
	}
	switch status := f.status(); {
	case status == 429:
		return throttled
	case status == 501, status == 505:
		return healthy
	case status == 408, status >= 500:
		return unhealthy
	}
	return healthy
}

// breaker stops calls to a target that fails. It is pure: its caller holds the
// gate's lock and tells the time, as since any fixed moment.
//
// Every change of state begins a new generation, and the result of an attempt
// from an earlier one changes nothing.
type breaker struct {
	state State
	gen   uint32

	// Closed.
	streak  int           // failures in a row
	since   time.Duration // when it began
	seconds [10]struct{ all, failed uint32 }
	second  int64 // the newest tenth of the window

	// Open, and half-open.
	until  time.Duration // no probe before
	rule   rule          // why it opened
	trips  int           // times it was reopened since it closed
	probes int           // in flight
	passed int           // probes that came out well
}

// change is a change of the breaker's state.
type change struct {
	to   State
	rule rule          // Open: why
	open time.Duration // Open: for how long
}

// look says how long after at an attempt may go; 0: now.
func (b *breaker) look(c Breaker, at time.Duration) time.Duration {
	switch {
	case b.state == Closed:
		return 0
	case b.state == Open && at < b.until:
		return b.until - at
	case b.state == HalfOpen && b.probes >= c.Probes:
		return c.Cooldown // when a probe comes back can't be known
	}
	return 0
}

// enter lets an attempt go where look says so. gen is given to leave.
func (b *breaker) enter() (gen uint32, changed bool) {
	if b.state == Open {
		b.state, b.probes, b.passed = HalfOpen, 0, 0
		b.gen++
		changed = true
	}
	if b.state == HalfOpen {
		b.probes++
	}
	return b.gen, changed
}

// leave tells how an attempt came out; told is how long the upstream asked to
// be left alone. rnd draws from [0, 1).
func (b *breaker) leave(c Breaker, gen uint32, o outcome, told, at time.Duration, rnd func() float64) (change, bool) {
	if gen != b.gen {
		return change{}, false
	}
	if b.state == HalfOpen {
		b.probes--
		switch o {
		case healthy:
			if b.passed++; b.passed >= c.Probes {
				*b = breaker{gen: b.gen + 1, second: b.second}
				return change{to: Closed}, true
			}
		case unhealthy:
			b.trips++
			return b.open(c, byProbe, told, at, rnd), true
		case throttled:
			return b.open(c, byProbe, told, at, rnd), true
		}
		return change{}, false
	}
	if c.Switch == Off {
		return change{}, false
	}
	switch o {
	case healthy:
		b.streak = 0
		b.count(c, at).all++
	case unhealthy:
		if b.streak == 0 {
			b.since = at
		}
		b.streak++
		now := b.count(c, at)
		now.all++
		now.failed++
		if r := b.trip(c, at); r != "" {
			b.trips = 0
			return b.open(c, r, told, at, rnd), true
		}
	}
	return change{}, false
}

// count gives the tenth of the window that at falls into.
func (b *breaker) count(c Breaker, at time.Duration) *struct{ all, failed uint32 } {
	n := int64(len(b.seconds))
	for to := int64(at / max(1, c.Window/10)); b.second < to; {
		b.second = max(b.second, to-n) + 1
		b.seconds[b.second%n] = struct{ all, failed uint32 }{}
	}
	return &b.seconds[b.second%n]
}

// trip says by which rule the breaker opens, if it does. The streak is what
// acts at once under load; the low-traffic rule where twenty calls take
// minutes; the rate where failures never come in a row.
func (b *breaker) trip(c Breaker, at time.Duration) rule {
	var all, failed uint32
	for _, s := range b.seconds {
		all += s.all
		failed += s.failed
	}
	switch {
	case b.streak >= c.Consecutive:
		return byStreak
	case b.streak >= c.LowTraffic.Consecutive && at-b.since >= c.LowTraffic.Over:
		return byLowTraffic
	case int64(all) >= int64(c.MinCalls) && float64(failed) >= c.FailureRate*float64(all):
		return byRate
	}
	return ""
}

func (b *breaker) open(c Breaker, r rule, told, at time.Duration, rnd func() float64) change {
	cooldown := float64(c.CooldownCap)
	if b.trips < 62 { // the product may be larger than a Duration
		cooldown = min(cooldown, math.Ldexp(float64(c.Cooldown), b.trips))
	}
	open := max(time.Duration(cooldown*(0.8+0.4*rnd())), min(told, holdMost))
	b.state, b.until, b.rule, b.streak, b.probes = Open, at+open, r, 0, 0
	b.gen++
	return change{to: Open, rule: r, open: open}
}
