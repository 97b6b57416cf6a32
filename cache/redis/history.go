package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"oncegate/cache"
)

// The log of requests is one stream, of which each entry is a block of what one
// node logged in a second, or of BlockRequests. Its order is that of the
// stream, so a place in it stands however many blocks come: the entry's id and
// the index in the block.

const (
	logTag = 0
	// keepRequests and keepRequestBytes are how long the log of requests goes
	// back, and how much memory of the server it has, more or less: the older go
	// first.
	keepRequests     = 30 * 24 * time.Hour
	keepRequestBytes = 256 << 20
	// logBlocks are read by one script, some 16 KiB each.
	logBlocks = 32
	// missedEvery is how often it is told that requests were left out.
	missedEvery = time.Minute
)

// logNames are the stream and how many bytes its blocks are.
var logNames = [...]string{tagNames[logTag] + "requests", tagNames[logTag] + "requests:size"}

// history is this node's part of the log of requests.
type history struct {
	s      *Store
	most   int64 // bytes that the log may have
	blocks cache.Blocks

	mu     sync.Mutex
	rows   cache.Rows
	full   []cache.Rows // to be pushed, the oldest first
	missed int64        // left out, in all
	ended  bool

	turn chan struct{} // taken by who pushes; what follows is theirs
	next []byte        // the block to be pushed, under this number; it may have been sent before
	sent time.Time     // when it was first, as far as is known
	// number is of the last block that was pushed, or is to be: next.
	number int64
	told   int64 // of missed
	toldAt time.Time

	begun, filled  chan struct{} // there is something to be pushed: within a second, at once
	quit, finished chan struct{}
}

func (h *history) start(s *Store) {
	h.s, h.most = s, keepRequestBytes
	h.turn, h.begun, h.filled = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	h.quit, h.finished = make(chan struct{}), make(chan struct{})
	go h.work()
}

func (h *history) work() {
	defer close(h.finished)
	var failing time.Time // since when nothing worked
	told := false
	for {
		select {
		case <-h.begun:
		case <-h.filled:
		case <-h.quit:
			return
		}
		// Never all nodes at once.
		due := time.NewTimer(workEvery*3/4 + rand.N(workEvery/2))
		select {
		case <-due.C:
		case <-h.filled:
			due.Stop()
		case <-h.quit:
			due.Stop()
			return
		}
		err := h.push(context.Background())
		switch {
		case err == nil:
			failing, told = time.Time{}, false
			h.report()
			continue
		case failing.IsZero():
			failing = time.Now()
		case !told && time.Since(failing) > silentFor:
			told = true
			h.s.oops("requests", err)
		}
		signal(h.begun) // it waits
	}
}

// report tells of requests that were left out.
func (h *history) report() {
	missed := h.s.Missed()
	if now := time.Now(); missed > h.told && now.Sub(h.toldAt) >= missedEvery {
		h.s.oops("requests", fmt.Errorf("%d requests came while none could be written, and are not in the log of requests", missed-h.told))
		h.told, h.toldAt = missed, now
	}
}

// stop pushes what is there once more.
func (h *history) stop() {
	h.mu.Lock()
	h.ended = true
	h.mu.Unlock()
	close(h.quit)
	<-h.finished
	if err := h.push(context.Background()); err != nil {
		h.s.oops("requests", fmt.Errorf("the latest requests are not in the log of requests: %w", err))
	}
}

// Log adds a request in memory. It is in Redis a second later, or as soon as it
// can be reached.
func (s *Store) Log(r *cache.Request) {
	h := &s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || len(h.full) >= cache.MostWaiting {
		h.missed++
		return
	}
	if h.rows.Len() == 0 {
		signal(h.begun)
	}
	h.rows.Add(r)
	if h.rows.Full() {
		h.full = append(h.full, h.rows)
		h.rows = h.rows.Emptied()
		signal(h.filled)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Missed is how many requests this node's log has left out.
func (s *Store) Missed() int64 {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return s.history.missed
}

// push writes what was logged before the call. A block whose acknowledgement
// was lost is sent again, as it was and under its number, before any other.
func (h *history) push(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.turn }()
	if err := h.send(); err != nil { // what waits from before
		return err
	}
	for all := false; !all; {
		var rows cache.Rows
		if rows, all = h.oldest(); rows.Len() == 0 {
			return nil
		}
		b, err := h.blocks.Encode(&rows, 0)
		if err != nil {
			return err
		}
		h.number++
		h.next = b
		if err := h.send(); err != nil {
			return err
		}
	}
	return nil
}

// oldest takes the rows that are to be pushed next: all says that they are the
// last. Those that are no full block are taken only when they are all there is:
// while nothing can be pushed, they go on to be one.
func (h *history) oldest() (rows cache.Rows, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.full) > 0 {
		rows = h.full[0]
		h.full = h.full[1:]
		return rows, false
	}
	rows = h.rows
	h.rows = cache.Rows{}
	return rows, true
}

func (h *history) send() error {
	if h.next == nil {
		return nil
	}
	if !h.sent.IsZero() && time.Since(h.sent) > rememberPush-time.Hour {
		h.next, h.sent = nil, time.Time{} // it may be there, or not: once rather than twice
		return nil
	}
	_, err := h.s.do(logPushScript, logTag, []string{logNames[0], logNames[1], logNames[0] + ":" + h.s.node},
		h.number, millis(rememberPush), h.next, millis(keepRequests), h.most)
	if err != nil {
		if f, ok := errors.AsType[*failure](err); ok && f.sent && h.sent.IsZero() {
			h.sent = time.Now()
		}
		return err
	}
	h.next, h.sent = nil, time.Time{}
	return nil
}

// requestPlace is where a request is: the id of its block's entry, and the index
// in that.
type requestPlace struct {
	ms, seq uint64
	index   int
}

func (p requestPlace) id() string { return fmt.Sprintf("%d-%d", p.ms, p.seq) }

func (p requestPlace) String() string { return p.id() + "-" + strconv.Itoa(p.index) }

func (p requestPlace) compare(o requestPlace) int {
	return cmp.Or(cmp.Compare(p.ms, o.ms), cmp.Compare(p.seq, o.seq), cmp.Compare(p.index, o.index))
}

func parseRequestPlace(text string) (p requestPlace, err error) {
	words := strings.Split(text, "-")
	if len(words) != 3 {
		return p, cache.ErrCursor
	}
	ms, one := strconv.ParseUint(words[0], 10, 64)
	seq, two := strconv.ParseUint(words[1], 10, 64)
	index, three := strconv.ParseUint(words[2], 10, 16)
	if one != nil || two != nil || three != nil {
		return p, cache.ErrCursor
	}
	return requestPlace{ms, seq, int(index)}, nil
}

// Requests reads the stream backwards, some blocks at a time.
func (s *Store) Requests(ctx context.Context, f cache.RequestFilter, cursor string, limit int) (page []cache.Request, next string, err error) {
	limit = min(max(limit, 1), cache.MostPage)
	end := time.Now().Add(cache.SearchFor)
	var from, after *requestPlace
	for text, place := range map[string]**requestPlace{cursor: &from, f.After: &after} {
		if text != "" {
			p, err := parseRequestPlace(text)
			if err != nil {
				return nil, "", err
			}
			*place = &p
		}
	}
	if from == nil { // what comes later comes before the first page
		if err := s.history.push(ctx); err != nil {
			return nil, "", err
		}
	}
	latest, earliest := "+", "-"
	if from != nil {
		latest = from.id()
	}
	if after != nil {
		earliest = after.id()
	}
	for {
		blocks, err := s.readLog(latest, earliest, &f)
		if err != nil {
			return nil, "", err
		}
		for _, b := range blocks {
			below := 1 << 16
			if from != nil && from.ms == b.ms && from.seq == b.seq {
				below = from.index
			}
			more, last := false, b.requestPlace
			give := func(i int, r *cache.Request) bool {
				place := requestPlace{b.ms, b.seq, i}
				switch {
				case after != nil && place.compare(*after) <= 0:
					return false
				case len(page) == limit:
					more = true
					return false
				}
				last = place
				r.Place = place.String()
				page = append(page, *r)
				return true
			}
			if len(b.bytes) > 0 {
				if err := s.history.blocks.Search(b.bytes, &f, below, give); err != nil {
					s.oops("requests", fmt.Errorf("the block %s is left out: %w", b.id(), err))
				}
			}
			switch {
			case more:
				return page, page[len(page)-1].Place, nil
			case ctx.Err() != nil:
				return nil, "", ctx.Err()
			case time.Now().After(end):
				return page, last.String(), nil
			}
		}
		if len(blocks) < logBlocks {
			return page, "", nil
		}
		latest = "(" + blocks[len(blocks)-1].id()
	}
}

// logBlock is an entry of the stream; bytes is empty where nothing in it is of
// the time that is asked for.
type logBlock struct {
	requestPlace // of the entry: the index is none
	bytes        []byte
}

func (s *Store) readLog(latest, earliest string, f *cache.RequestFilter) ([]logBlock, error) {
	since, until := int64(0), int64(1<<62)
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMicro()
	}
	reply, err := s.do(logReadScript, logTag, logNames[:1], latest, earliest, logBlocks, since, until)
	if err != nil {
		return nil, err
	}
	blocks := make([]logBlock, len(reply)-1)
	for n, entry := range reply[1:] {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			return nil, malformed(logReadScript, reply)
		}
		id, _ := pair[0].(string)
		b, _ := pair[1].(string)
		p, err := parseRequestPlace(id + "-0")
		if err != nil {
			return nil, malformed(logReadScript, reply)
		}
		blocks[n] = logBlock{p, []byte(b)}
	}
	return blocks, nil
}
