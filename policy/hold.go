package policy

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	holdMost       = 15 * time.Minute // the longest hold by a Retry-After
	credentialHold = 5 * time.Minute  // the hold of a refused credential, and of one whose quota is spent
	holdWait       = 10 * time.Second // the longest a call waits for holds to end before its first attempt
	probeLead      = time.Second      // how long the first call after a hold goes alone: a refusal comes sooner than that, an answer may take minutes
)

// hold is a time during which no call may go somewhere, because the upstream
// said so. After it one call goes first, as a probe; the others follow once
// the probe came out well or has been under way for probeLead. The zero value
// is free.
type hold struct {
	set atomic.Bool // false: nothing below counts, and nobody need lock

	mu      sync.Mutex
	gen     uint64    // counts holds and probes, so that a late result of an earlier one changes nothing
	until   time.Time // nobody goes before
	told    time.Time // what the upstream named: until, or later where the hold is capped
	status  int       // what a call that is not made is answered with: 429 or 503
	probing bool      // a probe is under way
	lead    time.Time // it goes alone until then
}

// held says that no attempt may go somewhere now, and why. Without wait one
// may.
type held struct {
	wait   time.Duration // until it may be tried
	told   time.Duration // what is known of when to come back, wait or longer
	status int
	reason Reason
}

// put sets or prolongs the hold.
func (h *hold) put(until, told time.Time, status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gen++
	h.probing = false
	if until.After(h.until) {
		h.until, h.status = until, status
	}
	if told.After(h.told) {
		h.told = told
	}
	h.set.Store(true)
}

// look says whether a call may go at now, without going.
func (h *hold) look(now time.Time) held {
	if !h.set.Load() {
		return held{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at(now)
}

func (h *hold) at(now time.Time) held {
	end := h.until
	if h.probing && h.lead.After(end) {
		end = h.lead
	}
	if !now.Before(end) {
		return held{}
	}
	wait := end.Sub(now)
	return held{wait: wait, told: max(wait, h.told.Sub(now)), status: h.status, reason: TargetHeld}
}

// enter lets a call go, if one may. A probe is not zero for the call that
// goes first; it is given to leave.
func (h *hold) enter(now time.Time) (probe uint64, is held) {
	if !h.set.Load() {
		return 0, held{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if is = h.at(now); is.wait > 0 || h.probing || !h.set.Load() {
		return 0, is
	}
	h.gen++
	h.probing, h.lead = true, now.Add(probeLead)
	return h.gen, held{}
}

// leave tells how a probe came out. The hold is over, whatever it was: had
// the upstream named a new one, put would have come first. A probe that never
// learned anything leaves its place to the next.
func (h *hold) leave(probe uint64, learned bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gen != probe {
		return
	}
	h.probing = false
	if learned {
		h.until, h.told = time.Time{}, time.Time{}
		h.set.Store(false)
	}
}
