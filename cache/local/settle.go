package local

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"oncegate/cache"
)

// rememberReleased is how long the nonces of a released record are
// remembered, so that its steps can be sent again.
const rememberReleased = time.Minute

// pending is a settlement on its way to disk.
type pending struct {
	nonce   cache.Nonce
	kept    kept
	expires time.Time
	keep    time.Duration
	owed    []time.Time
	lines   []cache.Line
	done    chan struct{}
	err     error // valid once done is closed
}

// Settle ends a record. Where it must be on disk first, the record stays in
// flight until it is: nobody gets an answer that a crash could take back.
//
// Where the disk fails, the result is settled in memory all the same, and the
// error says that it is only there.
func (s *Store) Settle(ctx context.Context, h cache.Hold, set cache.Settlement) error {
	if err := s.away(); err != nil {
		return err
	}
	// As on disk: in one piece it costs the garbage collector a ninth of what
	// frames and their headers do.
	answer := cache.EncodeFrames(set.Result.Frames)
	wait, err := s.settle(h, set, answer)
	if errors.Is(err, errNoRow) { // no completion's
		return s.settleWrite(ctx, h, set, answer)
	}
	if wait == nil {
		s.evict()
		return err
	}
	select {
	case <-wait.done:
		s.evict()
		if err == nil {
			err = wait.err
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", cache.ErrAway, context.Cause(ctx))
	}
}

// settle is one atomic step; it gives what is to be waited for, if anything.
// errNoRow: there is no such record of a completion.
func (s *Store) settle(h cache.Hold, set cache.Settlement, answer []byte) (*pending, error) {
	sh := s.shard(h.Key)
	now := time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()

	r := sh.records[h.Key]
	if r == nil {
		return nil, errNoRow
	}
	if g, ok := r.recall(set.Nonce, settled); ok && g.Fence == h.Fence {
		return nil, nil
	}
	if r.fence != h.Fence || r.state != cache.Dispatched {
		return nil, cache.ErrFenced
	}
	if p := r.pending; p != nil {
		if p.nonce == set.Nonce {
			return p, nil
		}
		// Refused by the other, which has its effect only when it is on disk.
		return p, cache.ErrFenced
	}
	if set.Alone && (r.wanted || !r.asked.IsZero()) {
		return nil, cache.ErrFollowed
	}

	res := set.Result
	res.Settled, res.Ended = now, set.Ended
	if res.State != cache.Completed && res.State != cache.Failed || set.Keep <= 0 {
		res.State = cache.Released
	}
	if res.State == cache.Released && res.Frames == nil && r.log != nil {
		answer = cache.EncodeFrames(r.log) // its readers may still be on their way to the end
	}
	res.Frames = nil
	p := pending{nonce: set.Nonce, kept: kept{res, answer}, keep: set.Keep, expires: now.Add(set.Keep), owed: r.owed}
	if res.State == cache.Released {
		p.keep, p.owed, p.expires = 0, nil, now.Add(rememberReleased)
	}
	if res.State == cache.Completed {
		for _, left := range set.Owed {
			if end := left.Add(set.Debt); now.Before(end) {
				r.owe(end)
			}
		}
		p.owed = r.owed
		if set.Disk {
			wait := new(pending)
			*wait = p
			wait.done, wait.lines = make(chan struct{}), s.ledger.fit(set.Lines)
			r.pending = wait
			s.writer.put(op{what: insert, key: r.key, fence: r.fence, record: r, row: rowOf(r, wait), pending: wait, lines: wait.lines})
			return wait, nil
		}
	}
	s.ledger.add(set.Lines)
	s.end(sh, r, &p)
	if res.State == cache.Completed && len(r.owed) > 0 {
		s.writeBehind(r)
	}
	return nil, nil
}

// end makes the record what its settlement says.
func (s *Store) end(sh *shard, r *record, p *pending) {
	r.state, r.cut, r.settledBy = p.kept.result.State, p.kept.result.Cut, p.nonce
	r.settled, r.expires, r.keep, r.answer = p.kept.result.Settled, p.expires, p.keep, p.kept.answer
	r.ended, r.pending, r.log = p.kept.result.Ended, nil, nil
	if r.state != cache.Completed {
		r.owed = nil
	}
	s.hold(sh, r)
	heap.Push(&sh.deadlines, r)
	r.tell()
}

// begun is called by the writer when it is about to put a settlement's row on
// disk. false: another leads meanwhile. From here on nobody takes over any
// more: what is booked with the row would be booked twice.
func (s *Store) begun(o op) bool {
	sh := s.shard(o.key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.records[o.key] != o.record {
		return false
	}
	o.record.lease = time.Now().Add(1000 * time.Hour)
	return true
}

// committed is called by the writer when a row is on disk, or could not be
// put there.
func (s *Store) committed(o op, err error) {
	sh := s.shard(o.key)
	r := o.record
	sh.mu.Lock()
	current := sh.records[o.key] == r
	if p := o.pending; p == nil {
		if current && r.where == queued {
			if r.where = stored; err != nil {
				r.where = nowhere
			}
		}
	} else {
		switch {
		case !current:
			p.err = cache.ErrFenced
		default:
			if r.where = stored; err != nil {
				r.where = nowhere
				p.err = fmt.Errorf("the answer is kept in memory only: %w", err)
				s.ledger.add(p.lines)
			}
			more := !slices.Equal(r.owed, p.owed) // changed while it was on its way
			s.end(sh, r, p)
			if more {
				s.writeOwed(r)
			}
		}
		close(p.done)
	}
	sh.mu.Unlock()
	if o.pending == nil {
		s.oops("write", err)
	}
}

// writeBehind puts a settled record on disk soon.
func (s *Store) writeBehind(r *record) {
	p := pending{kept: r.kept(), keep: r.keep, owed: r.owed}
	r.where = queued
	s.writer.put(op{what: insert, key: r.key, fence: r.fence, record: r, row: rowOf(r, &p)})
}

// writeOwed puts a change of a record's debts on disk soon, if the record is
// there.
func (s *Store) writeOwed(r *record) {
	if r.where != nowhere {
		s.writer.put(op{what: update, key: r.key, fence: r.fence, owed: r.owed})
	}
}

// Owe adds a debt to a record in flight or settled. A record that was in
// memory only goes to disk behind.
func (s *Store) Owe(_ context.Context, h cache.Hold, n cache.Nonce, d time.Duration) error {
	if err := s.away(); err != nil {
		return err
	}
	sh := s.shard(h.Key)
	now := time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r := sh.current(h, now)
	if r == nil || r.state != cache.Dispatched && r.state != cache.Completed || d <= 0 {
		return nil
	}
	if _, again := r.recall(n, owed); again {
		return nil
	}
	r.view(now) // drops what has ended
	r.owe(now.Add(d))
	r.remember(step{nonce: n, kind: owed})
	switch {
	case r.state == cache.Dispatched:
	case r.where == nowhere && r.answer != nil:
		s.writeBehind(r)
	default:
		s.writeOwed(r)
	}
	return nil
}
