package local

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"oncegate/cache"
)

// postEvery is how often booked lines are posted to their buckets.
const postEvery = time.Second

// ledger is the account. A line is appended to the daybook, which a kill does
// not touch, and added to a tally in memory. Posting adds the tally to the
// buckets of each level and notes, in the same transaction, up to where the
// daybook is in them: so no crash loses a line or counts it twice. The lines
// of a settlement on disk wait in the table "booked" instead, where they were
// put with the record.
type ledger struct {
	dir  string
	zone *time.Location
	room int64 // of a daybook, in bytes
	put  func(op)
	oops func(step string, err error)

	mu      sync.Mutex
	book    *daybook
	tally   *cache.Tally // of what no posting has yet
	posting *posting     // what is being posted, or is to be tried again
	posted  mark         // as the database has it
	staged  bool         // there may be rows in "booked"
	asked   bool         // to post, because the daybook is filling
	entry   []byte
	ended   bool
	writes  trouble
	posts   trouble
}

// mark is how far postings came.
type mark struct {
	posting uint64 // the last one
	number  uint64 // of the daybook up to which it went
	offset  int64  // in it
}

func (m mark) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, m.posting)
	b = binary.BigEndian.AppendUint64(b, m.number)
	return binary.BigEndian.AppendUint64(b, uint64(m.offset))
}

func markOf(b []byte) (mark, error) {
	if len(b) != 24 {
		return mark{}, fmt.Errorf("%w: its ledger's mark is not as it was written", errDamaged)
	}
	return mark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:]))}, nil
}

// posting is a tally and up to where it is in the daybooks.
type posting struct {
	tally *cache.Tally
	upto  mark
	done  []*daybook // to be removed once it is posted
}

// trouble is told when it begins, not while it lasts.
type trouble struct{ lasts bool }

func (t *trouble) first(err error) bool {
	first := err != nil && !t.lasts
	t.lasts = err != nil
	return first
}

// openLedger reads what is not in the buckets yet, and begins a daybook.
// The directory is this process's alone.
func openLedger(dir string, zone *time.Location, posted mark, put func(op), oops func(string, error)) (*ledger, error) {
	l := &ledger{
		dir: dir, zone: zone, room: daybookBytes, put: put, oops: oops,
		tally: new(cache.Tally), posted: posted, staged: true,
	}
	if l.zone == nil {
		l.zone = time.UTC
	}
	numbers, err := daybooks(dir)
	if err != nil {
		return nil, err
	}
	p := &posting{tally: new(cache.Tally)}
	last := l.posted.number
	for _, n := range numbers {
		last = max(last, n)
		name := daybookName(dir, n)
		p.done = append(p.done, &daybook{number: n, name: name})
		if n < l.posted.number {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read a daybook of the ledger: %w", err)
		}
		if n == l.posted.number {
			b = b[max(0, min(l.posted.offset, int64(len(b)))):]
		}
		parseDaybook(b, func(sum []byte) { l.tell(decodeInto(p.tally, sum)) })
	}
	if l.book, err = beginDaybook(dir, last+1, l.room); err != nil {
		return nil, err
	}
	if p.tally.Len() == 0 {
		l.forget(p.done)
	} else {
		p.upto = mark{posting: l.posted.posting + 1, number: l.book.number}
		l.posting = p
	}
	return l, nil
}

// decodeInto adds encoded sums to a tally.
func decodeInto(t *cache.Tally, sums []byte) error {
	var refused error
	err := cache.DecodeSums(sums, func(minute int64, s *cache.Series, f *cache.Figures) {
		refused = errors.Join(refused, t.AddTo(minute, s, f))
	})
	return errors.Join(err, refused)
}

func (l *ledger) tell(err error) {
	if err != nil {
		l.oops("ledger", err)
	}
}

// fit gives the lines that can be booked.
func (l *ledger) fit(lines []cache.Line) []cache.Line {
	if len(lines) == 0 {
		return nil
	}
	fit := make([]cache.Line, 0, len(lines))
	for _, line := range lines {
		if err := line.Fit(); err != nil {
			l.tell(err)
			continue
		}
		fit = append(fit, line)
	}
	return fit
}

// add books lines.
func (l *ledger) add(lines []cache.Line) {
	if len(lines) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		l.tell(fmt.Errorf("%d lines came after the store was closed, and are lost", len(lines)))
		return
	}
	for i := range lines {
		line := lines[i]
		err := line.Fit()
		if err == nil {
			err = l.tally.AddTo(line.Minute(), &line.Series, &line.Figures)
		}
		if err != nil {
			l.tell(err)
			continue
		}
		l.entry = appendEntry(l.entry[:0], &line)
		if err := l.book.append(l.entry); l.writes.first(err) {
			l.tell(fmt.Errorf("what is booked is in memory only until it is posted: write the daybook: %w", err))
		}
	}
	if l.book.size >= l.room/2 && !l.asked {
		l.asked = true
		l.put(op{what: post})
	}
}

// Book adds lines to the ledger.
func (s *Store) Book(lines ...cache.Line) { s.ledger.add(lines) }

// dirty says that there may be something to post.
func (l *ledger) dirty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.posting != nil || l.tally.Len() > 0 || l.staged
}

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

// take gives what is to be posted next: first what could not be before.
func (l *ledger) take() *posting {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = false
	if l.posting != nil || l.tally.Len() == 0 {
		return l.posting
	}
	p := &posting{tally: l.tally, upto: mark{l.posted.posting + 1, l.book.number, l.book.size}}
	if l.book.size >= l.room/2 {
		next, err := beginDaybook(l.dir, l.book.number+1, l.room)
		if err == nil {
			p.done, l.book = []*daybook{l.book}, next
			p.upto.number, p.upto.offset = next.number, 0
		} else if l.writes.first(err) {
			l.tell(err) // the one that there is goes on
		}
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
func (l *ledger) stage(ctx context.Context, tx *sql.Tx, lines []cache.Line) error {
	var b []byte
	for i := range lines {
		b = cache.AppendSum(b, lines[i].Minute(), &lines[i].Series, &lines[i].Figures)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO booked (sums) VALUES (?)", b)
	return err
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

// close lets go of the daybook. What is not posted is left in it.
func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	err := l.book.close()
	if p := l.posting; p != nil {
		for _, d := range p.done {
			err = errors.Join(err, d.close())
		}
	} else if l.tally.Len() == 0 {
		err = errors.Join(err, os.Remove(l.book.name))
	}
	return err
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

// Scan posts what is booked, and reads buckets.
func (s *Store) Scan(ctx context.Context, level cache.Level, from, until time.Time, f func(time.Time, cache.Series, *cache.Figures)) error {
	if err := s.away(); err != nil {
		return err
	}
	away := func(err error) error { return fmt.Errorf("%w: read the ledger: %w", cache.ErrAway, err) }
	if s.ledger.dirty() {
		if err := s.ledger.post(ctx, s.writer.done); err != nil {
			return away(err)
		}
	}
	rows, err := s.db.QueryContext(ctx, "SELECT begin, sums FROM ledger WHERE level = ? AND begin >= ? AND begin < ?",
		level, ceilSeconds(from), ceilSeconds(until))
	if err != nil {
		return away(err)
	}
	defer rows.Close()
	known := make(map[string]cache.Series) // many buckets have the same
	for rows.Next() {
		var unix int64
		var b sql.RawBytes
		if err := rows.Scan(&unix, &b); err != nil {
			return away(err)
		}
		begin := time.Unix(unix, 0).In(s.ledger.zone)
		if err := parseBucket(b, func(series, figures []byte) error {
			name, ok := known[string(series)]
			if !ok {
				var err error
				if name, err = cache.DecodeSeries(series); err != nil {
					return err
				}
				known[string(series)] = name
			}
			sum, err := cache.DecodeFigures(figures)
			if err == nil {
				f(begin, name, &sum)
			}
			return err
		}); err != nil {
			return away(fmt.Errorf("of %v: %w", begin, err))
		}
	}
	if err := rows.Err(); err != nil {
		return away(err)
	}
	return nil
}

// ceilSeconds is the first whole second, since 1970, that is not before t.
func ceilSeconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
