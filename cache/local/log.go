package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oncegate/cache"
)

// Append keeps the log of a record in flight in memory.
func (s *Store) Append(_ context.Context, h cache.Hold, from int, frames []cache.Frame) error {
	if err := s.away(); err != nil {
		return err
	}
	sh := s.shard(h.Key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.current(h, time.Now())
	switch {
	case r == nil:
		return sh.appendWrite(h, from, frames)
	case r.state != cache.Dispatched:
		return cache.ErrFenced
	case from < 0 || from > len(r.log):
		return gap(from, len(r.log))
	}
	if have := len(r.log) - from; have < len(frames) {
		r.log = append(r.log, frames[have:]...)
		r.tell()
	}
	return nil
}

// Ask wakes those who wait for more of a log: they read on, and so mark it anew.
func (s *Store) Ask(_ context.Context, h cache.Hold) (wanted bool, err error) {
	if err := s.away(); err != nil {
		return false, err
	}
	sh := s.shard(h.Key)
	now := time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.current(h, now)
	switch {
	case r == nil || r.state != cache.Dispatched:
		return false, cache.ErrFenced
	case r.wanted:
		r.wanted, r.asked = false, now
		r.tell()
	case now.Sub(r.asked) >= cache.Unread:
		r.asked = time.Time{}
	}
	return !r.asked.IsZero(), nil
}

// Read gives frames of the log in flight, or of the result.
func (s *Store) Read(ctx context.Context, h cache.Hold, from int) ([]cache.Frame, *cache.Result, error) {
	if from < 0 {
		return nil, nil, errors.New("cache: no frame has an index below 0")
	}
	sh := s.shard(h.Key)
	for {
		if err := s.away(); err != nil {
			return nil, nil, err
		}
		sh.mu.Lock()
		r := sh.current(h, time.Now())
		switch {
		case r == nil:
			sh.mu.Unlock()
			return s.readWrite(ctx, h, from)
		case r.state != cache.Dispatched:
			k := r.kept()
			sh.mu.Unlock()
			var err error
			if k.answer == nil {
				if k, err = s.load(ctx, r); err != nil {
					return nil, nil, err
				}
			}
			res, err := k.read()
			if err != nil {
				return nil, nil, err
			}
			return tail(res.Frames, from), res, nil
		}
		r.wanted = true
		if from < len(r.log) {
			frames := tail(r.log, from)
			sh.mu.Unlock()
			return frames, nil, nil
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed, left := r.changed, time.Until(r.lease)
		sh.mu.Unlock()
		if left <= 0 {
			return nil, nil, cache.ErrLapsed
		}
		lapse := time.NewTimer(left)
		select {
		case <-changed:
		case <-lapse.C:
		case <-ctx.Done():
			lapse.Stop()
			return nil, nil, context.Cause(ctx)
		case <-s.closed:
		}
		lapse.Stop()
	}
}

func gap(from, have int) error {
	return fmt.Errorf("cache: frames from %d on leave a gap after the %d that are there", from, have)
}

// tail gives frames from an index on, in a slice that can't grow into theirs.
func tail(frames []cache.Frame, from int) []cache.Frame {
	if from >= len(frames) {
		return nil
	}
	return frames[from:len(frames):len(frames)]
}
