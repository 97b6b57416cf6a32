package policy

import (
	"sync/atomic"
	"time"
)

// Target is one model at one provider: where its budget, its breaker and its
// holds are kept. It is shared by all calls that go there.
type Target struct {
	Name        string // provider/model
	Config      Config
	Credentials []*Credential // at least one; shared with the provider's other targets
	Context     int           // its window in tokens; 0: unknown, and so no fallback for what is too long elsewhere

	first atomic.Uint32          // the credential that is asked first: the one after the last that was throttled or refused
	gates atomic.Pointer[gate]   // nil until the first attempt
	holds atomic.Pointer[[]hold] // one for each credential; nil until the first is needed
	paces atomic.Pointer[[]pace] // likewise; nil until the upstream tells of its limits
}

// Credential is one API key of a provider. The zero value is free.
type Credential struct {
	hold hold // for all targets: it was refused, or its quota is spent
}

// Engine runs calls. The zero value works.
type Engine struct {
	Rand  func() float64 // uniform [0,1); nil: math/rand/v2
	Clock Clock          // nil: the machine's
}

// pass is the leave to make one attempt.
type pass struct {
	ticket
	credential int
	hold       [2]*hold // those whose probe the attempt is
	probe      [2]uint64
}

// end tells how the attempt came out, after the holds that follow from it
// were set.
func (p *pass) end(f *Failure, now time.Time, rnd func() float64, n *news) {
	p.unhold(f == nil || !f.Cancelled)
	p.leave(f, now, rnd, n)
}

func (p *pass) unhold(learned bool) {
	for i, h := range p.hold {
		if h != nil {
			h.leave(p.probe[i], learned)
		}
	}
}

// hold gives the hold of the target with its i-th credential.
func (t *Target) hold(i int) *hold {
	holds := t.holds.Load()
	for holds == nil {
		fresh := make([]hold, len(t.Credentials))
		t.holds.CompareAndSwap(nil, &fresh)
		holds = t.holds.Load()
	}
	return &(*holds)[i]
}

// admit gives leave for an attempt with the first credential that is free, in
// their order from t.first; those whose bits are set in skip are left out. If
// none is, it says which will be free first. With turn the caller has waited for
// its place, which is used up either way.
func (t *Target) admit(now time.Time, principal string, skip uint64, pay payment, turn *waiter, p *pass, n *news) held {
	if is := t.gate(now).enter(now, principal, pay, turn, &p.ticket, n); is.wait > 0 {
		return is
	}
	var soonest held
	count, first := len(t.Credentials), int(t.first.Load())
	for k := range count {
		i := (first + k) % count
		if skip&(1<<i) != 0 {
			continue
		}
		is := t.enter(now, i, p)
		if is.wait == 0 {
			return held{}
		}
		if soonest.wait == 0 || is.wait < soonest.wait {
			soonest = is
		}
	}
	p.undo()
	if soonest.wait == 0 { // all are left out
		soonest = held{wait: 1, status: 503, reason: TargetHeld}
	}
	return soonest
}

// enter gives leave for an attempt with the i-th credential, or says how it
// is held.
func (t *Target) enter(now time.Time, i int, p *pass) held {
	p.credential, p.hold = i, [2]*hold{}
	key := &t.Credentials[i].hold
	probe, is := key.enter(now)
	if is.wait > 0 {
		return is
	}
	if probe != 0 {
		p.hold[0], p.probe[0] = key, probe
	}
	if t.holds.Load() == nil {
		return held{}
	}
	own := t.hold(i)
	if probe, is = own.enter(now); is.wait > 0 {
		p.unhold(false) // the credential's probe is not made
		return is
	}
	if probe != 0 {
		p.hold[1], p.probe[1] = own, probe
	}
	return held{}
}

// look says how the target is held at now with its i-th credential.
func (t *Target) look(i int, now time.Time) held {
	is := t.Credentials[i].hold.look(now)
	if t.holds.Load() != nil {
		if own := t.hold(i).look(now); own.wait > is.wait {
			return own
		}
	}
	return is
}

// wait says how long after now the target is to be left alone: until the
// first of its credentials is free, the one at current not before told.
func (t *Target) wait(current int, told time.Duration, now time.Time) time.Duration {
	first := time.Duration(-1)
	for i := range t.Credentials {
		d := t.look(i, now).wait
		if i == current {
			d = max(d, told)
		}
		if first < 0 || d < first {
			first = d
		}
	}
	return first
}

// free says whether one of the credentials is at now.
func (t *Target) free(skip uint64, now time.Time) bool {
	n, first := len(t.Credentials), int(t.first.Load())
	for k := range n {
		i := (first + k) % n
		if skip&(1<<i) == 0 && t.look(i, now).wait == 0 {
			return true
		}
	}
	return false
}

// rotate makes the credential after the i-th the one that is asked first,
// unless another call has done so already.
func (t *Target) rotate(i int) {
	t.first.CompareAndSwap(uint32(i), uint32((i+1)%len(t.Credentials)))
}
