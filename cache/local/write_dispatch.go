package local

import (
	"context"
	"time"

	"oncegate/cache"
)

// Dispatch takes a claim through the one-way door. It is on disk, synced, when
// it returns nil.
//
// One that is sent again is acknowledged only while it stands: once the lease
// has lapsed another may lead, and a nil would let two send. One that was
// withdrawn is no dispatch any more, however often it comes.
func (s *Store) Dispatch(ctx context.Context, h cache.Hold, n cache.Nonce) error {
	for {
		sh, w, err := s.lockWrite(ctx, h.Key)
		if err != nil {
			return err
		}
		now := s.now()
		_, spent := w.recall(n, dispatched)
		switch p := w.pending; {
		case w.fence != h.Fence, spent:
		case p != nil:
			err := s.wait(ctx, sh, p)
			if err == nil && p.what == dispatched && p.nonce == n {
				err = p.err
			} else if err == nil {
				continue
			}
			return err
		case !w.late(now) && w.state == cache.Dispatched && w.sentBy == n && n != (cache.Nonce{}):
			s.unlockWrite(sh, w)
			return nil
		case !w.late(now) && w.state == cache.Claimed:
			return s.commitWrite(ctx, sh, w, n, dispatched, func(w *write) {
				w.state, w.sentBy = cache.Dispatched, n
				if !w.doubt {
					w.dispatched = now
				}
				w.step(cache.Step{At: now, What: cache.StepDispatched})
			}, writeOp{})
		}
		s.unlockWrite(sh, w)
		return cache.ErrFenced
	}
}

// Withdraw takes a dispatch back. Its row is written behind: a crash before
// makes the outcome unknown, though it is known, and never free, though it is
// not.
func (s *Store) Withdraw(ctx context.Context, h cache.Hold, n cache.Nonce) error {
	for {
		sh, w, err := s.lockWrite(ctx, h.Key)
		if err != nil {
			return err
		}
		if p := w.pending; p != nil && w.fence == h.Fence {
			if err := s.wait(ctx, sh, p); err != nil {
				return err
			}
			continue
		}
		err = cache.ErrFenced
		if g, ok := w.recall(n, withdrawn); ok && g.Fence == h.Fence {
			err = nil
		} else if w.fence == h.Fence && w.state == cache.Dispatched {
			err = nil
			s.become(sh, w, func(w *write) {
				w.remember(step{nonce: w.sentBy, kind: dispatched})
				w.remember(step{n, withdrawn, cache.Grant{Fence: w.fence}})
				w.state, w.sentBy = cache.Claimed, cache.Nonce{}
				if !w.doubt {
					w.dispatched = time.Time{}
				}
				w.step(cache.Step{At: s.now(), What: cache.StepWithdrawn})
			})
			s.save(sh, w, nil)
		}
		s.unlockWrite(sh, w)
		return err
	}
}
