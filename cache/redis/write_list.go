package redis

import (
	"cmp"
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"oncegate/cache"
)

// A list goes over the indexes of all shards at once, by score and name: the
// unknown outcomes from the lowest on, else from the highest. Where it goes on is the last entry that was shown: which index,
// its score, its name. So nothing is kept between two pages, and what comes and
// goes meanwhile moves nothing else.

const (
	// listAhead is how many entries of a shard are read at once.
	listAhead = 64
	// listMost is how many are shown at most.
	listMost = 200
)

// listed is an entry of an index.
type listed struct {
	score int64
	name  string // the key, in hex
}

func (e listed) compare(o listed) int {
	return cmp.Or(cmp.Compare(e.score, o.score), cmp.Compare(e.name, o.name))
}

func (e listed) key() (k cache.Key, ok bool) {
	b, err := hex.DecodeString(e.name)
	return k, err == nil && copy(k[:], b) == len(k)
}

// Records lists writes. A filter that few match goes over all of them.
func (s *Store) Records(ctx context.Context, f cache.Filter, cursor string, limit int) (page []cache.Record, next string, err error) {
	limit = min(max(limit, 1), listMost)
	index, letter := allWrites, "c"
	if f.State == cache.Unknown {
		index, letter = unknownWrites, "u"
		if err := s.lapse(ctx); err != nil { // those must be in the index
			return nil, "", err
		}
	}
	after, err := parseCursor(cursor, letter)
	if err != nil {
		return nil, "", err
	}
	w := &walk{s: s, index: index, up: index == unknownWrites, after: after}
	for {
		some, err := w.next(ctx, listAhead)
		if err != nil || len(some) == 0 {
			return page, "", err
		}
		records, err := s.show(some)
		if err != nil {
			return nil, "", err
		}
		for n, r := range records {
			if r == nil || !matches(f, r) {
				continue
			}
			if len(page) == limit { // there is more
				return page, next, nil
			}
			page = append(page, *r)
			next = letter + strconv.FormatInt(some[n].score, 10) + "." + some[n].name
		}
	}
}

func matches(f cache.Filter, r *cache.Record) bool {
	return (f.State == cache.Absent || f.State == r.State) &&
		(f.Tool == "" || f.Tool == r.About.Tool) &&
		(f.Principal == "" || f.Principal == r.About.Principal)
}

func parseCursor(cursor, letter string) (*listed, error) {
	if cursor == "" {
		return nil, nil
	}
	score, name, ok := strings.Cut(strings.TrimPrefix(cursor, letter), ".")
	e := &listed{name: name}
	n, err := strconv.ParseInt(score, 10, 64)
	e.score = n
	if _, isKey := e.key(); !ok || err != nil || n < 0 || !isKey || !strings.HasPrefix(cursor, letter) || strings.ToLower(name) != name {
		return nil, cache.ErrCursor
	}
	return e, nil
}

// walk goes over an index of all shards.
type walk struct {
	s      *Store
	index  int
	up     bool    // from the lowest score on
	after  *listed // nil: from the beginning
	shards *[tags]shardWalk
}

type shardWalk struct {
	ahead []listed
	after *listed
	skip  int // entries of the score of after, or before it, that were shown
	ended bool
}

// order is that of the list.
func (w *walk) order(a, b listed) int {
	if w.up {
		return a.compare(b)
	}
	return b.compare(a)
}

// next gives up to n entries.
func (w *walk) next(ctx context.Context, n int) (some []listed, err error) {
	if w.shards == nil {
		w.shards = new([tags]shardWalk)
		for t := range w.shards {
			w.shards[t].after = w.after
		}
	}
	for len(some) < n {
		if err := w.fill(ctx); err != nil {
			return nil, err
		}
		var first *shardWalk
		for t := range w.shards {
			if sh := &w.shards[t]; len(sh.ahead) > 0 && (first == nil || w.order(sh.ahead[0], first.ahead[0]) < 0) {
				first = sh
			}
		}
		if first == nil {
			break
		}
		some, first.ahead = append(some, first.ahead[0]), first.ahead[1:]
	}
	return some, nil
}

// fill reads on in each shard of which nothing is there.
func (w *walk) fill(ctx context.Context) error {
	for {
		var dry []int
		for t := range w.shards {
			if sh := &w.shards[t]; len(sh.ahead) == 0 && !sh.ended {
				dry = append(dry, t)
			}
		}
		if len(dry) == 0 {
			return nil
		}
		for _, group := range w.s.ledger.groups() {
			group = slices.DeleteFunc(group, func(t int) bool { return !slices.Contains(dry, t) })
			if len(group) == 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := w.read(group); err != nil {
				return err
			}
		}
	}
}

func (w *walk) read(group []int) error {
	var keys []string
	way, begin := "down", "+inf"
	if w.up {
		way, begin = "up", "-inf"
	}
	args := []any{way}
	for _, t := range group {
		sh := &w.shards[t]
		keys = append(keys, writeNames[t][w.index])
		from := begin
		if sh.after != nil {
			from = strconv.FormatInt(sh.after.score, 10)
		}
		args = append(args, from, sh.skip, listAhead)
	}
	reply, err := w.s.do(entriesScript, group[0], keys, args...)
	if err != nil {
		return err
	}
	if len(reply) != len(group) {
		return malformed(entriesScript, reply)
	}
	for n, t := range group {
		sh := &w.shards[t]
		pairs := fieldsOf(reply[n])
		sh.ended = len(pairs) < 2*listAhead
		for ; len(pairs) > 1; pairs = pairs[2:] {
			score, err := strconv.ParseFloat(pairs[1], 64)
			if err != nil {
				return malformed(entriesScript, reply)
			}
			e := listed{int64(score), pairs[0]}
			if sh.after == nil || w.order(*sh.after, e) < 0 {
				sh.ahead = append(sh.ahead, e)
				sh.after = &e
			}
		}
		if len(sh.ahead) > 0 {
			sh.skip = 0
		} else { // all of one moment, and shown before
			sh.skip += listAhead
		}
	}
	return nil
}

// show reads records; nil: it is gone.
func (s *Store) show(entries []listed) ([]*cache.Record, error) {
	records := make([]*cache.Record, len(entries))
	for t := range tags {
		keys := slices.Clone(writeNames[t])
		var places []int
		for n, e := range entries {
			if k, ok := e.key(); ok && tag(k) == t {
				keys, places = append(keys, recordName(k)), append(places, n)
			}
		}
		if len(places) == 0 {
			continue
		}
		reply, err := s.do(writeRecordsScript, t, keys)
		if err != nil {
			return nil, err
		}
		if len(reply) != 1+len(places) {
			return nil, malformed(writeRecordsScript, reply)
		}
		now, _ := reply[0].(int64)
		for i, n := range places {
			fields := fieldsOf(reply[1+i])
			if len(fields) == 0 {
				continue
			}
			k, _ := entries[n].key()
			r, err := record(k, fields, now)
			if err != nil {
				return nil, err
			}
			r.Trail = r.Trail[max(0, len(r.Trail)-1):]
			records[n] = &r
		}
	}
	return records, nil
}
