package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"oncegate/cache"
)

// mostListed is how many records a page has at most.
const mostListed = 200

// listing is an order of records: what it goes by, and how.
type listing struct {
	letter       byte // its cursors begin with it
	by, index    string
	compare, way string // in SQL
	at           func(*cache.Record) time.Time
	start        listed
}

var (
	latestClaims = listing{'c', "claimed", "writes_claimed", "<", "DESC", func(r *cache.Record) time.Time { return r.Claimed },
		listed{at: 1<<63 - 1, key: cache.Key(bytes.Repeat([]byte{0xff}, 32))}}
	oldestDoubts = listing{'u', "dispatched", "writes_unknown", ">", "ASC", func(r *cache.Record) time.Time { return r.Dispatched }, listed{}}
)

// listed is a place in a list: the last record of a page.
type listed struct {
	at  int64
	key cache.Key
}

func (l *listing) order(a, b listed) int {
	n := cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.key[:], b.key[:]))
	if l.way == "DESC" {
		return -n
	}
	return n
}

// cursor and place write and read a place.
func (l *listing) cursor(p listed) string {
	b := binary.BigEndian.AppendUint64([]byte{l.letter}, uint64(p.at))
	return base64.RawURLEncoding.EncodeToString(append(b, p.key[:]...))
}

func (l *listing) place(cursor string) (p listed, err error) {
	if cursor == "" {
		return l.start, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) != 1+8+len(p.key) || b[0] != l.letter {
		return p, cache.ErrCursor
	}
	p.at = int64(binary.BigEndian.Uint64(b[1:]))
	copy(p.key[:], b[9:])
	return p, nil
}

// Records lists what is in flight from memory, and the rest from disk.
func (s *Store) Records(ctx context.Context, f cache.Filter, cursor string, limit int) ([]cache.Record, string, error) {
	list := &latestClaims
	if f.State == cache.Unknown {
		list = &oldestDoubts
	}
	after, err := list.place(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(max(limit, 1), mostListed)
	if err := s.away(); err != nil {
		return nil, "", err
	}
	now := s.now()
	s.meetAll(now)
	if err := s.flush(ctx); err != nil {
		return nil, "", err
	}
	at := func(r *cache.Record) listed { return listed{s.wall(list.at(r)), r.Key} }
	flying := s.flying(now)
	var page []cache.Record
	for _, r := range flying {
		if r.State != cache.Released && (f.State == cache.Absent || f.State == r.State) && (f.Tool == "" || f.Tool == r.About.Tool) &&
			(f.Principal == "" || f.Principal == r.About.Principal) && list.order(after, at(&r)) < 0 {
			page = append(page, r)
		}
	}
	// One more than is asked for says that there are more.
	kept, err := s.listRows(ctx, f, list, after, limit+1, now, func(k cache.Key) bool { _, flies := flying[k]; return flies })
	if err != nil {
		return nil, "", err
	}
	page = append(page, kept...)
	slices.SortFunc(page, func(a, b cache.Record) int { return list.order(at(&a), at(&b)) })
	if len(page) <= limit {
		return page, "", nil
	}
	page = page[:limit]
	return page, list.cursor(at(&page[limit-1])), nil
}

// flying gives the records that are claimed, whose rows do not count: as
// Released those that are free again.
func (s *Store) flying(now time.Time) map[cache.Key]cache.Record {
	all := map[cache.Key]cache.Record{}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for w := range sh.restless {
			if w.inFlight() {
				r := w.record(now)
				if !w.known(now) {
					r.State = cache.Released
				}
				all[w.key] = r
			}
		}
		sh.mu.Unlock()
	}
	return all
}

// listRows lists rows that are not in flight, from after a place on.
func (s *Store) listRows(ctx context.Context, f cache.Filter, list *listing, after listed, limit int, now time.Time, skip func(cache.Key) bool) ([]cache.Record, error) {
	wall := s.wall(now)
	// The sweeper may not have come yet: what is over is judged here.
	states := map[cache.State]string{
		cache.Absent:    fmt.Sprintf("(state = 6 OR state IN (2, 7) AND forgotten > %d)", wall),
		cache.Unknown:   "state = 6",
		cache.Completed: fmt.Sprintf("state = 2 AND frames IS NOT NULL AND expires > %d", wall),
		cache.Tombstone: fmt.Sprintf("(state = 7 OR state = 2 AND (frames IS NULL OR expires <= %[1]d)) AND forgotten > %[1]d", wall),
	}
	where, ok := states[f.State]
	if !ok {
		return nil, nil
	}
	args := []any{after.at, after.at, after.key[:]}
	query := writeListed + fmt.Sprintf(" INDEXED BY %s WHERE %s AND %[3]s %[4]s= ? AND (%[3]s, key) %[4]s (?, ?)", list.index, where, list.by, list.compare)
	if f.Tool != "" {
		query, args = query+" AND tool = ?", append(args, f.Tool)
	}
	if f.Principal != "" {
		query, args = query+" AND principal = ?", append(args, f.Principal)
	}
	query += fmt.Sprintf(" ORDER BY %[1]s %[2]s, key %[2]s", list.by, list.way)
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cache.ErrAway, err)
	}
	defer rows.Close()
	var page []cache.Record
	for len(page) < limit && rows.Next() {
		var w write
		if err := s.scanWrite(rows, &w); err != nil {
			return nil, err
		}
		if skip(w.key) { // it is claimed anew
			continue
		}
		page = append(page, w.record(now))
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", cache.ErrAway, err)
	}
	return page, nil
}

// doubts counts unknown outcomes by tool.
type doubts struct {
	mu     sync.Mutex
	byTool map[string]int64
}

func (d *doubts) add(tool string, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byTool == nil {
		d.byTool = make(map[string]int64)
	}
	if d.byTool[tool] += n; d.byTool[tool] == 0 {
		delete(d.byTool, tool)
	}
}

// Doubts gives a count that is kept in memory.
func (s *Store) Doubts(context.Context) (map[string]int64, error) {
	if err := s.away(); err != nil {
		return nil, err
	}
	s.meetAll(s.now())
	s.doubts.mu.Lock()
	defer s.doubts.mu.Unlock()
	if s.doubts.byTool == nil {
		return map[string]int64{}, nil
	}
	return maps.Clone(s.doubts.byTool), nil
}
