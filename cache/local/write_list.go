package local

import (
	"bytes"
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

// place in a list: the last record of a page.
type listed struct {
	at  int64
	key cache.Key
}

func (l listed) before(o listed) bool { // in the list, the latest first
	if l.at != o.at {
		return l.at > o.at
	}
	return bytes.Compare(l.key[:], o.key[:]) > 0
}

// cursor and parseCursor write and read a place. Lists of another order have
// another first byte.
func (l listed) cursor(order byte) string {
	b := binary.BigEndian.AppendUint64([]byte{order}, uint64(l.at))
	return base64.RawURLEncoding.EncodeToString(append(b, l.key[:]...))
}

func parseCursor(cursor string, order byte) (l listed, err error) {
	if cursor == "" {
		return listed{at: 1<<63 - 1, key: cache.Key(bytes.Repeat([]byte{0xff}, 32))}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) != 1+8+len(l.key) || b[0] != order {
		return l, cache.ErrCursor
	}
	l.at = int64(binary.BigEndian.Uint64(b[1:]))
	copy(l.key[:], b[9:])
	return l, nil
}

// Records lists what is in flight from memory, and the rest from disk.
func (s *Store) Records(ctx context.Context, f cache.Filter, cursor string, limit int) ([]cache.Record, string, error) {
	order, by := byte('c'), "claimed"
	if f.State == cache.Unknown {
		order, by = 'u', "dispatched"
	}
	after, err := parseCursor(cursor, order)
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
	at := func(r *cache.Record) listed {
		if by == "dispatched" {
			return listed{s.wall(r.Dispatched), r.Key}
		}
		return listed{s.wall(r.Claimed), r.Key}
	}
	flying := s.flying(now)
	var page []cache.Record
	for _, r := range flying {
		if r.State != cache.Released && (f.State == cache.Absent || f.State == r.State) && (f.Tool == "" || f.Tool == r.About.Tool) &&
			(f.Principal == "" || f.Principal == r.About.Principal) && after.before(at(&r)) {
			page = append(page, r)
		}
	}
	// One more than is asked for says that there are more.
	kept, err := s.listRows(ctx, f, by, after, limit+1, now, func(k cache.Key) bool { _, flies := flying[k]; return flies })
	if err != nil {
		return nil, "", err
	}
	page = append(page, kept...)
	slices.SortFunc(page, func(a, b cache.Record) int {
		if at(&a).before(at(&b)) {
			return -1
		}
		return 1
	})
	if len(page) <= limit {
		return page, "", nil
	}
	page = page[:limit]
	return page, at(&page[limit-1]).cursor(order), nil
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
func (s *Store) listRows(ctx context.Context, f cache.Filter, by string, after listed, limit int, now time.Time, skip func(cache.Key) bool) ([]cache.Record, error) {
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
	index := "claimed"
	if f.State == cache.Unknown {
		index = "unknown"
	}
	args := []any{after.at, after.at, after.key[:]}
	query := writeRead + fmt.Sprintf(" INDEXED BY writes_%s WHERE %s AND %[3]s <= ? AND (%[3]s, key) < (?, ?)", index, where, by)
	if f.Tool != "" {
		query, args = query+" AND tool = ?", append(args, f.Tool)
	}
	if f.Principal != "" {
		query, args = query+" AND principal = ?", append(args, f.Principal)
	}
	query += fmt.Sprintf(" ORDER BY %[1]s DESC, key DESC", by)
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
		if f.State == cache.Completed {
			w.kept = true
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
