package local

import (
	"context"
	"fmt"
	"time"

	"oncegate/cache"
)

// settleWrite is Settle of a write. It is on disk, synced, when it returns nil;
// one that fails changed nothing, and is to be sent again.
func (s *Store) settleWrite(ctx context.Context, h cache.Hold, set cache.Settlement, answer []byte) error {
	res := &set.Result
	if res.State != cache.Completed && res.State != cache.Unknown && res.State != cache.Released {
		return fmt.Errorf("cache: a write does not end in state %d", res.State)
	}
	lines := s.ledger.fit(set.Lines)
	for {
		sh, w, err := s.lockWrite(ctx, h.Key)
		if err != nil {
			return err
		}
		if g, ok := w.recall(set.Nonce, settled); ok && g.Fence == h.Fence {
			s.unlockWrite(sh, w)
			return nil
		}
		if p := w.pending; p != nil && w.fence == h.Fence {
			err := s.wait(ctx, sh, p)
			if err == nil && p.what == settled && p.nonce == set.Nonce {
				err = p.err
			} else if err == nil {
				continue
			}
			return err
		}
		if w.fence != h.Fence || !w.mayEnd(res.State) {
			s.unlockWrite(sh, w)
			return cache.ErrFenced
		}
		if w.state == cache.Unknown {
			lines = nil // the doubt was booked
		}
		now := s.now()
		end := func(w *write) { w.settle(set, answer, now) }
		if w.state == cache.Claimed && !w.stored {
			s.ledger.add(lines)
			s.become(sh, w, end)
			s.unlockWrite(sh, w)
			return nil
		}
		return s.commitWrite(ctx, sh, w, set.Nonce, settled, end, writeOp{sums: encodeLines(lines)})
	}
}

// mayEnd says that the claim may be settled so.
func (w *write) mayEnd(to cache.State) bool {
	switch w.state {
	case cache.Claimed:
		return to == cache.Released
	case cache.Dispatched:
		return true
	case cache.Unknown:
		return to != cache.Unknown
	}
	return false
}

// settle makes the record what its settlement says.
func (w *write) settle(set cache.Settlement, answer []byte, now time.Time) {
	res := &set.Result
	w.ended(set.Nonce, settled)
	if res.Frames == nil && w.log != nil {
		answer = cache.EncodeFrames(w.log) // its readers may still be on their way to the end
	}
	w.lost, w.kept, w.settled, w.lapses = false, false, now, nil
	switch res.State {
	case cache.Completed:
		w.complete(set.Result, answer, set.Keep, set.Memory, now)
		w.step(cache.Step{At: now, What: cache.StepCompleted, Status: res.Status})
	case cache.Unknown:
		w.state, w.answer = cache.Unknown, answer
		w.status, w.size, w.sum = res.Status, res.Size, res.Sum
		w.step(cache.Step{At: now, What: cache.StepUnknown, Status: res.Status})
	default:
		w.step(cache.Step{At: now, What: cache.StepReleased, Status: res.Status})
		if w.answer = answer; w.doubt {
			w.state = cache.Unknown
		} else {
			w.release(now)
		}
	}
}

// complete makes it one that completed with this.
func (w *write) complete(res cache.Result, answer []byte, keep, memory time.Duration, now time.Time) {
	keep = max(keep, 0)
	w.state, w.doubt, w.settled, w.answer, w.kept = cache.Completed, false, now, answer, res.Frames != nil && keep > 0
	w.status, w.size, w.sum = res.Status, res.Size, res.Sum
	w.expires, w.forgotten = now.Add(keep), now.Add(max(keep, memory))
}

// release makes it free.
func (w *write) release(now time.Time) {
	w.state, w.doubt, w.expires = cache.Released, false, now.Add(rememberReleased)
}

// Resolve ends an unknown outcome on somebody's word.
func (s *Store) Resolve(ctx context.Context, k cache.Key, r cache.Resolution) error {
	as := map[cache.State]string{cache.Completed: "completed", cache.Released: "released"}[r.Result.State]
	if as == "" {
		return fmt.Errorf("cache: an outcome is not resolved as state %d", r.Result.State)
	}
	answer := cache.EncodeFrames(r.Result.Frames)
	for {
		sh, w, err := s.lockWrite(ctx, k)
		if err != nil {
			return err
		}
		if _, ok := w.recall(r.Nonce, resolved); ok {
			s.unlockWrite(sh, w)
			return nil
		}
		if p := w.pending; p != nil {
			err := s.wait(ctx, sh, p)
			if err == nil && p.what == resolved && p.nonce == r.Nonce {
				err = p.err
			} else if err == nil {
				continue
			}
			return err
		}
		now := s.now()
		s.meet(sh, w, now)
		switch {
		case !w.known(now):
			err = cache.ErrNone
		case w.state != cache.Unknown:
			err = cache.ErrSettled
		case r.Fence != 0 && r.Fence != w.fence:
			err = cache.ErrFenced
		}
		if err != nil {
			s.unlockWrite(sh, w)
			return err
		}
		end := func(w *write) {
			w.ended(r.Nonce, resolved)
			w.lost, w.settled = false, now
			if r.Result.State == cache.Completed {
				w.complete(r.Result, answer, r.Keep, r.Memory, now)
			} else {
				w.answer = nil
				w.release(now)
			}
			w.step(cache.Step{
				At: now, What: cache.StepResolved, Status: r.Result.Status, Actor: r.Actor, Reason: r.Reason, As: as,
			})
		}
		next := *w
		end(&next)
		return s.commitWrite(ctx, sh, w, r.Nonce, resolved, end, writeOp{audit: []*auditRow{s.audit(&next)}})
	}
}

// known says that there is a record: not one that is free or forgotten.
func (w *write) known(now time.Time) bool {
	switch w.state {
	case cache.Absent, cache.Released:
		return false
	case cache.Claimed:
		return w.doubt || !w.late(now)
	case cache.Completed:
		return now.Before(w.forgotten)
	}
	return true
}
