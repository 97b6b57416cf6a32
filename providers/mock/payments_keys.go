package mock

import (
	"maps"
	"net/http"
	"time"
)

// KeyCount is what the write API was asked with one idempotency key.
type KeyCount struct {
	Requests   int64 `json:"requests"` // writes whose body arrived whole
	Executions int64 `json:"executions"`
	Replays    int64 `json:"replays"` // answered with what was remembered
}

// keyWindow is how long a key is remembered unless the script says: as long
// as Stripe does (docs.stripe.com/api/idempotent_requests).
const keyWindow = 24 * time.Hour

// claim is a key that was seen.
type claim struct {
	print string    // of the request that it came with
	since time.Time // when that was
	state claimState
	first answer // once remembered
}

type claimState uint8

const (
	inFlight   claimState = iota
	remembered            // its effect happened
	free                  // nothing happened: as if it was never seen
)

// claim takes the call's key for it, where keys are honoured. A key that is
// taken already decides the answer.
func (p *payments) claim(c *paymentCall, keys *Keys, now time.Time) {
	if c.key == "" || c.reads() {
		return
	}
	n := p.byKey.get(c.key)
	n.Requests++
	defer func() { p.byKey.put(c.key, n, maxCounts) }()
	if keys == nil {
		return
	}
	window := keys.Window
	if window == 0 {
		window = keyWindow
	}
	was := p.keys.get(c.key)
	switch {
	case was == nil || was.state == free || was.state == remembered && now.Sub(was.since) >= window:
		c.claimed = &claim{print: c.print(), since: now}
		p.keys.put(c.key, c.claimed, maxPayments)
	case was.print != c.print():
		c.answered(refused(http.StatusUnprocessableEntity, "idempotency_key_reused", "The key was used with another request."))
	case was.state == inFlight:
		c.answered(refused(http.StatusConflict, "idempotency_key_in_use", "A request with this key is being worked on."))
	default:
		n.Replays++
		p.replays++
		a := was.first
		a.header = maps.Clone(a.header)
		if a.header == nil {
			a.header = http.Header{}
		}
		a.header.Set("Idempotent-Replayed", "true")
		c.answered(a)
		c.replayed = true
	}
}

// settle ends the claim: what had its effect is remembered, with the answer
// of the API itself whatever the script made of it; what had none is free.
func (c *paymentCall) settle() {
	if c.claimed == nil || c.claimed.state != inFlight || c.late {
		return
	}
	c.claimed.state = free
	if c.executed {
		c.claimed.state, c.claimed.first = remembered, c.own
	}
}
