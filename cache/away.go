package cache

import (
	"context"
	"errors"
	"time"
)

// A call that one node leads is read on another from the store: the leader
// publishes its log once somebody there asks for it, and each node that
// follows keeps one copy, however many read it.

const (
	publishEvery = 12 * time.Millisecond // frames wait so long for others to be published with
	publishBytes = 16 << 10              // or until there are so many bytes of them
	readAgain    = 250 * time.Millisecond
	askReaders   = time.Second // so often a publisher asks that is its log's last reader
	lostAfter    = time.Second // a copy of which nothing is here is given up when the store has not answered for so long
)

var errIdle = errors.New("cache: nobody reads the copy any more")

// followAway makes an entry a follower of a call that another node leads; or
// this one, when the store was asked for what it is owed.
func (r *Records) followAway(e *Entry, until time.Time) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.live[e.claim.Key]; other != nil && other != e && (other.away || other.leading) && other.Fence == e.Fence {
		if reader, ok := other.log.Join(until); ok {
			e.Reader, e.lead = reader, other
			e.tell()
			return e
		}
		if other.leading { // too large to be shared any more, or given up
			e.Role, e.Share = Twin, ""
			e.tell()
			return e
		}
	}
	e.log, e.away = NewLog(r.Window), true
	e.Reader, _ = e.log.Join(until)
	r.live[e.claim.Key] = e
	ctx, cancel := context.WithCancelCause(context.Background())
	e.log.OnIdle(func() {
		if e.log.Abandon() {
			cancel(errIdle)
		}
	})
	e.tell()
	go r.copy(ctx, e)
	return e
}

// copy moves the log of a call that is led elsewhere into its copy here, to
// its end. A leader that is lost ends the copy as lost.
func (r *Records) copy(ctx context.Context, e *Entry) {
	defer r.forget(e)
	var silent time.Time // since when the store has not answered
	for n := 0; ; {
		frames, res, err := r.Store.Read(ctx, e.Hold(), n)
		if !errors.Is(err, ErrAway) {
			silent = time.Time{}
		} else if silent.IsZero() {
			silent = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			e.log.lose()
			return
		case errors.Is(err, ErrFenced) || errors.Is(err, ErrLapsed):
			r.forget(e) // first: who is told claims anew
			e.log.lose()
			return
		case err != nil && time.Since(silent) > r.patience(n):
			r.oops("read", err)
			r.forget(e) // who reads it claims anew, and runs unprotected if need be
			e.log.lose()
			return
		case err != nil:
			select {
			case <-time.After(readAgain):
			case <-ctx.Done():
			}
			continue
		case res != nil && len(res.Frames) == 0:
			// Given up, or too large to be handed on; or of a write that nobody
			// has the answer of: who claims anew is told so.
			r.forget(e)
			e.log.lose()
			return
		case res != nil:
			e.log.mark(res.State == Completed, true)
			e.log.endAt(res.Ended)
			r.forget(e)
			e.log.End(frames...)
			return
		}
		if r.take(ctx, e, n, frames) != nil {
			e.log.lose()
			return
		}
		n += len(frames)
	}
}

// take adds frames, the first of them at index n, to a copy. While its slowest
// reader holds it up, the store goes on being asked, so that the leader does not
// take the log for one that nobody reads.
func (r *Records) take(ctx context.Context, e *Entry, n int, frames []Frame) error {
	for e.log.full(frames) {
		waits, cancel := context.WithTimeout(ctx, askReaders)
		err := e.log.Append(waits, frames...)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		_, _, _ = r.Store.Read(ctx, e.Hold(), n+len(frames)-1) // which is there
	}
	return e.log.Append(ctx, frames...)
}

// patience is how long a copy of so many frames outlasts a store that does not
// answer. Who was shown nothing may claim anew; who was shown a part can only
// wait, for as long as the leader may hold its lease.
func (r *Records) patience(frames int) time.Duration {
	if frames == 0 {
		return lostAfter
	}
	return max(lostAfter, r.Lease)
}

// Wanted says that somebody on another node reads the log of a call that is
// led here. An engine that hears of it tells at once; Renew tells in any case.
func (r *Records) Wanted(h Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.live[h.Key]
	if e == nil || !e.leading || e.Fence != h.Fence || e.settling {
		return
	}
	e.calls++
	if e.wanted {
		return
	}
	e.wanted = true
	if reader, ok := e.log.Join(time.Time{}); ok {
		go r.publish(e, reader)
	}
}

// unread asks whether anybody elsewhere still reads the log of a call that is led
// here, and notes it if not: what was published stays, in case somebody will.
// Not so soon after the store was away: those who read could not say so then.
func (r *Records) unread(e *Entry) bool {
	r.mu.Lock()
	calls := e.calls
	r.mu.Unlock()
	wanted, err := r.Store.Ask(context.Background(), e.Hold())
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, ErrFenced):
		return true
	case err != nil:
		e.unheard = time.Now()
	case !wanted && e.calls == calls && time.Since(e.unheard) > 2*Unread: // nor did anybody come meanwhile
		e.wanted = false
		return true
	}
	return false
}

func (e *Entry) published() bool {
	e.records.mu.Lock()
	defer e.records.mu.Unlock()
	return e.wanted
}

// publish puts the log into the store, from its beginning, until it ends or
// nobody elsewhere reads it any more. Its reader counts as one of the call's:
// when it is the last, it finds out soon whether it reads for nobody.
func (r *Records) publish(e *Entry, reader *Reader) {
	defer reader.Leave()
	ask := time.NewTicker(askReaders)
	defer ask.Stop()
	batch := time.NewTimer(0)
	defer batch.Stop()
	var frames []Frame
	for n := 0; ; {
		var ended bool
		frames, _, ended = reader.Take(frames[:0:0])
		if ended { // the settlement has it all
			return
		}
		for len(frames) > 0 {
			part := frames
			for i, b := 0, int64(0); i < len(part); i++ {
				if b += part[i].size(); b >= publishBytes {
					part = part[:i+1]
				}
			}
			err := r.Store.Append(context.Background(), e.Hold(), n, shared(part, nil))
			if errors.Is(err, ErrFenced) {
				return
			}
			if err != nil {
				r.oops("append", err)
				r.mu.Lock()
				e.unheard = time.Now()
				r.mu.Unlock()
				select {
				case <-time.After(readAgain):
				case <-e.log.Done():
					return
				}
				continue
			}
			n += len(part)
			frames = frames[len(part):]
		}
		select {
		case <-reader.Woken():
		case <-ask.C:
			if e.log.Readers() == 1 && r.unread(e) {
				return
			}
			continue
		case <-e.log.Done():
			return
		}
		// What comes within a moment goes together.
		batch.Reset(publishEvery)
		select {
		case <-batch.C:
		case <-e.log.Done():
			return
		}
	}
}
