package report

import (
	"time"

	"oncegate/cache"
)

// Step is how long the points of a series are.
type Step string

// The steps there are. Hours and days are those of the asked zone.
const (
	ByMinute  Step = "minute"
	ByQuarter Step = "quarter" // of an hour
	ByHour    Step = "hour"
	ByDay     Step = "day"
)

// mostPoints is how many points a series has about, where a longer step makes
// them fewer: a chart is not wider.
const mostPoints = 400

// StepOf is the shortest step that gives a range no more points than a chart
// has room for, and that the ledger can still tell apart.
func StepOf(since, until, now time.Time) Step {
	long, old := until.Sub(since), now.Sub(since)
	switch {
	case long <= mostPoints*time.Minute && old <= cache.KeepMinutes-time.Hour:
		return ByMinute
	case long <= mostPoints*15*time.Minute && old <= cache.KeepQuarters-24*time.Hour:
		return ByQuarter
	case long <= mostPoints*time.Hour && old <= cache.KeepQuarters-24*time.Hour:
		return ByHour
	}
	return ByDay
}

// Begin is when the step begins that t falls into.
func (s Step) Begin(t time.Time, zone *time.Location) time.Time {
	t = t.In(zone)
	switch s {
	case ByMinute:
		return t.Truncate(time.Minute)
	case ByQuarter:
		return t.Truncate(15 * time.Minute)
	case ByHour:
		_, offset := t.Zone()
		ahead := time.Duration(offset) * time.Second
		begin := t.Add(ahead).Truncate(time.Hour).Add(-ahead)
		// Where clocks are set by half an hour, one begins in the middle of another.
		if change, _ := t.ZoneBounds(); !change.IsZero() && begin.Before(change) {
			begin = change
		}
		return begin
	}
	return cache.Day.Begin(t, zone)
}

// Next is when the step after the one that begins at begin does.
func (s Step) Next(begin time.Time, zone *time.Location) time.Time {
	switch s {
	case ByMinute:
		return begin.Add(time.Minute)
	case ByQuarter:
		return begin.Add(15 * time.Minute)
	case ByHour:
		return s.Begin(begin.Add(time.Hour), zone)
	}
	return nextDay(begin, zone)
}

// nextDay is when the day after the one that begins at begin does.
func nextDay(begin time.Time, zone *time.Location) time.Time {
	return cache.Day.Begin(begin.In(zone).AddDate(0, 0, 1).Add(6*time.Hour), zone)
}
