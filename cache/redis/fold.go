package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"oncegate/cache"
)

const (
	// folderFor is how long a node folds before another may, should it die.
	folderFor = 5 * time.Second
	// foldElements of each tail are folded at once, and about foldSums in all:
	// no script holds up the others for more than some milliseconds.
	foldElements = 128
	foldSums     = 1000
	// bucketMargin is how long a bucket stays after nobody is shown it: the
	// clocks of the nodes differ.
	bucketMargin = time.Hour
)

// unfolded is what one pass reads and takes of a shard's.
type unfolded struct {
	shard    int
	was      string // how far it is folded: epoch and position, or nothing
	epoch    string
	first    int64 // position of the first element
	elements []any
	taken    int
}

// bucket is one that a pass adds to.
type bucket struct {
	level cache.Level
	place int64 // in its level's list: begin in Unix seconds; of a day its date
	adds  map[cache.Series]*cache.Figures
	now   map[cache.Series]*cache.Figures // what is to be written
	has   int                             // series
	full  bool                            // what is left of adds is others
}

func (b *bucket) name() string { return bucketName(b.level, b.place) }

// ends is when it goes, in Unix milliseconds; empty: never.
func (b *bucket) ends() string {
	keep := keeps(b.level)
	if keep == 0 {
		return ""
	}
	return strconv.FormatInt(time.Unix(b.place, 0).Add(keep+bucketMargin).UnixMilli(), 10)
}

func keeps(l cache.Level) time.Duration {
	switch l {
	case cache.Minute:
		return cache.KeepMinutes
	case cache.Quarter:
		return cache.KeepQuarters
	}
	return 0
}

// fold adds what the tails have to the buckets of all levels, until they are
// empty. What can't be reached now is folded another time.
//
// A pass reads how far each shard is folded, the elements from there on and the
// sums that they add to, adds here, where numbers are exact, and writes by a
// script that does nothing if another pass was faster. Only the next pass takes
// the elements off the tail: by then the sums are on a replica too, if any.
func (l *ledger) fold(ctx context.Context, whoever bool) error {
	for {
		more, err := l.pass(whoever)
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.quit:
			return errClosed
		default:
		}
	}
}

func (l *ledger) pass(whoever bool) (more bool, err error) {
	folded, mine, err := l.folded(whoever)
	if err != nil || !mine {
		return false, err
	}
	tails, unreached := l.peek(folded)
	if len(tails) == 0 {
		return false, unreached
	}
	var sums cache.Tally
	for i := range tails {
		more = l.take(&tails[i], &sums) || more
	}
	buckets := l.buckets(&sums)
	if err := l.add(buckets); err != nil {
		return false, err
	}
	first, err := l.write(tails, buckets)
	return more || !first, errors.Join(unreached, err)
}

// folded is how far each shard is, and whether it is this node that folds.
func (l *ledger) folded(whoever bool) (far [tags]string, mine bool, err error) {
	reply, err := l.s.do(turnScript, ledgerTag, []string{folderName, foldedName}, l.s.node, millis(folderFor), flag(whoever))
	if err != nil {
		return far, false, err
	}
	if reply[0] == "other" {
		l.folds = false
		return far, false, nil
	}
	l.folds = l.folds || !whoever
	if len(reply) < 2 {
		return far, false, malformed(turnScript, reply)
	}
	pairs, _ := reply[1].([]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		shard, _ := pairs[i].(string)
		if t, err := strconv.Atoi(shard); err == nil && t >= 0 && t < tags {
			far[t], _ = pairs[i+1].(string)
		}
	}
	return far, true, nil
}

// peek gives the tails that have elements beyond how far they are folded.
func (l *ledger) peek(folded [tags]string) (tails []unfolded, err error) {
	fresh := make([]byte, 8)
	rand.Read(fresh)
	for _, group := range l.groups() {
		var keys []string
		args := []any{foldElements, hex.EncodeToString(fresh)}
		for _, t := range group {
			keys = append(keys, tailName(t), headName(t))
			args = append(args, folded[t])
		}
		reply, failed := l.s.do(peekScript, group[0], keys, args...)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		for n, t := range group {
			f := unfolded{shard: t, was: folded[t]}
			if n >= len(reply) || !f.read(reply[n]) {
				return nil, malformed(peekScript, reply)
			}
			if len(f.elements) > 0 {
				tails = append(tails, f)
			}
		}
	}
	return tails, err
}

// groups are the shards that one script may touch.
func (l *ledger) groups() (all [][]int) {
	for t := range tags {
		if l.s.client.cluster != nil || t == 0 {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], t)
	}
	return all
}

func (f *unfolded) read(reply any) bool {
	list, _ := reply.([]any)
	if len(list) < 3 {
		return false
	}
	epoch, one := list[0].(string)
	first, two := list[1].(string)
	elements, three := list[2].([]any)
	at, err := strconv.ParseInt(first, 10, 64)
	f.epoch, f.first, f.elements = epoch, at, elements
	return one && two && three && err == nil
}

// take adds a tail's elements to sums. Some may be left for another pass.
func (l *ledger) take(f *unfolded, sums *cache.Tally) (more bool) {
	for _, e := range f.elements {
		if sums.Len() >= foldSums {
			return true
		}
		text, _ := e.(string)
		err := cache.DecodeSums([]byte(text), func(minute int64, s *cache.Series, f *cache.Figures) {
			l.s.oops("ledger", sums.AddTo(minute, s, f))
		})
		if err != nil {
			l.s.oops("ledger", fmt.Errorf("%d bytes of shard %d are dropped: %w", len(text), f.shard, err))
		}
		f.taken++
	}
	return len(f.elements) == foldElements
}

// buckets are those that sums go to, of all levels.
func (l *ledger) buckets(sums *cache.Tally) (all []*bucket) {
	type place struct {
		level cache.Level
		at    int64
	}
	found := make(map[place]*bucket)
	sums.Each(func(minute int64, s *cache.Series, sum *cache.Figures) {
		for level := range cache.Day + 1 {
			at := place{level, l.s.place(level, time.Unix(minute*60, 0))}
			b := found[at]
			if b == nil {
				b = &bucket{level: level, place: at.at, adds: make(map[cache.Series]*cache.Figures), now: make(map[cache.Series]*cache.Figures)}
				found[at] = b
				all = append(all, b)
			}
			l.addTo(b.adds, s, sum)
		}
	})
	return all
}

func (l *ledger) addTo(sums map[cache.Series]*cache.Figures, s *cache.Series, f *cache.Figures) {
	sum := sums[*s]
	if sum == nil {
		sum = new(cache.Figures)
		sums[*s] = sum
	}
	if !sum.Add(f) {
		l.s.oops("ledger", errUncountable)
	}
}

var errUncountable = fmt.Errorf("%w: a sum is more than can be counted: what was to be added is left out", cache.ErrLine)

// add adds what the buckets have in Redis. A series that a full bucket does
// not have is added to its other one, which is read then.
func (l *ledger) add(buckets []*bucket) error {
	for len(buckets) > 0 {
		var again []*bucket
		for len(buckets) > 0 {
			n, series := 1, len(buckets[0].adds)
			for n < len(buckets) && series+len(buckets[n].adds) <= 2*foldSums {
				series += len(buckets[n].adds)
				n++
			}
			if err := l.addSome(buckets[:n]); err != nil {
				return err
			}
			for _, b := range buckets[:n] {
				if len(b.adds) > 0 {
					again = append(again, b)
				}
			}
			buckets = buckets[n:]
		}
		buckets = again
	}
	return nil
}

func (l *ledger) addSome(buckets []*bucket) error {
	var (
		keys   []string
		args   []any
		series [][]cache.Series
	)
	for _, b := range buckets {
		keys = append(keys, b.name())
		args = append(args, len(b.adds))
		var all []cache.Series
		for s := range b.adds {
			all = append(all, s)
			args = append(args, cache.AppendSeries(nil, &s))
		}
		series = append(series, all)
	}
	reply, err := l.s.do(sumsScript, ledgerTag, keys, args...)
	if err != nil {
		return err
	}
	if len(reply) != len(buckets) {
		return malformed(sumsScript, reply)
	}
	for n, b := range buckets {
		sums, _ := reply[n].([]any)
		if len(sums) != 1+len(series[n]) {
			return malformed(sumsScript, reply)
		}
		l.addBucket(b, series[n], sums)
	}
	return nil
}

// addBucket is given the number of series that there are, and the sums of some.
func (l *ledger) addBucket(b *bucket, series []cache.Series, sums []any) {
	if n, ok := sums[0].(int64); ok && !b.full {
		b.has = int(n)
	}
	others := make(map[cache.Series]*cache.Figures)
	for n, s := range series {
		f := b.adds[s]
		held, there := sums[1+n].(string)
		switch {
		case there:
			before, err := cache.DecodeFigures([]byte(held))
			if err != nil {
				l.s.oops("ledger", fmt.Errorf("a sum of %s begins anew: %w", b.name(), err))
				before = cache.Figures{}
			}
			if !before.Add(f) {
				l.s.oops("ledger", errUncountable)
			}
			*f = before
		case b.full:
		case b.has < cache.MostSeries:
			b.has++
		default:
			other := cache.OtherSeries(s)
			l.addTo(others, &other, f)
			continue
		}
		b.now[s] = f
	}
	for s, f := range others {
		if b.now[s] != nil {
			l.addTo(b.now, &s, f)
			delete(others, s)
		}
	}
	b.adds, b.full = others, true
}

// write is false when another pass was faster.
func (l *ledger) write(tails []unfolded, buckets []*bucket) (first bool, err error) {
	keys := append([]string{foldedName}, listNames[:]...)
	args := []any{len(tails)}
	for i := range tails {
		f := &tails[i]
		args = append(args, f.shard, f.was, f.epoch+" "+strconv.FormatInt(f.first+int64(f.taken), 10))
	}
	for _, b := range buckets {
		keys = append(keys, b.name())
		args = append(args, int(b.level), b.place, b.ends(), len(b.now))
		for s, f := range b.now {
			args = append(args, cache.AppendSeries(nil, &s), cache.AppendFigures(nil, f))
		}
	}
	reply, err := l.s.do(foldScript, ledgerTag, keys, args...)
	return err == nil && reply[0] == "ok", err
}
