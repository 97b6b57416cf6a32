package cache

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// The ledger is the account of what was asked, what it cost and what was
// saved: sums by minute, quarter of an hour and day, for each series. The
// record's settlement books its own lines in the same step; all others are
// booked by Book.

// Series is what a line is about. What does not apply is empty.
type Series struct {
	Model     string // as clients name it
	Provider  string // of the target that answered, or was asked last
	Operation string
	User      string // the end user
	Key       string // name of the client's gateway key
	Tool      string
	Outcome   string // of CONTRACT: executed, coalesced, ...
	Reason    string
}

// Figures are what a ledger counts. All are sums; none is ever negative.
type Figures struct {
	Requests int64

	Billed, Unbilled, Ambiguous int64 // attempts upstream

	SavedRequests             int64 // answered by a shared success
	SavedInput, SavedOutput   int64 // tokens
	Saved                     Money
	BilledInput, BilledOutput int64 // tokens
	Spent                     Money
	Unpriced                  int64 // requests whose answer has tokens and no price
	Prevented                 int64 // duplicate writes
}

// Add adds others to the figures. false: a sum is more than can be counted,
// and nothing was added.
func (f *Figures) Add(o *Figures) bool {
	sum := *f
	sum.Requests += o.Requests
	sum.Billed += o.Billed
	sum.Unbilled += o.Unbilled
	sum.Ambiguous += o.Ambiguous
	sum.SavedRequests += o.SavedRequests
	sum.SavedInput += o.SavedInput
	sum.SavedOutput += o.SavedOutput
	sum.Saved.Add(o.Saved)
	sum.BilledInput += o.BilledInput
	sum.BilledOutput += o.BilledOutput
	sum.Spent.Add(o.Spent)
	sum.Unpriced += o.Unpriced
	sum.Prevented += o.Prevented
	// Of two that are not negative, a sum that overflowed is.
	for _, n := range sum.numbers() {
		if *n < 0 {
			return false
		}
	}
	*f = sum
	return true
}

// Line is one thing to be booked: figures of a series, in the minute of At.
type Line struct {
	At time.Time
	Series
	Figures
}

// Minute of the line: minutes since 1970.
func (l *Line) Minute() int64 { return l.At.Unix() / 60 }

const (
	// MostFigure is the most that a figure of one line may be, its dollars
	// too. More is nonsense, and eight million such lines would be more than
	// an int64 holds.
	MostFigure = 1 << 40
	// MostName is how many bytes of a name are kept.
	MostName = 256
)

// ErrLine says that a line can't be booked.
var ErrLine = errors.New("cache: no line for the ledger")

// Fit makes the line one that can be booked, as an engine does with each: names
// are cut. The error is ErrLine: a figure is negative or beyond MostFigure, or
// the line is from before 1970. Such a line is left out, and told.
func (l *Line) Fit() error {
	for _, n := range l.numbers() {
		if *n < 0 || *n > MostFigure && n != &l.Saved.Picos && n != &l.Spent.Picos {
			return fmt.Errorf("%w: a figure is %d", ErrLine, *n)
		}
	}
	if l.Saved.Picos >= picos || l.Spent.Picos >= picos {
		return fmt.Errorf("%w: an amount is %d and %d, %d and %d picos", ErrLine, l.Saved.Dollars, l.Saved.Picos, l.Spent.Dollars, l.Spent.Picos)
	}
	if l.At.Unix() < 0 {
		return fmt.Errorf("%w: it is from %v", ErrLine, l.At)
	}
	for _, name := range l.names() {
		if len(*name) > MostName {
			end := MostName
			for end > MostName-utf8.UTFMax && !utf8.RuneStart((*name)[end]) {
				end--
			}
			*name = (*name)[:end]
		}
	}
	return nil
}

// Level is how long the buckets are that are read.
type Level uint8

const (
	Minute  Level = iota // kept 48 hours
	Quarter              // of an hour, kept 90 days: zones with half hours need it
	Day                  // in the ledger's zone, kept for good
)

const (
	// KeepMinutes and KeepQuarters are how long buckets are kept from their begin.
	KeepMinutes  = 48 * time.Hour
	KeepQuarters = 90 * 24 * time.Hour
	// MostSeries is how many series a bucket has before users are told apart no
	// more, and MostNamed before models and keys are not either.
	MostSeries = 2000
	MostNamed  = MostSeries + 500
	// Other stands for whatever a bucket has no room to tell apart.
	Other = "other"
)

// OtherSeries is where a series is booked whose bucket is full: what clients
// name freely is no longer told apart; what is configured still is.
func OtherSeries(s Series) Series {
	s.Model, s.User, s.Key = Other, Other, Other
	return s
}

// Within is where a series is booked that a bucket of n has not: the same one if
// there is room, else one that tells less, which the bucket may have.
func (s Series) Within(n int) Series {
	switch named := s.User != "" && s.User != Other; {
	case n < MostSeries, n < MostNamed && !named:
		return s
	case named:
		s.User = Other
		return s
	}
	return OtherSeries(s)
}

// Begin is when the bucket begins that t falls into. zone is that of days; nil
// is UTC.
func (l Level) Begin(t time.Time, zone *time.Location) time.Time {
	switch l {
	case Minute:
		return t.Truncate(time.Minute)
	case Quarter:
		return t.Truncate(15 * time.Minute)
	}
	if zone == nil {
		zone = time.UTC
	}
	return midnight(t.In(zone))
}

// midnight is the first moment of t's day in its zone. Where clocks are set on
// at midnight, the day begins with the change; where they are set back to it,
// it begins with the first of two midnights.
func midnight(t time.Time) time.Time {
	y, m, d := t.Date()
	begin := time.Date(y, m, d, 0, 0, 0, 0, t.Location())
	if begin.Day() != d { // there is no midnight: it is before the change
		_, begin = begin.ZoneBounds()
		return begin
	}
	change, _ := begin.ZoneBounds()
	if change.IsZero() || begin.Sub(change) > 24*time.Hour {
		return begin
	}
	_, after := begin.Zone()
	_, before := change.Add(-1).Zone()
	if first := begin.Add(time.Duration(after-before) * time.Second); first.Before(change) && first.Day() == d && first.Before(begin) {
		return first
	}
	return begin
}

// Ledger is the part of a Store that keeps the account.
type Ledger interface {
	// Book adds lines that belong to no settlement, each as Fit leaves it. It
	// neither waits nor fails: what can't be written yet is written as soon as
	// it can be. A crash may lose the last second of it; nothing is ever
	// counted twice.
	Book(lines ...Line)
	// Scan calls f for each series of each bucket of the level that begins in
	// [from, until), in any order: once for a bucket and series, with all
	// that was booked before the call. f must not keep the figures.
	Scan(ctx context.Context, level Level, from, until time.Time, f func(begin time.Time, s Series, sum *Figures)) error
}
