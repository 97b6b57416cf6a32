package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"oncegate/cache"
)

const (
	// keepRequests and keepRequestBytes are how long the log of requests goes
	// back, and how much disk it has: the older go first.
	keepRequests     = 30 * 24 * time.Hour
	keepRequestBytes = 1 << 30
	// requestSegmentBytes is how large a file of it grows before the next.
	requestSegmentBytes = 16 << 20
	// tailEvery is how long a request may be in memory only.
	tailEvery = time.Second
	// missedEvery is how often it is told that some were left out.
	missedEvery = time.Minute
)

// history is the log of requests. They are numbered from 1 on. The latest are
// rows in memory, which are written to a file of their own, the tail, once a
// second; when they are enough they go to the last segment, as a block. A
// segment is blocks, one after the other, and its name has its first request's
// number.
type history struct {
	dir    string
	most   int64 // bytes of all segments
	room   int64 // bytes of one
	now    func() time.Time
	oops   func(step string, err error)
	blocks cache.Blocks

	mu       sync.Mutex
	rows     cache.Rows // the latest
	first    uint64     // number of the first of rows, or of the next
	full     []fullRows // to be written, the oldest first
	segments []*segment // the oldest first
	missed   int64      // left out, in all
	ended    bool

	tail     *os.File // the writer's
	tailed   int64    // its size
	upTo     uint64   // number of the first request that is not in it
	trouble  trouble
	told     int64 // of missed
	toldAt   time.Time
	begun    chan struct{} // there is something to be written, within tailEvery
	filled   chan struct{} // or at once
	quit     chan struct{}
	finished chan struct{}
}

// fullRows are a block that is not written yet.
type fullRows struct {
	rows  cache.Rows
	first uint64
}

// openHistory reads the tail, and where the last segment ends. The directory is
// this process's alone.
func openHistory(dir string, oops func(string, error)) (*history, error) {
	h := &history{
		dir: dir, most: keepRequestBytes, room: requestSegmentBytes, now: time.Now, oops: oops, first: 1,
		begun: make(chan struct{}, 1), filled: make(chan struct{}, 1), quit: make(chan struct{}), finished: make(chan struct{}),
	}
	var err error
	if h.segments, err = openSegments(dir); err != nil {
		return nil, err
	}
	if n := len(h.segments); n > 0 {
		last := h.segments[n-1]
		if err := last.mend(&h.blocks); err != nil {
			return nil, fmt.Errorf("read the log of requests: %w", err)
		}
		h.first = last.next()
	}
	if err := h.openTail(); err != nil {
		return nil, err
	}
	return h, nil
}

// openTail takes in the rows that a process before this one left.
func (h *history) openTail() (err error) {
	name := filepath.Join(h.dir, tailName)
	if h.tail, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return fmt.Errorf("open the tail of the log of requests: %w", err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read the tail of the log of requests: %w", err)
	}
	blocked := false
	all := parseTail(b, func(number uint64, row []byte) {
		if number < h.first+uint64(h.rows.Len()) {
			blocked = true // it is in a block
			return
		}
		if h.rows.Len() == 0 {
			h.first = number // what was to come before it was lost
		}
		if err := h.rows.AddRow(row); err != nil {
			h.oops("requests", fmt.Errorf("request %d is left out: %w", number, err))
		}
	})
	if !blocked {
		h.tailed = all
	}
	h.upTo = h.first + uint64(h.rows.Len())
	if h.rows.Full() {
		h.seal()
	}
	return nil
}

// start begins to write behind.
func (h *history) start() { go h.work() }

// Log adds a request.
func (s *Store) Log(r *cache.Request) { s.history.add(r) }

func (h *history) add(r *cache.Request) {
	h.mu.Lock()
	if h.ended || len(h.full) >= cache.MostWaiting {
		h.missed++
		h.mu.Unlock()
		return
	}
	if h.rows.Len() == 0 {
		signal(h.begun)
	}
	h.rows.Add(r)
	if h.rows.Full() {
		h.seal()
	}
	h.mu.Unlock()
}

// seal has the rows written as a block.
func (h *history) seal() {
	h.full = append(h.full, fullRows{h.rows, h.first})
	h.first += uint64(h.rows.Len())
	h.rows = h.rows.Emptied()
	signal(h.filled)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Missed is how many requests the log has left out.
func (s *Store) Missed() int64 {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return s.history.missed
}

const requestCursor = "n"

// Requests searches the rows in memory, then the segments, from the last to the
// first.
func (s *Store) Requests(ctx context.Context, f cache.RequestFilter, cursor string, limit int) ([]cache.Request, string, error) {
	p := requestPage{ctx: ctx, filter: &f, limit: min(max(limit, 1), cache.MostPage), below: 1<<64 - 1, end: time.Now().Add(cache.SearchFor)}
	var err error
	if cursor != "" {
		if p.below, err = requestNumber(cursor); err != nil {
			return nil, "", err
		}
	}
	if f.After != "" {
		if p.after, err = requestNumber(f.After); err != nil {
			return nil, "", err
		}
	}
	if err := s.away(); err != nil {
		return nil, "", err
	}
	err = s.history.search(&p)
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return nil, "", err
	case p.more || err != nil:
		return p.found, requestCursor + strconv.FormatUint(p.below, 10), nil
	}
	return p.found, "", nil
}

func requestNumber(place string) (uint64, error) {
	if len(place) < 2 || place[:1] != requestCursor {
		return 0, cache.ErrCursor
	}
	n, err := strconv.ParseUint(place[1:], 10, 64)
	if err != nil {
		return 0, cache.ErrCursor
	}
	return n, nil
}

// requestPage is a page that is being filled.
type requestPage struct {
	ctx    context.Context
	filter *cache.RequestFilter
	limit  int
	end    time.Time // of the search

	below uint64 // those before this number are to be looked at
	after uint64 // and behind this one
	found []cache.Request
	more  bool // one was found that has no room
}

// errEnough ends a search before it has seen all.
var errEnough = errors.New("there is more to be searched")

// passed says that all is found or looked at, as far as it is wanted.
func (p *requestPage) passed() bool { return p.more || p.below <= p.after+1 }

// give takes one that was found: it is the first-th, or comes i behind.
func (p *requestPage) give(first uint64) func(i int, r *cache.Request) bool {
	return func(i int, r *cache.Request) bool {
		number := first + uint64(i)
		switch {
		case number <= p.after:
			return false
		case len(p.found) == p.limit:
			p.more = true
			return false
		}
		r.Place = requestCursor + strconv.FormatUint(number, 10)
		p.found = append(p.found, *r)
		p.below = number
		return true
	}
}

// index of the first one that is not to be looked at, among those from first on.
func (p *requestPage) index(first uint64) int {
	if p.below <= first {
		return 0
	}
	return int(min(p.below-first, 1<<30))
}

// done says that all from first on is looked at, unless the page is full.
func (p *requestPage) done(first uint64) error {
	if !p.more {
		p.below = min(p.below, first)
	}
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if !p.passed() && time.Now().After(p.end) {
		return errEnough
	}
	return nil
}

func (h *history) search(p *requestPage) error {
	h.mu.Lock()
	waiting := append(make([]fullRows, 0, len(h.full)+1), h.full...)
	waiting = append(waiting, fullRows{h.rows, h.first})
	segments := append([]*segment(nil), h.segments...)
	h.mu.Unlock()
	for n := len(waiting) - 1; n >= 0 && !p.passed(); n-- {
		w := &waiting[n]
		err := w.rows.Search(p.filter, p.index(w.first), p.give(w.first))
		if err == nil {
			err = p.done(w.first)
		}
		if err != nil {
			return err
		}
	}
	for n := len(segments) - 1; n >= 0 && !p.passed(); n-- {
		if segments[n].first >= p.below {
			continue
		}
		if err := segments[n].search(p, &h.blocks, h.oops); err != nil {
			return err
		}
	}
	return nil
}
