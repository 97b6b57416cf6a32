package local

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"oncegate/cache"
)

// writesSchema came with version 3. States are cache.State, times in
// nanoseconds since 1970 (0: not yet), about and trail JSON. A row is there
// from the dispatch on. frames is last, so that the others are read without it;
// NULL where the answer is not kept. lapses is what is to be booked should
// nobody settle.
//
// writes_flight is for the start after a crash, the next two for the sweeper,
// the last two for listings: the one by claim has what they filter by.
const writesSchema = `
CREATE TABLE writes (
	key        BLOB PRIMARY KEY,
	fence      INTEGER NOT NULL,
	origin     INTEGER NOT NULL,
	print      BLOB NOT NULL,
	tool       TEXT NOT NULL,
	principal  TEXT NOT NULL,
	about      TEXT NOT NULL,
	claimed    INTEGER NOT NULL,
	state      INTEGER NOT NULL,
	doubt      INTEGER NOT NULL,
	lost       INTEGER NOT NULL,
	dispatched INTEGER NOT NULL,
	settled    INTEGER NOT NULL,
	expires    INTEGER NOT NULL,
	forgotten  INTEGER NOT NULL,
	status     INTEGER NOT NULL,
	size       INTEGER NOT NULL,
	sum        BLOB,
	nonce      BLOB,
	how        INTEGER NOT NULL,
	trail      TEXT NOT NULL,
	lapses     BLOB,
	frames     BLOB
);
CREATE INDEX writes_flight ON writes (state) WHERE state IN (1, 5);
CREATE INDEX writes_expires ON writes (expires) WHERE state = 2;
CREATE INDEX writes_forgotten ON writes (forgotten) WHERE state = 7;
CREATE INDEX writes_unknown ON writes (dispatched, key) WHERE state = 6;
CREATE INDEX writes_claimed ON writes (claimed, key, tool, principal);
CREATE TABLE audit (
	id    INTEGER PRIMARY KEY,
	key   BLOB NOT NULL,
	at    INTEGER NOT NULL,
	about TEXT NOT NULL,
	step  TEXT NOT NULL
);
CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is not edited'); END;
CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is not edited'); END;
CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE id = NEW.id)
	BEGIN SELECT RAISE(ABORT, 'the audit is not edited'); END;`

const (
	// writeInsert begins an operation's row, or that of another claim of it.
	writeInsert = `INSERT INTO writes (key, fence, origin, print, tool, principal, about, claimed,
			state, doubt, lost, dispatched, settled, expires, forgotten, status, size, sum, nonce, how, trail, lapses, frames)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET fence = excluded.fence, origin = excluded.origin, print = excluded.print, tool = excluded.tool,
			principal = excluded.principal, about = excluded.about, claimed = excluded.claimed, state = excluded.state,
			doubt = excluded.doubt, lost = excluded.lost, dispatched = excluded.dispatched, settled = excluded.settled,
			expires = excluded.expires, forgotten = excluded.forgotten, status = excluded.status, size = excluded.size, sum = excluded.sum,
			nonce = excluded.nonce, how = excluded.how, trail = excluded.trail, lapses = excluded.lapses, frames = excluded.frames
		WHERE excluded.fence >= fence`
	// writeUpdate is a later step of the same claim. It leaves the index by
	// claim alone.
	writeUpdate = `UPDATE writes SET state = ?, doubt = ?, lost = ?, dispatched = ?, settled = ?, expires = ?, forgotten = ?,
			status = ?, size = ?, sum = ?, nonce = ?, how = ?, trail = ?, lapses = ?, frames = ?
		WHERE key = ? AND fence = ?`
	// writeRead is what is read of a row but for its answer.
	writeRead = "SELECT " + beforeState + "state" + afterState
	// writeListed is that of a row whose answer is not read after it: one that
	// has none is a tombstone.
	writeListed = "SELECT " + beforeState + "CASE WHEN state = 2 AND frames IS NULL THEN 7 ELSE state END" + afterState

	beforeState = "key, fence, origin, print, about, claimed, "
	afterState  = ", doubt, lost, dispatched, settled, expires, forgotten, status, size, sum, nonce, how, trail FROM writes"
)

// prepareReads prepares what is read of a single row: half of what a fresh
// key's claim costs would be that.
func (s *Store) prepareReads(ctx context.Context) (err error) {
	if s.writeRow, err = s.db.PrepareContext(ctx, writeRead+" WHERE key = ?"); err == nil {
		s.writeFrames, err = s.db.PrepareContext(ctx, "SELECT frames FROM writes WHERE key = ? AND fence = ? AND frames IS NOT NULL")
	}
	return err
}

// writeRow is what is written of a record.
type writeRow struct {
	update                                           bool // else insert
	fence, origin                                    int64
	print                                            []byte
	tool, principal, about                           string
	claimed, dispatched, settled, expires, forgotten int64
	state, status, size, how                         int64
	doubt, lost                                      bool
	sum, nonce                                       any // of bytes, or nil
	trail                                            string
	lapses, frames                                   any // likewise
}

// rowOfWrite gives a record's row as it is now. It has nothing in common with
// the record that may change.
func (s *Store) rowOfWrite(w *write, update bool) *writeRow {
	r := &writeRow{
		update: update, fence: int64(w.fence), state: int64(w.state), doubt: w.doubt, lost: w.lost,
		dispatched: s.wall(w.dispatched), settled: s.wall(w.settled), status: int64(w.status), size: w.size, how: int64(w.endedHow),
		trail: jsonOf(w.trail),
	}
	if !update {
		r.origin, r.print, r.tool, r.principal = int64(w.origin), bytes.Clone(w.print[:]), w.about.Tool, w.about.Principal
		r.about, r.claimed = jsonOf(w.about), s.wall(w.claimed)
	}
	if w.state == cache.Completed {
		r.expires, r.forgotten = s.wall(w.expires), s.wall(w.forgotten)
	}
	if w.sum != ([32]byte{}) {
		r.sum = bytes.Clone(w.sum[:])
	}
	if w.endedBy != (cache.Nonce{}) {
		r.nonce = bytes.Clone(w.endedBy[:])
	}
	if len(w.lapses) > 0 && w.state == cache.Dispatched {
		r.lapses = w.lapses
	}
	if w.state == cache.Completed && w.kept {
		r.frames = w.answer
	}
	return r
}

// jsonOf encodes what always can be.
func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// wall gives a moment by the wall clock as it was when the store was opened,
// and went on since: what is set back or ahead meanwhile changes nothing.
func (s *Store) wall(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return s.opened.UnixNano() + int64(t.Sub(s.opened))
}

// now is the present by that clock.
func (s *Store) now() time.Time { return s.opened.Add(time.Since(s.opened)) }

// moment is the reverse of wall.
func (s *Store) moment(wall int64) time.Time {
	if wall == 0 {
		return time.Time{}
	}
	return s.opened.Add(time.Duration(wall - s.opened.UnixNano()))
}

// readWriteRow reads a record from its row. One that has none is left Absent.
func (s *Store) readWriteRow(w *write) error {
	err := s.scanWrite(s.writeRow.QueryRowContext(context.Background(), w.key[:]), w)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// scanWrite reads a row of writeRead.
func (s *Store) scanWrite(row interface{ Scan(...any) error }, w *write) error {
	var key, print, about, sum, nonce, trail []byte
	var fence, origin, claimed, dispatched, settled, expires, forgotten, how int64
	var state cache.State
	if err := row.Scan(&key, &fence, &origin, &print, &about, &claimed, &state, &w.doubt, &w.lost, &dispatched, &settled, &expires, &forgotten,
		&w.status, &w.size, &sum, &nonce, &how, &trail); err != nil {
		return err
	}
	err := errors.Join(json.Unmarshal(about, &w.about), json.Unmarshal(trail, &w.trail))
	if err != nil || len(key) != len(w.key) || len(print) != len(w.print) {
		return fmt.Errorf("%w: a write's row is not as it was written: %w", errDamaged, err)
	}
	copy(w.key[:], key)
	copy(w.print[:], print)
	copy(w.sum[:], sum)
	copy(w.endedBy[:], nonce)
	w.fence, w.origin, w.row, w.endedHow, w.stored = cache.Fence(fence), cache.Fence(origin), cache.Fence(fence), kind(how), true
	// A wall clock that was set back makes nothing live longer than it was
	// settled for.
	back := max(0, settled-s.wall(s.now()))
	w.claimed, w.dispatched, w.settled = s.moment(claimed), s.moment(dispatched), s.moment(settled-back)
	switch w.state = cache.Unknown; state {
	case cache.Completed, cache.Tombstone:
		w.state, w.kept = cache.Completed, state == cache.Completed
		w.expires, w.forgotten = s.moment(expires-back), s.moment(forgotten-back)
	}
	for i := range w.trail { // by the same clock
		w.trail[i].At = s.moment(w.trail[i].At.UnixNano())
	}
	return nil
}

// What a start does. Each condition begins with the index's own, which SQLite
// does not see in a narrower one.
const (
	freeClaimed  = "DELETE FROM writes WHERE state IN (1, 5) AND state = 5 AND NOT doubt"
	bookLapses   = "INSERT INTO booked (sums) SELECT lapses FROM writes WHERE state IN (1, 5) AND state = 1 AND lapses IS NOT NULL"
	doubtFlights = `UPDATE writes SET state = 6, lost = 1, settled = ?, lapses = NULL,
		trail = json_insert(trail, '$[#]', json_object('at', json(?), 'what', ?, 'fence', fence)) WHERE state IN (1, 5)`
	countDoubts = "SELECT tool, count(*) FROM writes WHERE state = 6 GROUP BY tool"
)

// recoverWrites makes what a dead process had dispatched unknown, books what
// it comes to, and frees what was only claimed.
func (s *Store) recoverWrites(ctx context.Context, tx *sql.Tx) error {
	now := s.opened
	at, err := json.Marshal(now)
	if err != nil {
		return err
	}
	for _, one := range []struct {
		text string
		args []any
	}{
		{freeClaimed, nil},
		{bookLapses, nil},
		{doubtFlights, []any{now.UnixNano(), string(at), cache.StepLapsed}},
	} {
		if _, err := tx.ExecContext(ctx, one.text, one.args...); err != nil {
			return fmt.Errorf("recover what was dispatched: %w", err)
		}
	}
	rows, err := tx.QueryContext(ctx, countDoubts)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var tool string
		var n int64
		if err := rows.Scan(&tool, &n); err != nil {
			return err
		}
		s.doubts.add(tool, n)
	}
	return rows.Err()
}
