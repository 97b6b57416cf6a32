package local

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"oncegate/cache"
)

// writer is the one goroutine that changes the database. It commits whatever
// has gathered while it was committing in one transaction, in the order it
// came.
type writer struct {
	conn      *sql.Conn
	stmts     [4]*sql.Stmt // by verb; those after fences have none
	begun     func(op) bool
	committed func(op, error)
	oops      func(step string, err error)
	sweep     func(context.Context, *sql.Tx) (more bool, err error)
	writes    writeStmts
	synced    bool         // what is committed is synced: PRAGMA synchronous=FULL
	batches   atomic.Int64 // written so far
	ledger    *ledger

	mu    sync.Mutex
	queue []op
	ended bool

	wake chan struct{}
	done chan struct{}
}

// verb of an op
type verb uint8

const (
	insert   verb = iota // a record that settled
	update               // its debts
	erase                // a record that is gone
	fences               // the end of the block of fences
	post                 // the ledger's lines to their buckets
	expire               // the ledger's old buckets
	writing              // a record of a write
	sweeping             // of those, what is over
)

// op is one change. Each names the fence, so that none touches a later
// record of its key.
type op struct {
	what  verb
	key   cache.Key
	fence cache.Fence
	owed  []time.Time // update
	row   row         // insert

	record  *record
	pending *pending // insert: who waits for it; nil: nobody

	lines  []cache.Line // insert: booked with it
	posted chan error   // post: told how it went; nil: nobody asks

	write *writeOp // writing
}

// row is what is written of a record.
type row struct {
	fingerprint [32]byte
	kept        kept
	keep        time.Duration
	owed        []time.Time
}

// rowOf gives a record's row as its settlement will make it.
func rowOf(r *record, p *pending) row {
	return row{fingerprint: r.fingerprint, kept: p.kept, keep: p.keep, owed: p.owed}
}

// newWriter makes a writer on its own connection. begun is asked, once the
// database is its own, whether an insert is still to be made; committed is
// told how that came out.
func newWriter(conn *sql.Conn, begun func(op) bool, committed func(op, error), oops func(string, error)) *writer {
	return &writer{
		conn: conn, begun: begun, committed: committed, oops: oops,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

func (w *writer) prepare() error {
	for what, text := range [...]string{
		insert: `INSERT INTO records (key, fence, fingerprint, cut, settled, keep, owed, frames) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET fence = excluded.fence, fingerprint = excluded.fingerprint, cut = excluded.cut,
			settled = excluded.settled, keep = excluded.keep, owed = excluded.owed, frames = excluded.frames
			WHERE excluded.fence > fence`,
		update: "UPDATE records SET owed = ? WHERE key = ? AND fence = ?",
		erase:  "DELETE FROM records WHERE key = ? AND fence = ?",
		fences: "UPDATE meta SET value = ? WHERE name = 'fences'",
	} {
		var err error
		if w.stmts[what], err = w.conn.PrepareContext(context.Background(), text); err != nil {
			return err
		}
	}
	return w.writes.prepare(context.Background(), w.conn)
}

func (w *writer) start() { go w.run() }

// put queues a change; it never waits. After stop it is done for nobody.
func (w *writer) put(o op) {
	w.mu.Lock()
	w.queue = append(w.queue, o)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// stop writes what is queued, and ends the goroutine.
func (w *writer) stop() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	<-w.done
}

func (w *writer) close() error {
	for _, stmt := range w.stmts {
		if stmt != nil {
			stmt.Close()
		}
	}
	w.writes.close()
	return w.conn.Close()
}

func (w *writer) run() {
	defer close(w.done)
	var batch, spare []op
	for {
		w.gather()
		w.mu.Lock()
		batch, w.queue = w.queue, spare[:0]
		ended := w.ended
		w.mu.Unlock()
		if len(batch) == 0 {
			if ended {
				return
			}
			<-w.wake
			spare = batch
			continue
		}
		w.write(batch)
		clear(batch) // lets go of the frames
		spare = batch
		if cap(spare) > 4096 {
			spare = nil
		}
	}
}

// gather lets those who were just told that their step is on disk put their
// next one, while more come: who syncs for one is waited for by the others. One
// alone has nobody to wait for.
func (w *writer) gather() {
	for waiting := 0; w.synced; {
		w.mu.Lock()
		n := len(w.queue)
		w.mu.Unlock()
		if n == waiting {
			return
		}
		waiting = n
		runtime.Gosched()
	}
}

// write commits a batch; if that fails, each change on its own, so that one
// that can't be written takes no other with it.
func (w *writer) write(batch []op) {
	w.batches.Add(1)
	err := w.commit(batch)
	for i := range batch {
		one := err
		if err != nil && len(batch) > 1 {
			one = w.commit(batch[i : i+1])
		}
		switch o := batch[i]; {
		case o.what == insert:
			w.committed(o, one)
		case o.what == writing:
			o.write.done(one)
		case o.what == post:
			w.ledger.wrote(one)
			if o.posted != nil {
				o.posted <- one
			}
		case one != nil:
			w.oops("write", one)
		}
	}
}

func (w *writer) commit(batch []op) error {
	ctx := context.Background()
	if err := w.setSynced(ctx, batch); err != nil {
		return err
	}
	tx, err := w.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	var lines []cache.Line
	var sums []byte
	posted, more := false, false
	stmt := func(what verb) *sql.Stmt { return tx.StmtContext(ctx, w.stmts[what]) }
	for i := range batch {
		o := &batch[i]
		switch o.what {
		case insert:
			if o.pending != nil && !w.begun(*o) {
				break
			}
			lines = append(lines, o.lines...)
			res := &o.row.kept.result
			_, err = stmt(insert).ExecContext(ctx, o.key[:], int64(o.fence), o.row.fingerprint[:], res.Cut,
				res.Settled.UnixNano(), int64(o.row.keep), owedBytes(o.row.owed), o.row.kept.answer)
		case update:
			_, err = stmt(update).ExecContext(ctx, owedBytes(o.owed), o.key[:], int64(o.fence))
		case erase:
			_, err = stmt(erase).ExecContext(ctx, o.key[:], int64(o.fence))
		case fences:
			_, err = stmt(fences).ExecContext(ctx, int64(o.fence))
		case expire:
			err = expireBuckets(ctx, tx, time.Now())
		case post:
			posted = true // once, and with what comes beside
		case writing:
			sums = append(sums, o.write.sums...)
			err = w.writes.do(ctx, o.write)
		case sweeping:
			more, err = w.sweep(ctx, tx)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	sums = append(sums, encodeLines(lines)...)
	if len(sums) > 0 {
		if err := w.ledger.stage(ctx, tx, sums); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if posted {
		if err := w.ledger.write(ctx, tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		tx.Rollback() // a commit that failed may have left it open
		return err
	}
	if posted || len(sums) > 0 {
		w.ledger.setStaged(!posted)
	}
	if more {
		time.AfterFunc(sweepPause, func() { w.put(op{what: sweeping}) })
	}
	return nil
}

// setSynced has what is committed next synced if anybody waits for that. It
// can't be changed inside a transaction.
func (w *writer) setSynced(ctx context.Context, batch []op) error {
	want := slices.ContainsFunc(batch, func(o op) bool { return o.write != nil && o.write.sync })
	if want == w.synced {
		return nil
	}
	level := map[bool]string{false: "NORMAL", true: "FULL"}[want]
	if _, err := w.conn.ExecContext(ctx, "PRAGMA synchronous="+level); err != nil {
		return err
	}
	w.synced = want
	return nil
}

// owedBytes gives debts' ends by the wall clock.
func owedBytes(owed []time.Time) []byte {
	b := make([]byte, 0, 8*len(owed))
	for _, end := range owed {
		b = binary.BigEndian.AppendUint64(b, uint64(end.UnixNano()))
	}
	return b
}
