package redis

import (
	"fmt"
	"strconv"
	"time"

	"oncegate/cache"
)

// bucketMargin is how long a bucket stays after nobody is shown it: the clocks
// of the nodes differ.
const bucketMargin = time.Hour

// bucket is one that a pass adds to.
type bucket struct {
	level cache.Level
	place int64 // in its level's list: begin in Unix seconds; of a day its date
	adds  map[cache.Series]*cache.Figures
	now   map[cache.Series]*cache.Figures // what is to be written
	has   int                             // series, with those that are to be written
	begun bool                            // has is known
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
// not have is added to a wider one, which is read then.
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
	if n, ok := sums[0].(int64); ok && !b.begun {
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
		default:
			if wider := s.Within(b.has); wider != s {
				l.addTo(others, &wider, f)
				continue
			}
			b.has++
		}
		b.now[s] = f
	}
	for s, f := range others {
		if b.now[s] != nil {
			l.addTo(b.now, &s, f)
			delete(others, s)
		}
	}
	b.adds, b.begun = others, true
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
