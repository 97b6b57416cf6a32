package report

import (
	"time"

	"oncegate/cache"
)

// part is a stretch of time that is read at one level.
type part struct {
	level       cache.Level
	from, until time.Time
}

// plan cuts a range into the fewest buckets that cover it: quarters of an
// hour, with minutes at its ends; of what is older than those are kept, the
// bucket that an end falls into is taken as a whole. There is at least one part.
func plan(q Query, now time.Time) []part {
	from, until := q.Since, q.Until
	// A minute that a clock somewhere is ahead of this one may have is still to come.
	minutes, quarters := now.Add(-cache.KeepMinutes+time.Hour), now.Add(-cache.KeepQuarters+24*time.Hour)
	var parts []part
	add := func(level cache.Level, from, until time.Time) {
		if from.Before(until) {
			parts = append(parts, part{level, from, until})
		}
	}
	if from.Before(quarters) {
		end := until
		if end.After(quarters) {
			end = quarters
		}
		from, end = cache.Day.Begin(from, q.Ledger), up(end, cache.Day, q.Ledger)
		add(cache.Day, from, end)
		if from = end; !from.Before(until) {
			return parts
		}
	}
	edge := cache.Minute
	if from.Before(minutes) {
		edge = cache.Quarter
	}
	from = edge.Begin(from, q.Ledger)
	if edge = cache.Minute; until.Before(minutes) {
		edge = cache.Quarter
	}
	until = up(until, edge, q.Ledger)
	first, last := up(from, cache.Quarter, q.Ledger), cache.Quarter.Begin(until, q.Ledger)
	if first.Before(last) {
		add(cache.Minute, from, first)
		add(cache.Quarter, first, last)
		add(cache.Minute, last, until)
	} else {
		add(cache.Minute, from, until)
	}
	if len(parts) == 0 {
		parts = append(parts, part{cache.Minute, from, from})
	}
	return parts
}

// up is the first begin of a bucket that is not before t.
func up(t time.Time, level cache.Level, zone *time.Location) time.Time {
	begin := level.Begin(t, zone)
	if begin.Equal(t) {
		return t
	}
	switch level {
	case cache.Minute:
		return begin.Add(time.Minute)
	case cache.Quarter:
		return begin.Add(15 * time.Minute)
	}
	return nextDay(begin, zone)
}
