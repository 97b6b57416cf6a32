package local

import (
	"container/list"
	"context"
	"database/sql"
	"time"

	"oncegate/cache"
)

const (
	// sweepRows and sweepBytes bound what one step of the sweep changes on
	// disk, and sweepPause is what is left between two, so that no dispatch
	// waits long behind it.
	sweepRows  = 64
	sweepBytes = 16 << 20
	sweepPause = 10 * time.Millisecond
	answersDue = "SELECT rowid, size FROM writes WHERE state = 2 AND expires <= ? ORDER BY expires LIMIT ?"
	keysDue    = "SELECT rowid, 0 FROM writes WHERE state = 7 AND forgotten <= ? ORDER BY forgotten LIMIT ?"
	// restFor is how long after its last use a settled record stays in memory.
	restFor = 10 * time.Minute
	// restBatch is how many of a shard go at a time.
	restBatch = 4096
)

// meetAll makes every lapsed record that may have been sent unknown.
func (s *Store) meetAll(now time.Time) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for w := range sh.restless {
			s.meet(sh, w, now)
		}
		sh.mu.Unlock()
	}
}

// sweepRestless finds out what lapsed, writes again what could not be written,
// and forgets what was claimed and never heard of again, or has ended a while
// ago.
func (s *Store) sweepRestless(sh *shard, now time.Time) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for w := range sh.restless {
		s.meet(sh, w, now)
		switch {
		case w.queued > 0 || w.pending != nil:
		case w.state == cache.Claimed && !w.doubt && now.Sub(w.lease) > forgetFlight:
			s.become(sh, w, func(w *write) { w.release(now) })
			if w.stored {
				s.save(sh, w, nil)
			}
		case w.unsaved:
			s.save(sh, w, nil)
		}
	}
	s.rest(sh, &sh.released, now, rememberReleased)
	s.rest(sh, &sh.settled, now, restFor)
}

// rest lets those go from memory that were not used for so long.
func (s *Store) rest(sh *shard, in *list.List, now time.Time, after time.Duration) {
	for range restBatch {
		e := in.Front()
		if e == nil {
			break
		}
		w := e.Value.(*write)
		if !w.idle() || now.Sub(w.used) < after {
			break
		}
		s.forgetWrite(sh, w)
	}
}

// sweepWrites takes a bounded step on disk: answers go first, then keys. It
// says whether there is more to do.
func (s *Store) sweepWrites(ctx context.Context, tx *sql.Tx) (more bool, err error) {
	now := s.wall(s.now())
	for _, part := range []struct{ which, do string }{
		{answersDue, "UPDATE writes SET state = 7, frames = NULL WHERE rowid = ?"},
		{keysDue, "DELETE FROM writes WHERE rowid = ?"},
	} {
		ids, full, err := dueRows(ctx, tx, part.which, now)
		if err != nil {
			return false, err
		}
		more = more || full
		for _, id := range ids {
			if _, err := tx.ExecContext(ctx, part.do, id); err != nil {
				return false, err
			}
		}
	}
	return more, nil
}

// dueRows gives rows whose time has come, and whether there may be more.
func dueRows(ctx context.Context, tx *sql.Tx, query string, now int64) (ids []int64, full bool, err error) {
	rows, err := tx.QueryContext(ctx, query, now, sweepRows)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for bytes := int64(0); rows.Next(); {
		var id, size int64
		if err := rows.Scan(&id, &size); err != nil {
			return nil, false, err
		}
		ids = append(ids, id)
		if bytes += size; bytes > sweepBytes {
			return ids, true, nil
		}
	}
	return ids, len(ids) == sweepRows, rows.Err()
}
