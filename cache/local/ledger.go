package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
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
	coming  atomic.Int64 // changes that the writer has yet to commit, and that come with some
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
	return l.posting != nil || l.tally.Len() > 0 || l.staged || l.coming.Load() > 0
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
