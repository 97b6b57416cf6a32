package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"oncegate/cache"
)

// pendingWrite is a step on its way to disk. Until it is there the record is
// as it was, and its lease does not lapse.
type pendingWrite struct {
	nonce cache.Nonce
	what  kind
	done  chan struct{}
	err   error // valid once done is closed
}

// writeOp is a change of the records of writes, for the writer.
type writeOp struct {
	key   cache.Key
	row   *writeRow // to be written
	erase bool      // its row is to be deleted
	audit []*auditRow
	sums  []byte // lines to be booked with it, encoded
	sync  bool   // on disk, synced, before done is called
	done  func(error)
}

// commitWrite takes a step that is on disk before it counts. The shard is
// locked, and is let go.
func (s *Store) commitWrite(ctx context.Context, sh *shard, w *write, n cache.Nonce, what kind, change func(*write), o writeOp) error {
	p := &pendingWrite{nonce: n, what: what, done: make(chan struct{})}
	next := *w // what it will be; the record itself changes once that is on disk
	change(&next)
	w.pending = p
	o.key, o.sync = w.key, true
	if next.state == cache.Released {
		o.erase = true
	}
	s.enqueue(sh, w, &next, o, func(err error) {
		w.pending = nil
		if err != nil {
			p.err = fmt.Errorf("%w: the step could not be written: %w", cache.ErrAway, err)
		} else {
			s.become(sh, w, change)
		}
		close(p.done)
	})
	sh.mu.Unlock()
	if err := s.await(ctx, p); err != nil {
		return err
	}
	s.evict()
	return p.err
}

// save writes a change behind that is in memory already, and books what it
// comes to.
func (s *Store) save(sh *shard, w *write, sums []byte) {
	s.enqueue(sh, w, w, writeOp{key: w.key, sums: sums, erase: w.state == cache.Released}, func(err error) {
		if s.behind(err); err != nil {
			w.unsaved = true
			s.place(sh, w) // for the sweeper to try again
		}
	})
}

// behind tells of a fault when it begins, not while it lasts.
func (s *Store) behind(err error) {
	if err == nil {
		s.failing.Store(false)
	} else if !s.failing.Swap(true) {
		s.oops("write", err)
	}
}

// enqueue gives the writer a change of the record to what next is. done is
// called with the shard locked, which it is here too.
func (s *Store) enqueue(sh *shard, w, next *write, o writeOp, done func(error)) {
	// What could not be booked or told before goes with it. Of a step that is
	// waited for, that alone is to be tried again: its caller sends the rest.
	owing, told := w.owing, w.told
	o.sums, o.audit = append(slices.Clip(o.sums), owing...), append(slices.Clip(o.audit), told...)
	if w.owing, w.told = nil, nil; !o.sync {
		owing, told = o.sums, o.audit
	}
	if !o.erase {
		o.row = s.rowOfWrite(next, w.row == next.fence)
	}
	w.queued++
	w.stored, w.row = true, next.fence
	if o.erase {
		w.row = 0
	}
	if len(o.sums) > 0 {
		s.ledger.coming.Add(1)
	}
	o.done = func(err error) {
		if len(o.sums) > 0 {
			s.ledger.coming.Add(-1)
		}
		sh.mu.Lock()
		defer sh.mu.Unlock()
		w.queued--
		if err == nil {
			w.unsaved = false
			w.stored = !o.erase || w.queued > 0
		} else {
			w.owing, w.told = append(w.owing, owing...), append(w.told, told...)
			w.row = 0 // it may be there or not
		}
		done(err)
	}
	s.writer.put(op{what: writing, write: &o})
}

// putAudit writes the latest step to the audit behind, and so before the
// dispatch that it lets follow.
func (s *Store) putAudit(sh *shard, w *write) {
	rows := []*auditRow{s.audit(w)}
	w.queued++
	s.writer.put(op{what: writing, write: &writeOp{audit: rows, done: func(err error) {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		w.queued--
		if s.behind(err); err != nil {
			w.told = append(w.told, rows...)
		}
	}}})
}

// wait lets a record go until the step that is on its way to disk is there.
func (s *Store) wait(ctx context.Context, sh *shard, p *pendingWrite) error {
	sh.mu.Unlock()
	return s.await(ctx, p)
}

// await waits for a step that is on its way to disk.
func (s *Store) await(ctx context.Context, p *pendingWrite) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w: %w", cache.ErrAway, cache.ErrLost, context.Cause(ctx))
	case <-s.writer.done:
	}
	select {
	case <-p.done:
		return nil
	default: // it came after the last
		return s.away()
	}
}

// flush waits until what was put before is on disk.
func (s *Store) flush(ctx context.Context) error {
	p := &pendingWrite{done: make(chan struct{})}
	s.writer.put(op{what: writing, write: &writeOp{done: func(error) { close(p.done) }}})
	return s.await(ctx, p)
}

// writeStmts are the writer's statements for writes.
type writeStmts struct{ insert, update, erase, audit *sql.Stmt }

func (st *writeStmts) prepare(ctx context.Context, conn *sql.Conn) (err error) {
	for _, one := range []struct {
		into **sql.Stmt
		text string
	}{
		{&st.insert, writeInsert}, {&st.update, writeUpdate}, {&st.erase, "DELETE FROM writes WHERE key = ?"},
		{&st.audit, "INSERT INTO audit (key, at, about, step) VALUES (?, ?, ?, ?)"},
	} {
		if *one.into, err = conn.PrepareContext(ctx, one.text); err != nil {
			return err
		}
	}
	return nil
}

func (st *writeStmts) close() {
	for _, stmt := range []*sql.Stmt{st.insert, st.update, st.erase, st.audit} {
		if stmt != nil {
			stmt.Close()
		}
	}
}

// do makes one change, in the writer's transaction.
func (st *writeStmts) do(ctx context.Context, o *writeOp) (err error) {
	for _, a := range o.audit {
		if _, err := st.audit.ExecContext(ctx, a.key[:], a.at, a.about, a.step); err != nil {
			return err
		}
	}
	var done sql.Result
	switch r := o.row; {
	case o.erase:
		_, err = st.erase.ExecContext(ctx, o.key[:])
	case r == nil:
	case r.update:
		done, err = st.update.ExecContext(ctx, r.state, r.doubt, r.lost, r.dispatched, r.settled, r.expires, r.forgotten, r.status, r.size, r.sum,
			r.nonce, r.how, r.trail, r.lapses, r.frames, o.key[:], r.fence)
	default:
		done, err = st.insert.ExecContext(ctx, o.key[:], r.fence, r.origin, r.print, r.tool, r.principal, r.about, r.claimed,
			r.state, r.doubt, r.lost, r.dispatched, r.settled, r.expires, r.forgotten, r.status, r.size, r.sum,
			r.nonce, r.how, r.trail, r.lapses, r.frames)
	}
	if err == nil && done != nil {
		if n, _ := done.RowsAffected(); n == 0 {
			return errors.New("its row is not the one that was expected")
		}
	}
	return err
}
