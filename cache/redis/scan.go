package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"oncegate/cache"
)

// scanBuckets is how many are read by one script.
const scanBuckets = 16

// Scan reads buckets, after all that is booked is in them: by other nodes up
// to the last second.
func (s *Store) Scan(ctx context.Context, level cache.Level, from, until time.Time, f func(time.Time, cache.Series, *cache.Figures)) error {
	if level > cache.Day {
		return fmt.Errorf("cache: there is no level %d", level)
	}
	if err := s.ledger.work(ctx, true); err != nil {
		return err
	}
	return s.scan(ctx, level, from, until, f)
}

// scan reads what is folded.
func (s *Store) scan(ctx context.Context, level cache.Level, from, until time.Time, f func(time.Time, cache.Series, *cache.Figures)) error {
	places, err := s.places(level, from, until)
	for len(places) > 0 && err == nil {
		n := min(len(places), scanBuckets)
		err = s.readBuckets(level, places[:n], f)
		places = places[n:]
		if err == nil {
			err = ctx.Err()
		}
	}
	return err
}

// place is where the bucket of a time is in its level's list. A day's is its
// date, so that one that was kept in another zone is found.
func (s *Store) place(l cache.Level, t time.Time) int64 {
	if l == cache.Day {
		y, m, d := t.In(s.o.Zone).Date()
		return int64(y)*10000 + int64(m)*100 + int64(d)
	}
	return l.Begin(t, nil).Unix()
}

// begin of the bucket at a place.
func (s *Store) begin(l cache.Level, place int64) time.Time {
	if l == cache.Day {
		noon := time.Date(int(place/10000), time.Month(place/100%100), int(place%100), 12, 0, 0, 0, s.o.Zone)
		return l.Begin(noon, s.o.Zone)
	}
	return time.Unix(place, 0).In(s.o.Zone)
}

// places of the buckets that begin in a range.
func (s *Store) places(l cache.Level, from, until time.Time) (all []int64, err error) {
	keep := ""
	if d := keeps(l); d > 0 {
		keep = strconv.FormatInt(int64(d/time.Second), 10)
	}
	reply, err := s.do(listScript, ledgerTag, []string{listNames[l]}, s.place(l, from), s.place(l, until), keep)
	if err != nil {
		return nil, err
	}
	if len(reply) < 2 {
		return nil, malformed(listScript, reply)
	}
	list, _ := reply[1].([]any)
	for _, v := range list {
		text, _ := v.(string)
		place, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, malformed(listScript, reply)
		}
		if b := s.begin(l, place); !b.Before(from) && b.Before(until) {
			all = append(all, place)
		}
	}
	return all, nil
}

func (s *Store) readBuckets(l cache.Level, places []int64, f func(time.Time, cache.Series, *cache.Figures)) error {
	keys := make([]string, len(places))
	for i, place := range places {
		keys[i] = bucketName(l, place)
	}
	reply, err := s.do(bucketsScript, ledgerTag, keys)
	if err != nil {
		return err
	}
	if len(reply) != len(places) {
		return malformed(bucketsScript, reply)
	}
	for i, place := range places {
		begin := s.begin(l, place)
		pairs, _ := reply[i].([]any)
		for ; len(pairs) > 1; pairs = pairs[2:] {
			field, _ := pairs[0].(string)
			value, _ := pairs[1].(string)
			series, err := cache.DecodeSeries([]byte(field))
			if err == nil {
				var sum cache.Figures
				if sum, err = cache.DecodeFigures([]byte(value)); err == nil {
					f(begin, series, &sum)
				}
			}
			if err != nil {
				s.oops("ledger", fmt.Errorf("a sum of %s is left out: %w", keys[i], err))
			}
		}
	}
	return nil
}
