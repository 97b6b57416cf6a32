package cache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// lost is a claim whose answer was lost, and whose call runs without the
// store's protection. It may have landed, and then it holds up the call's next
// tries: so it is ended by what the call comes to.
type lost struct {
	records *Records

	mu      sync.Mutex
	owed    []time.Time // when clients left without all of the answer
	settled bool

	over chan struct{} // closed when the call ends
}

// bypass makes the entry of a call that runs though the store is away: a
// leader's, of a record that nobody here can join.
func (r *Records) bypass(c Claim, why error, until time.Time) *Entry {
	e := Private(r.Window, until)
	if r.GiveBack != nil && errors.Is(why, ErrLost) {
		e.claim, e.lost = c, &lost{records: r, over: make(chan struct{})}
		if r.Landed != nil {
			go e.lost.keep(c)
		}
	}
	return e
}

// keep renews the claim, if it landed, until its call ends: else a long one would
// be taken over, and its attempt booked twice.
func (l *lost) keep(c Claim) {
	r := l.records
	every := time.NewTicker(r.Lease / 3)
	defer every.Stop()
	var h Hold
	for {
		select {
		case <-every.C:
		case <-l.over:
			return
		}
		var err error
		if leads := true; h.Fence == 0 {
			if h, leads, err = r.Landed(c); err == nil && !leads {
				return
			}
		}
		if err == nil {
			_, err = r.Store.Renew(context.Background(), h, r.Lease)
		}
		if err != nil && !errors.Is(err, ErrAway) {
			return
		}
	}
}

func (l *lost) owe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.settled {
		l.owed = append(l.owed, time.Now())
	}
}

// settle has the claim end as the call did. Whoever follows it on another node
// reads that.
func (l *lost) settle(e *Entry, res Result, keep time.Duration, disk bool, last []Frame) {
	l.mu.Lock()
	owed := l.owed
	l.settled = true
	close(l.over)
	l.mu.Unlock()
	set := e.settlement(l.records, res, keep, true, last)
	set.Owed, set.Disk = owed, disk
	l.records.GiveBack(e.claim, &set)
}
