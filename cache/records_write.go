package cache

import (
	"context"
	"errors"
	"time"
)

// Dispatch takes a write that this entry leads through the one-way door: once
// it returns nil its first byte may be sent, and not before. ErrFenced: another
// leads, or may; anything else: the store did not confirm it, and so it is not
// dispatched, whatever the store did. Either way the entry is still to be ended,
// by Lose or by a settlement as released.
func (e *Entry) Dispatch() error {
	return e.records.Store.Dispatch(context.Background(), e.Hold(), NewNonce())
}

// Stands says, before a dispatch is sent once more, that the claim is still this
// entry's: a process that was stopped may find that another ran it, or that
// somebody said what became of it. Any error says that it may not be.
func (e *Entry) Stands() error {
	return e.renew()
}

// Held says, by this process's clock, whether the claim's lease still lasts. It
// is asked just before a dispatched write is sent: a process that was stopped in
// between may find that the write is taken for unknown, and that somebody said
// it did not happen.
func (e *Entry) Held() bool {
	r := e.records
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(e.held) < r.Lease
}

// Withdraw takes the dispatch back, with proof that nothing was sent or
// executed, so that a crash before the next one leaves nothing in doubt.
func (e *Entry) Withdraw() error {
	return e.records.Store.Withdraw(context.Background(), e.Hold(), NewNonce())
}

// Lose ends a write that this entry led until another took over, before
// anything was sent: whoever reads its log claims anew.
func (e *Entry) Lose() {
	r := e.records
	r.mu.Lock()
	e.fenced, e.ended, e.settled = true, true, true
	if e.over != nil {
		close(e.over)
	}
	r.mu.Unlock()
	r.forget(e)
	e.log.lose()
}

// Amend settles a write anew whose outcome this entry settled as unknown: its
// answer came late. It is told until the store has heard it. ErrFenced: it was
// run again meanwhile, or somebody resolved it.
func (e *Entry) Amend(res Result, keep, memory time.Duration) error {
	set := Settlement{Nonce: NewNonce(), Result: res, Keep: keep, Memory: memory, Disk: true}
	set.Result.Frames = nil // none at all, where the answer was too large to be held
	if len(res.Frames) > 0 && size(res.Frames) <= e.records.Window {
		set.Result.Frames = shared(res.Frames, nil)
	}
	err := e.records.Store.Settle(context.Background(), e.Hold(), set)
	if errors.Is(err, ErrAway) {
		go e.records.settleWrite(e.Hold(), set)
	}
	return err
}

// settlementOfWrite is settlement for a write. What ran is completed, though
// its answer is too large to be kept.
func (e *Entry) settlementOfWrite(r *Records, res Result, keep time.Duration, last []Frame) Settlement {
	frames, all := e.log.Whole()
	res.Frames = nil
	if all && size(frames)+size(last) <= r.Window {
		res.Frames = shared(frames, last)
	}
	if res.State != Completed {
		keep = 0
	}
	return Settlement{Nonce: NewNonce(), Result: res, Keep: keep, Memory: max(keep, e.Memory), Disk: true}
}

// settleWrite tells the store of a write's end until it has heard it: nobody
// else can, and until then repeats are told that it runs, or that nobody knows.
func (r *Records) settleWrite(h Hold, set Settlement) {
	for {
		time.Sleep(readAgain)
		err := r.Store.Settle(context.Background(), h, set)
		if !errors.Is(err, ErrAway) {
			r.oops("settle", err)
			return
		}
		if r.closed() {
			return
		}
	}
}
