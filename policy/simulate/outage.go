package simulate

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"oncegate/policy"
)

const (
	callsEvery = time.Millisecond // 1,000 a second
	patience   = time.Second      // how long a caller waits for one attempt
	goodShare  = 0.95             // of a second's calls that were answered: it has recovered
	goodFor    = 5                // seconds in a row, so that it has
)

// traffic is calls that come at a steady rate while the upstream has an outage.
// They are reads, which are tried again whatever happened: no kind of call
// makes more attempts.
type traffic struct {
	outage outage
	until  time.Duration // no call comes after
}

var (
	reject = traffic{outage: outage{from: 20 * time.Second, to: 25 * time.Second}, until: 90 * time.Second}
	stall  = traffic{outage: outage{from: 20 * time.Second, to: 25 * time.Second, stall: true}, until: 90 * time.Second}
	long   = traffic{outage: outage{to: 10 * time.Minute}, until: 10 * time.Minute}
)

// under gives what happened under a policy, second by second.
func (l traffic) under(p Policy, seed uint64) []Bin {
	w := new(world)
	engine := &policy.Engine{Clock: w, Rand: p.rand(rand.New(rand.NewPCG(seed, 0)))}
	to := target(p.Config)
	total := to.Config.Or(policy.Defaults()).Timeouts.Total
	up := server{outage: l.outage}
	m := meter{width: time.Second}
	try := func(context.Context, policy.Attempt) *policy.Failure {
		m.now(w).Offered++
		takes, refused := up.take(w.now)
		w.pause(min(takes, patience))
		switch {
		case takes > patience:
			return &policy.Failure{Phase: policy.Sent, Timeout: true}
		case refused:
			return &policy.Failure{Phase: policy.Answered, Status: 503}
		}
		return nil
	}
	call := func() {
		began := w.now
		res := engine.Do(context.Background(), policy.Call{
			Kind: policy.Read, Targets: []*policy.Target{to}, Deadline: w.Now().Add(total),
		}, try)
		if res.Failure == nil && res.Reason == "" {
			m.at(began).Answered++
		}
	}
	w.steadily(callsEvery, l.until, func() {
		m.now(w).Calls++
		w.start(call)
	})
	w.run()
	return m.bins
}

// steadily has f called at every multiple of d before until, from now on.
func (w *world) steadily(d, until time.Duration, f func()) {
	var next func()
	next = func() {
		f()
		if w.now+d < until {
			w.at(d, next)
		}
	}
	w.at(0, next)
}

// peak is the most attempts in one bin.
func peak(bins []Bin) (most int) {
	for _, b := range bins {
		most = max(most, b.Offered)
	}
	return most
}

// recovered gives the seconds from the outage's end to the first that begins
// five in which the calls were answered again; NaN: none of those that were
// simulated.
func (l traffic) recovered(seconds []Bin) float64 {
	first, last, good := int(l.outage.to/time.Second), int(l.until/time.Second), 0
	for i := first; i < last; i++ {
		if b := seconds[i]; float64(b.Answered) < goodShare*float64(b.Calls) {
			good = 0
		} else if good++; good == goodFor {
			return float64(i + 1 - goodFor - first)
		}
	}
	return math.NaN()
}

// amplified is how many attempts there were for each call during the outage.
func (l traffic) amplified(seconds []Bin) float64 {
	var calls, attempts int
	for _, b := range seconds[l.outage.from/time.Second : min(l.outage.to, l.until)/time.Second] {
		calls += b.Calls
		attempts += b.Offered
	}
	return float64(attempts) / float64(calls)
}
