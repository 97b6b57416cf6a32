package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"oncegate/cache"
)

// writes keeps records of writes in memory, as far as the tests of the API go.
type writes struct {
	cache.Store
	mu    sync.Mutex
	recs  map[cache.Key]*cache.Record
	order []cache.Key
	audit []cache.Audit
	last  cache.Nonce
}

func (s *writes) step(r *cache.Record, st cache.Step) {
	st.At, st.Fence = time.Now(), r.Fence
	r.Trail = cache.AddStep(r.Trail, st)
}

func (s *writes) Claim(ctx context.Context, c cache.Claim) (cache.Grant, error) {
	if c.Write == nil {
		return s.Store.Claim(ctx, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[c.Key]
	if r != nil && r.State == cache.Completed {
		role := cache.Replay
		if r.Frames == nil {
			role = cache.Gone
		}
		return cache.Grant{Role: role, Fence: r.Fence, Result: &cache.Result{State: cache.Completed, Frames: r.Frames, Status: r.Status, Size: r.Size, Sum: r.Sum}}, nil
	}
	if r != nil && r.State == cache.Unknown && !c.Write.Knowingly {
		return cache.Grant{Role: cache.InDoubt, Fence: r.Fence}, nil
	}
	if r == nil {
		r = &cache.Record{Key: c.Key}
		s.recs[c.Key] = r
		s.order = append(s.order, c.Key)
	}
	r.Fence, r.State, r.About, r.Claimed = r.Fence+1, cache.Claimed, c.Write.About, time.Now()
	r.Origin = max(1, r.Origin)
	s.step(r, cache.Step{What: cache.StepClaimed})
	return cache.Grant{Role: cache.Lead, Fence: r.Fence, Origin: r.Origin}, nil
}

func (s *writes) Dispatch(_ context.Context, h cache.Hold, _ cache.Nonce) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[h.Key]
	r.State, r.Dispatched = cache.Dispatched, time.Now()
	s.step(r, cache.Step{What: cache.StepDispatched})
	return nil
}

func (s *writes) Settle(ctx context.Context, h cache.Hold, set cache.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[h.Key]
	if r == nil {
		return s.Store.Settle(ctx, h, set)
	}
	s.end(r, set.Result, set.Keep, set.Memory)
	s.step(r, cache.Step{What: map[cache.State]string{cache.Unknown: "unknown", cache.Completed: "completed"}[set.Result.State], Status: r.Status})
	return nil
}

func (s *writes) end(r *cache.Record, res cache.Result, keep, memory time.Duration) {
	r.State, r.Status, r.Size, r.Sum, r.Frames, r.Settled = res.State, res.Status, res.Size, res.Sum, res.Frames, time.Now()
	if res.State == cache.Completed {
		r.Expires, r.Forgotten = r.Settled.Add(keep), r.Settled.Add(memory)
	}
}

func (s *writes) Resolve(_ context.Context, k cache.Key, res cache.Resolution) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.recs[k]
	switch {
	case res.Nonce == s.last:
		return nil
	case r == nil:
		return cache.ErrNone
	case r.State != cache.Unknown:
		return cache.ErrSettled
	case res.Fence != 0 && res.Fence != r.Fence:
		return cache.ErrFenced
	}
	s.last = res.Nonce
	st := cache.Step{What: cache.StepResolved, Actor: res.Actor, Reason: res.Reason, As: "completed", Status: res.Result.Status}
	if s.end(r, res.Result, res.Keep, res.Memory); res.Result.State == cache.Released {
		st.As = "released"
		delete(s.recs, k)
		s.order = slices.DeleteFunc(s.order, func(o cache.Key) bool { return o == k })
	}
	s.step(r, st)
	s.audit = slices.Insert(s.audit, 0, cache.Audit{Key: k, About: r.About, Step: r.Trail[len(r.Trail)-1]})
	return nil
}

func (s *writes) Record(_ context.Context, k cache.Key) (cache.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.recs[k]; r != nil {
		out := *r
		if r.State == cache.Completed && r.Frames == nil {
			out.State = cache.Tombstone
		}
		return out, nil
	}
	return cache.Record{}, cache.ErrNone
}

func (s *writes) Records(_ context.Context, f cache.Filter, cursor string, limit int) (page []cache.Record, next string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Backward(s.order) {
		r := *s.recs[k]
		if f.State != cache.Absent && f.State != r.State || f.Tool != "" && f.Tool != r.About.Tool || f.Principal != "" && f.Principal != r.About.Principal {
			continue
		}
		r.Trail, r.Frames = nil, nil
		page = append(page, r)
	}
	return cut(page, cursor, limit)
}

func (s *writes) Audits(_ context.Context, cursor string, limit int) ([]cache.Audit, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cut(s.audit, cursor, limit)
}

func cut[T any](all []T, cursor string, limit int) ([]T, string, error) {
	from := 0
	if cursor != "" {
		var err error
		if from, err = strconv.Atoi(cursor); err != nil || from > len(all) {
			return nil, "", fmt.Errorf("%w: %q", cache.ErrCursor, cursor)
		}
	}
	to, next := min(len(all), from+limit), ""
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[from:to], next, nil
}
