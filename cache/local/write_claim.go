package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oncegate/cache"
)

// lockWrite gives the record of a key with its shard locked. One that is not
// in memory is read from disk; one that is nowhere is Absent. It is to be let
// go by unlockWrite.
func (s *Store) lockWrite(ctx context.Context, k cache.Key) (*shard, *write, error) {
	sh := s.shard(k)
	for {
		if err := s.away(); err != nil {
			return nil, nil, err
		}
		sh.mu.Lock()
		w := sh.writes[k]
		switch {
		case w == nil:
			w = &write{key: k, loading: make(chan struct{})}
			sh.writes[k] = w
			sh.mu.Unlock()

			err := s.readWriteRow(w)
			sh.mu.Lock()
			close(w.loading)
			w.loading = nil
			if err != nil {
				s.forgetWrite(sh, w)
				sh.mu.Unlock()
				return nil, nil, fmt.Errorf("%w: %w", cache.ErrAway, err)
			}
			if w.state != cache.Absent {
				s.place(sh, w)
			}
			return sh, w, nil
		case w.loading == nil:
			return sh, w, nil
		}
		loading := w.loading
		sh.mu.Unlock()
		select {
		case <-loading:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// unlockWrite lets a record go: one that is nowhere leaves nothing.
func (s *Store) unlockWrite(sh *shard, w *write) {
	if w.state == cache.Absent && w.pending == nil {
		s.forgetWrite(sh, w)
	}
	sh.mu.Unlock()
	s.evict()
}

// claimWrite is Claim of a write. Claims are in memory only: what they may
// lead to is on disk before a byte is sent.
func (s *Store) claimWrite(ctx context.Context, c cache.Claim) (cache.Grant, error) {
	for {
		sh, w, err := s.lockWrite(ctx, c.Key)
		if err != nil {
			return cache.Grant{}, err
		}
		now := s.now()
		// Only a claim that leads has an effect; any other is decided anew.
		if g, ok := w.recall(c.Nonce, claimed); ok {
			s.unlockWrite(sh, w)
			return g, nil
		}
		d := cache.Decide(c, w.view(now))
		if p := w.pending; d.Role == cache.Lead && p != nil {
			if err := s.wait(ctx, sh, p); err != nil {
				return cache.Grant{}, err
			}
			continue
		}
		s.meet(sh, w, now)
		switch d.Role {
		case cache.Lead:
			s.lead(sh, w, c, d, now)
			g := w.leads()
			s.unlockWrite(sh, w)
			return g, nil
		case cache.Replay:
			g := w.grant(d, now)
			g.Result, err = s.answerOf(ctx, sh, w)
			if errors.Is(err, cache.ErrFenced) { // it went meanwhile: decide again
				continue
			}
			return g, err
		}
		g := w.grant(d, now)
		s.useWrite(w)
		s.unlockWrite(sh, w)
		return g, nil
	}
}

// lead makes the record what the claim that leads is: a new operation, or an
// unknown one run again.
func (s *Store) lead(sh *shard, w *write, c cache.Claim, d cache.Decision, now time.Time) {
	lapses := encodeLines(s.ledger.fit(c.Lapses))
	s.become(sh, w, func(w *write) {
		w.passOn()
		w.tell()
		what := cache.Step{At: now, What: cache.StepClaimed}
		next := write{
			key: w.key, origin: w.origin, print: w.print, about: w.about, trail: w.trail, dispatched: w.dispatched, doubt: true,
			steps: w.steps, queued: w.queued, stored: w.stored, row: w.row, unsaved: w.unsaved, owing: w.owing, told: w.told,
			weight: w.weight, in: w.in, recent: w.recent, status: w.status,
		}
		next.fence = cache.Fence(s.fence.Add(1))
		switch {
		case !d.Again:
			next.origin, next.print, next.about = next.fence, c.Fingerprint, c.Write.About
			next.trail, next.dispatched, next.doubt, next.status = nil, time.Time{}, false, 0
		case c.Write.Knowingly:
			what.What, what.Actor = cache.StepRerun, c.Write.About.Principal
		default:
			what.What = cache.StepAgain
		}
		next.state, next.claimedBy, next.lapsed = cache.Claimed, c.Nonce, d.Lapsed
		next.claimed, next.lease, next.lapses = now, now.Add(c.Lease), lapses
		*w = next
		w.step(what)
	})
	if d.Again {
		s.putAudit(sh, w)
	}
}

// meet makes a lapsed record that may have been sent unknown, which every step
// that looks at it does first.
func (s *Store) meet(sh *shard, w *write, now time.Time) {
	if !w.late(now) || w.state == cache.Claimed && !w.doubt {
		return
	}
	var lapses []byte
	if w.state == cache.Dispatched {
		lapses = w.lapses
	}
	s.become(sh, w, func(w *write) {
		w.state, w.lost, w.settled, w.lapses = cache.Unknown, true, now, nil
		w.step(cache.Step{At: now, What: cache.StepLapsed})
	})
	s.save(sh, w, lapses)
}

// renewWrite extends a lease, a lapsed one too if nobody met it. The shard is
// locked.
func (sh *shard) renewWrite(h cache.Hold, now time.Time, lease time.Duration) (wanted bool, err error) {
	w := sh.writes[h.Key]
	if w == nil || w.fence != h.Fence || !w.inFlight() {
		return false, cache.ErrFenced
	}
	w.lease = now.Add(lease)
	return w.wanted, nil
}

// appendWrite keeps the log of one in flight in memory. The shard is locked.
func (sh *shard) appendWrite(h cache.Hold, from int, frames []cache.Frame) error {
	w := sh.writes[h.Key]
	switch {
	case w == nil || w.fence != h.Fence || !w.inFlight():
		return cache.ErrFenced
	case from < 0 || from > len(w.log):
		return gap(from, len(w.log))
	}
	if have := len(w.log) - from; have < len(frames) {
		w.log = append(w.log, frames[have:]...)
		w.tell()
	}
	return nil
}
