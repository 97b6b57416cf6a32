package local

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"oncegate/cache"
)

// post has all posted that was booked before the call.
func (l *ledger) post(ctx context.Context, ended <-chan struct{}) error {
	l.mu.Lock()
	rounds := 1
	if l.posting != nil { // it was begun before
		rounds = 2
	}
	l.mu.Unlock()
	for range rounds {
		done := make(chan error, 1)
		l.put(op{what: post, posted: done})
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return errors.New("it was closed")
		}
	}
	return nil
}

// take gives what is to be posted next: first what could not be before. The
// writer alone calls it.
func (l *ledger) take() *posting {
	l.mu.Lock()
	l.asked = false
	full, number := l.book.size >= l.room/2, l.book.number
	if l.posting != nil || l.tally.Len() == 0 {
		defer l.mu.Unlock()
		return l.posting
	}
	l.mu.Unlock()
	var next *daybook
	var err error
	if full { // nobody who books waits for it
		next, err = beginDaybook(l.dir, number+1, l.room)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &posting{tally: l.tally, upto: mark{l.posted.posting + 1, l.book.number, l.book.size}}
	if next != nil {
		p.done, l.book = []*daybook{l.book}, next
		p.upto.number, p.upto.offset = next.number, 0
	} else if full && l.writes.first(err) {
		l.tell(err) // the one that there is goes on
	}
	l.tally, l.posting = new(cache.Tally), p
	return p
}

// write is the writer's part of a posting, in its transaction.
func (l *ledger) write(ctx context.Context, tx *sql.Tx) error {
	p := l.take()
	b := buckets{tx: tx, zone: l.zone, open: make(map[bucketID]map[cache.Series]*cache.Figures), tell: l.tell}
	staged, err := l.unstage(ctx, tx)
	if err != nil {
		return err
	}
	if err := b.add(ctx, staged); err != nil {
		return err
	}
	if p != nil {
		var row []byte
		if err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'ledger'").Scan(&row); err != nil {
			return err
		}
		was, err := markOf(row)
		if err != nil {
			return err
		}
		if was.posting < p.upto.posting { // else it was written, and only the answer was lost
			if err := b.add(ctx, p.tally); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE meta SET value = ? WHERE name = 'ledger'", p.upto.bytes()); err != nil {
				return err
			}
		}
	}
	return b.write(ctx)
}

// stage keeps the lines of settlements with their records.
func (l *ledger) stage(ctx context.Context, tx *sql.Tx, sums []byte) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO booked (sums) VALUES (?)", sums)
	return err
}

// encodeLines gives lines as they are staged. They can be booked.
func encodeLines(lines []cache.Line) (b []byte) {
	for i := range lines {
		b = cache.AppendSum(b, lines[i].Minute(), &lines[i].Series, &lines[i].Figures)
	}
	return b
}

// unstage takes them out.
func (l *ledger) unstage(ctx context.Context, tx *sql.Tx) (*cache.Tally, error) {
	t := new(cache.Tally)
	rows, err := tx.QueryContext(ctx, "SELECT sums FROM booked")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var b []byte
		if err := rows.Scan(&b); err != nil {
			return nil, err
		}
		l.tell(decodeInto(t, b))
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || t.Len() == 0 {
		return t, err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM booked")
	return t, err
}

// wrote is told how the transaction of a posting came out.
func (l *ledger) wrote(err error) {
	l.mu.Lock()
	first := l.posts.first(err)
	var done []*daybook
	if p := l.posting; err == nil && p != nil {
		l.posted, l.posting, done = p.upto, nil, p.done
	}
	l.mu.Unlock()
	if first {
		l.tell(fmt.Errorf("what is booked stays in the daybook until it can be posted: %w", err))
	}
	l.forget(done)
}

// setStaged says whether there may be staged lines.
func (l *ledger) setStaged(staged bool) {
	l.mu.Lock()
	l.staged = staged
	l.mu.Unlock()
}

// forget removes daybooks that are posted.
func (l *ledger) forget(done []*daybook) {
	for _, d := range done {
		l.tell(errors.Join(d.close(), os.Remove(d.name)))
	}
}

// expireBuckets deletes the buckets that are kept no longer.
func expireBuckets(ctx context.Context, tx *sql.Tx, now time.Time) error {
	for level, kept := range map[cache.Level]time.Duration{cache.Minute: cache.KeepMinutes, cache.Quarter: cache.KeepQuarters} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM ledger WHERE level = ? AND begin < ?", level, now.Add(-kept).Unix()); err != nil {
			return err
		}
	}
	return nil
}
