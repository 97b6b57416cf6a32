package local

import (
	"context"
	"fmt"
	"time"

	"oncegate/cache"
)

// Forget drops a settled completion, and writes that to the audit after it: what
// the audit has is gone from disk too.
func (s *Store) Forget(ctx context.Context, k cache.Key, actor, reason string) error {
	if err := s.away(); err != nil {
		return err
	}
	now := time.Now()
	p := &pendingWrite{done: make(chan struct{})}
	sh := s.shard(k)
	sh.mu.Lock()
	r := sh.records[k]
	if r == nil || r.gone(now) || r.state != cache.Completed && r.state != cache.Failed {
		sh.mu.Unlock()
		return cache.ErrNone
	}
	step := cache.Step{At: now, What: cache.StepForgotten, Fence: r.fence, Actor: actor, Reason: reason}
	s.drop(sh, r)
	s.writer.put(op{what: writing, write: &writeOp{
		sync:  true,
		audit: []*auditRow{{k, s.wall(now), jsonOf(cache.About{}), jsonOf(step)}},
		done: func(err error) {
			if err != nil {
				p.err = fmt.Errorf("%w: it is forgotten, and that could not be written down: %w", cache.ErrAway, err)
			}
			close(p.done)
		},
	}})
	sh.mu.Unlock()
	if err := s.await(ctx, p); err != nil {
		return err
	}
	return p.err
}
