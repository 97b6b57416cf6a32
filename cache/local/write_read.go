package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"oncegate/cache"
)

// answerOf gives what a replay of a record that completed reads, from disk if
// need be. The shard is locked, and is let go. ErrFenced: the answer went.
func (s *Store) answerOf(ctx context.Context, sh *shard, w *write) (*cache.Result, error) {
	res, answer, fence := w.result(), w.answer, w.fence
	s.useWrite(w)
	if answer != nil {
		s.unlockWrite(sh, w)
		return read(res, answer)
	}
	if reading := w.reading; reading != nil {
		s.unlockWrite(sh, w)
		select {
		case <-reading:
			return nil, cache.ErrFenced // look again
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	reading := make(chan struct{})
	w.reading = reading
	s.unlockWrite(sh, w)

	answer, err := s.readFrames(w.key, fence)
	sh.mu.Lock()
	close(reading)
	if w.reading == reading {
		w.reading = nil
		switch {
		case err == nil:
			w.answer = answer
			s.place(sh, w)
		case errors.Is(err, sql.ErrNoRows), errors.Is(err, cache.ErrCodec):
			w.kept = false // and never run again for that
		}
	}
	sh.mu.Unlock()
	switch {
	case err == nil:
		s.evict()
		return read(res, answer)
	case errors.Is(err, cache.ErrCodec):
		s.oops("read", fmt.Errorf("a damaged answer of a write was dropped: %w", err))
		return nil, cache.ErrFenced
	case errors.Is(err, sql.ErrNoRows):
		return nil, cache.ErrFenced
	}
	return nil, fmt.Errorf("%w: %w", cache.ErrAway, err)
}

// read decodes an answer into a result.
func read(res *cache.Result, answer []byte) (*cache.Result, error) {
	frames, err := cache.DecodeFrames(answer)
	res.Frames = frames
	return res, err
}

// readFrames reads the answer of a record that completed; sql.ErrNoRows when
// it is not kept any more, cache.ErrCodec when it is damaged.
func (s *Store) readFrames(k cache.Key, f cache.Fence) (b []byte, err error) {
	err = s.writeFrames.QueryRowContext(context.Background(), k[:], int64(f)).Scan(&b)
	if err == nil {
		_, err = cache.DecodeFrames(b)
	}
	return b, err
}

// readWrite is Read of a write.
func (s *Store) readWrite(ctx context.Context, h cache.Hold, from int) ([]cache.Frame, *cache.Result, error) {
	for {
		sh, w, err := s.lockWrite(ctx, h.Key)
		if err != nil {
			return nil, nil, err
		}
		now := s.now()
		s.meet(sh, w, now)
		late := w.late(now)
		switch {
		case w.fence != h.Fence, w.state == cache.Absent,
			w.state == cache.Released && !now.Before(w.expires),
			w.state == cache.Completed && !now.Before(w.expires) && (w.kept || !now.Before(w.settled.Add(rememberReleased))):
			s.unlockWrite(sh, w)
			return nil, nil, cache.ErrFenced
		case w.state == cache.Unknown && w.lost:
			s.unlockWrite(sh, w)
			return nil, nil, cache.ErrLapsed
		case w.state == cache.Completed && w.kept:
			res, err := s.answerOf(ctx, sh, w)
			if errors.Is(err, cache.ErrFenced) { // look again
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			return tail(res.Frames, from), res, nil
		case !w.inFlight():
			res, answer := w.result(), w.answer
			s.unlockWrite(sh, w)
			if answer != nil {
				if res, err = read(res, answer); err != nil {
					return nil, nil, err
				}
			}
			return tail(res.Frames, from), res, nil
		case from < len(w.log):
			w.wanted = true
			frames := tail(w.log, from)
			s.unlockWrite(sh, w)
			return frames, nil, nil
		}
		w.wanted = true
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed, left := w.changed, time.Until(w.lease)
		if p := w.pending; p != nil {
			changed, left = p.done, time.Hour
		}
		s.unlockWrite(sh, w)
		if late {
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

// Record gives one record, with all that is known.
func (s *Store) Record(ctx context.Context, k cache.Key) (cache.Record, error) {
	for {
		sh, w, err := s.lockWrite(ctx, k)
		if err != nil {
			return cache.Record{}, err
		}
		now := s.now()
		s.meet(sh, w, now)
		if !w.known(now) {
			s.unlockWrite(sh, w)
			return cache.Record{}, cache.ErrNone
		}
		r := w.record(now)
		r.Trail = slices.Clone(w.trail)
		if r.State != cache.Completed {
			s.unlockWrite(sh, w)
			return r, nil
		}
		res, err := s.answerOf(ctx, sh, w)
		if errors.Is(err, cache.ErrFenced) {
			continue
		}
		if err != nil {
			return cache.Record{}, err
		}
		r.Frames = res.Frames
		return r, nil
	}
}

// record is what is known of a record, less its answer, and all of its trail but
// the last step.
func (w *write) record(now time.Time) cache.Record {
	r := cache.Record{
		Key: w.key, Fence: w.fence, Origin: w.origin, State: w.state, About: w.about, Claimed: w.claimed, Dispatched: w.dispatched,
		Status: w.status, Size: w.size, Sum: w.sum, Read: now, Trail: slices.Clone(w.trail[max(0, len(w.trail)-1):]),
	}
	if !w.inFlight() {
		r.Settled = w.settled
	}
	if w.state == cache.Completed {
		r.Forgotten = w.forgotten
		if r.State = cache.Tombstone; w.kept && now.Before(w.expires) {
			r.State, r.Expires = cache.Completed, w.expires
		}
	}
	return r
}
