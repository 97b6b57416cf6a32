package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oncegate/cache"
)

// Claim decides in memory. Only a replay whose body is no longer in memory
// reads the disk.
func (s *Store) Claim(ctx context.Context, c cache.Claim) (cache.Grant, error) {
	if err := s.away(); err != nil {
		return cache.Grant{}, err
	}
	if c.Write != nil {
		return s.claimWrite(ctx, c)
	}
	for {
		g, r, k := s.claim(c)
		if g.Role != cache.Replay {
			return g, nil
		}
		var err error
		if k.answer == nil {
			k, err = s.load(ctx, r)
		}
		if err == nil {
			g.Result, err = k.read()
		}
		if err == nil {
			return g, nil
		}
		if !errors.Is(err, cache.ErrFenced) {
			return cache.Grant{}, err
		}
		// It went meanwhile: decide again.
	}
}

// claim is one atomic step. A replay is of the record, which is returned as it
// was then.
func (s *Store) claim(c cache.Claim) (cache.Grant, *record, kept) {
	sh := s.shard(c.Key)
	now := time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()

	r := sh.records[c.Key]
	var v cache.View
	if r != nil && !r.gone(now) {
		if g, ok := r.recall(c.Nonce, claimed); ok {
			if g.Role != cache.Replay || g.Fence == r.fence {
				return g, r, s.use(sh, r, g)
			}
		}
		v = r.view(now)
	}
	d := cache.Decide(c, v)
	if d.Role == cache.Lead {
		next := &record{
			key: c.Key, fence: cache.Fence(s.fence.Add(1)), fingerprint: c.Fingerprint,
			state: cache.Dispatched, claimedBy: c.Nonce, lapsed: d.Lapsed,
			lease: now.Add(c.Lease), index: -1,
		}
		if r != nil {
			next.inherit(r)
			s.drop(sh, r)
		}
		sh.records[c.Key] = next
		sh.flights.push(next)
		return cache.Grant{Role: cache.Lead, Fence: next.fence, At: now, Lapsed: d.Lapsed}, next, kept{}
	}

	g := cache.Grant{Role: d.Role, Fence: r.fence, Share: d.Share, At: now}
	if d.TakeDebt {
		r.owed = r.owed[1:]
		s.writeOwed(r)
	}
	// An answer that had no effect and can't turn into another kind of one
	// needs no remembering.
	if d.TakeDebt || d.Role == cache.Follow || d.Role == cache.Twin {
		r.remember(step{c.Nonce, claimed, g})
	}
	return g, r, s.use(sh, r, g)
}

// use gives the settled record that a replay is of.
func (s *Store) use(sh *shard, r *record, g cache.Grant) kept {
	if g.Role != cache.Replay {
		return kept{}
	}
	if r.answer != nil {
		s.hold(sh, r)
	}
	return r.kept()
}

// load reads a settled record's answer from disk into memory. ErrFenced: the
// record is gone.
func (s *Store) load(ctx context.Context, r *record) (kept, error) {
	sh := s.shard(r.key)
	for {
		sh.mu.Lock()
		switch {
		case r.answer != nil:
			k := r.kept()
			s.hold(sh, r)
			sh.mu.Unlock()
			return k, nil
		case sh.records[r.key] != r:
			sh.mu.Unlock()
			return kept{}, cache.ErrFenced
		case r.loading == nil:
			done := make(chan struct{})
			r.loading = done
			k := r.kept()
			sh.mu.Unlock()

			var err error
			k.answer, err = s.readAnswer(r.key, r.fence)
			sh.mu.Lock()
			r.loading = nil
			close(done)
			switch {
			case sh.records[r.key] != r:
			case err == nil:
				r.answer = k.answer
				s.hold(sh, r)
			case errors.Is(err, errNoRow), errors.Is(err, cache.ErrCodec):
				// Nothing can be answered with it: the next claim leads.
				s.drop(sh, r)
			}
			sh.mu.Unlock()
			switch {
			case err == nil:
				s.evict()
				return k, nil
			case errors.Is(err, cache.ErrCodec):
				s.oops("read", fmt.Errorf("a damaged answer was dropped: %w", err))
				return kept{}, cache.ErrFenced
			case errors.Is(err, errNoRow):
				return kept{}, cache.ErrFenced
			}
			return kept{}, fmt.Errorf("%w: %w", cache.ErrAway, err)
		}
		loading := r.loading
		sh.mu.Unlock()
		select {
		case <-loading:
		case <-ctx.Done():
			return kept{}, context.Cause(ctx)
		}
	}
}

// current gives the record that is held, or nil. The shard is locked.
func (sh *shard) current(h cache.Hold, now time.Time) *record {
	if r := sh.records[h.Key]; r != nil && r.fence == h.Fence && !r.gone(now) {
		return r
	}
	return nil
}

// Renew extends a lease, a lapsed one too if nobody took over.
func (s *Store) Renew(_ context.Context, h cache.Hold, lease time.Duration) (wanted bool, err error) {
	if err := s.away(); err != nil {
		return false, err
	}
	sh := s.shard(h.Key)
	now := time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.current(h, now)
	if r == nil {
		return sh.renewWrite(h, now, lease)
	}
	if r.state != cache.Dispatched {
		return false, cache.ErrFenced
	}
	r.lease = now.Add(lease)
	return r.wanted || !r.asked.IsZero(), nil
}
