package cache

import (
	"context"
	"errors"
	"time"
)

// Debt is an answer that was given, and may yet show to have been lost.
type Debt struct {
	records *Records
	hold    Hold
}

// Debt gives what is to be owed of this entry's answer, once its log has
// ended. It keeps nothing of the answer alive.
func (e *Entry) Debt() Debt {
	if e.Role == Twin || e.Role == Mismatch {
		return Debt{}
	}
	return Debt{e.records, e.Hold()}
}

// Owe is as Entry.Owe.
func (d Debt) Owe() {
	if r := d.records; r != nil {
		r.owe(d.hold)
	}
}

// Owe says that this request's client left without all of the answer, so that
// its next try, even unmarked, may take it.
func (e *Entry) Owe() {
	r := e.records
	if r == nil { // private
		if e.lost != nil {
			e.lost.owe()
		}
		return
	}
	if e.Role == Twin || e.Role == Mismatch {
		return // what its client left is no answer of this record
	}
	lead := e
	if e.lead != nil {
		lead = e.lead
	}
	if e.Role != Replay {
		r.mu.Lock()
		kept := !lead.settling && !lead.away && (!r.Shared || lead.ended)
		if kept {
			lead.owed = append(lead.owed, time.Now())
		} else {
			lead.told++
		}
		over := lead.settling
		r.mu.Unlock()
		if kept {
			return
		}
		if over {
			<-lead.log.Done()
		}
	}
	r.owe(e.Hold())
}

func (r *Records) owes(e *Entry) bool {
	for len(e.owed) > 0 && time.Since(e.owed[0]) > r.Debt {
		e.owed = e.owed[1:]
	}
	return len(e.owed) > 0
}

// owe tells the store of a debt, later if need be.
func (r *Records) owe(h Hold) {
	n, until := NewNonce(), time.Now().Add(r.Debt)
	err := r.Store.Owe(context.Background(), h, n, r.Debt)
	if errors.Is(err, ErrAway) {
		go r.oweLater(h, n, until)
	}
	r.oops("owe", err)
}

// oweLater tells the store of a debt that it did not hear of. The nonce is the
// same, so that one whose acknowledgement was lost counts once.
func (r *Records) oweLater(h Hold, n Nonce, until time.Time) {
	again := time.NewTicker(readAgain)
	defer again.Stop()
	for time.Now().Before(until) {
		select {
		case <-again.C:
		case <-r.Closed:
			return
		}
		if err := r.Store.Owe(context.Background(), h, n, time.Until(until)); !errors.Is(err, ErrAway) {
			return
		}
	}
}
