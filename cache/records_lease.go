package cache

import (
	"context"
	"errors"
	"time"
)

// scheduleRenewals has the leases of the calls that run renewed in time, by one
// timer for all: one a call would cost more than most calls need. r.mu is held.
func (r *Records) scheduleRenewals() {
	if !r.renewing {
		r.renewing = true
		time.AfterFunc(r.Lease/3, r.renew)
	}
}

// renew makes the leases of all calls that run last, and those alone.
func (r *Records) renew() {
	r.mu.Lock()
	var leads []*Entry
	for _, e := range r.live {
		if e.leading && !e.settling && !e.fenced {
			leads = append(leads, e)
		}
	}
	r.mu.Unlock()
	for _, e := range leads {
		err := e.renew()
		r.mu.Lock()
		over := e.settling // a renewal that crossed the settlement is refused rightly
		e.fenced = e.fenced || errors.Is(err, ErrFenced)
		r.mu.Unlock()
		if !over {
			r.oops("renew", err)
		}
	}
	r.mu.Lock()
	if r.renewing = false; len(r.live) > 0 {
		r.scheduleRenewals()
	}
	r.mu.Unlock()
}

// renew makes one entry's lease last.
func (e *Entry) renew() error {
	r, asked := e.records, time.Now()
	wanted, err := r.Store.Renew(context.Background(), e.Hold(), r.Lease)
	if wanted {
		r.Wanted(e.Hold())
	}
	if err == nil {
		r.mu.Lock()
		e.held = asked
		r.mu.Unlock()
	}
	return err
}
