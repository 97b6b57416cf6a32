package cache

import (
	"context"
	"errors"
	"time"
)

// deliverFor is how long the store hears nothing of the end of a derived key's
// call, so that it hears at once of who was left without.
const deliverFor = 20 * time.Millisecond

// Settle ends a record that this entry leads. keep is how long the result
// answers repeats; zero releases the record. disk: see Settlement. Of an
// explicit key, and where others follow on another node, the result is recorded
// before its last frames go to the readers; of a derived one when all readers
// have left with it, or after deliverFor.
// The error says that it could not be recorded; the readers get their frames
// all the same.
func (e *Entry) Settle(res Result, keep time.Duration, disk bool, last ...Frame) error {
	r := e.records
	if r == nil { // private
		if e.lost != nil {
			e.lost.settle(e, res, keep, disk, last)
		}
		e.log.mark(res.State == Completed, true)
		e.log.End(last...)
		return nil
	}
	whole := res.State == Completed
	var ended time.Time
	r.mu.Lock()
	first := !e.claim.Explicit && !e.wanted // the readers come first
	e.ended = first                         // who asks from now on asks the store
	r.mu.Unlock()
	if first {
		if !e.At.IsZero() { // at the earliest
			ended = e.At.Add(time.Since(e.heard))
		}
		e.log.mark(whole, true)
		e.log.End(last...)
		last = nil // they are in the log now
		e.delivered()
	}
	err := e.record(res, keep, disk, ended, last)
	if !first {
		e.log.mark(whole, err == nil)
	}
	r.mu.Lock()
	if e.settled = true; e.over != nil {
		close(e.over)
	}
	r.mu.Unlock()
	r.forget(e)
	if !first {
		e.log.End(last...)
	}
	r.oops("settle", err)
	return err
}

// delivered waits until all readers of a log that has ended have left it, but
// not for long.
func (e *Entry) delivered() {
	timer := time.NewTimer(deliverFor)
	defer timer.Stop()
	select {
	case <-e.log.Gone():
	case <-timer.C:
	}
}

// record tells the store of a call's end. What it did not hear it is told
// again behind.
func (e *Entry) record(res Result, keep time.Duration, disk bool, ended time.Time, last []Frame) error {
	r := e.records
	r.mu.Lock()
	e.settling = true
	r.owes(e)
	owed := e.owed
	r.mu.Unlock()
	set := e.settlement(r, res, keep, e.published(), last)
	set.Owed, set.Disk, set.Ended, set.Lines = owed, disk, ended, e.Lines
	err := r.Store.Settle(context.Background(), e.Hold(), set)
	if errors.Is(err, ErrFollowed) {
		set.Result.Frames, set.Alone = e.unkept(last), false
		err = r.Store.Settle(context.Background(), e.Hold(), set)
	}
	switch {
	case !errors.Is(err, ErrAway):
	case e.claim.Write != nil:
		go r.settleWrite(e.Hold(), set)
	default:
		go r.settleLater(e.Hold(), set, attempts(e.Lapses))
	}
	return err
}

// settlement makes of a call's end what the store is told. followed: somebody
// on another node may read the log.
func (e *Entry) settlement(r *Records, res Result, keep time.Duration, followed bool, last []Frame) Settlement {
	if e.claim.Write != nil {
		return e.settlementOfWrite(r, res, keep, last)
	}
	set := Settlement{Nonce: NewNonce(), Result: res, Keep: keep, Debt: r.Debt}
	frames, all := e.log.Whole()
	if keep > 0 && all && size(frames)+size(last) <= r.Window {
		set.Result.Frames = shared(frames, last)
		return set
	}
	// A part of an answer must never replay. But those who follow elsewhere read
	// it to its end.
	set.Result.State, set.Result.Frames, set.Keep = Released, nil, 0
	if followed {
		set.Result.Frames = e.unkept(last)
	} else {
		set.Alone = all
	}
	return set
}

// unkept is the answer of a record that is released, for those who follow it
// elsewhere; nil: not all of it is here.
func (e *Entry) unkept(last []Frame) []Frame {
	frames, all := e.log.Whole()
	if !all {
		return nil
	}
	return shared(frames, last)
}

// settleFor is how long a settlement that the store did not hear of is sent
// again. Whoever asks for the record meanwhile waits for it, or for the lease
// to lapse.
const settleFor = time.Minute

// settleLater tells the store of an end that it did not hear of. The nonce is
// the same, so that one whose acknowledgement was lost counts once. lapses is
// how many attempts the store books by itself if it never hears of it.
func (r *Records) settleLater(h Hold, set Settlement, lapses int64) {
	set.Alone = false // the frames are gone by then
	for end := time.Now().Add(settleFor); time.Now().Before(end); {
		time.Sleep(readAgain)
		if err := r.Store.Settle(context.Background(), h, set); !errors.Is(err, ErrAway) {
			return
		}
	}
	// Nobody knows whether it was booked: what it might add is in doubt.
	for i := range set.Lines {
		l := set.Lines[i]
		n := attempts(set.Lines[i : i+1])
		known := min(n, lapses)
		if lapses -= known; n > known {
			l.Figures = Figures{Ambiguous: n - known}
			r.Store.Book(l)
		}
	}
}

// attempts is how many lines tell of.
func attempts(lines []Line) (n int64) {
	for i := range lines {
		n += lines[i].Billed + lines[i].Unbilled + lines[i].Ambiguous
	}
	return n
}

// shared gives the frames as they may be kept: less what only the leader's
// own client gets.
func shared(frames, last []Frame) []Frame {
	out := make([]Frame, 0, len(frames)+len(last))
	out = append(append(out, frames...), last...)
	for i, f := range out {
		if f.Kind == HeadFrame && f.Head.Own != nil {
			h := *f.Head
			h.Own = nil
			out[i].Head = &h
		}
	}
	return out
}
