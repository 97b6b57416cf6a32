package cache

import (
	"context"
	"time"
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

// Add adds others to the figures.
func (f *Figures) Add(o *Figures) {
	f.Requests += o.Requests
	f.Billed += o.Billed
	f.Unbilled += o.Unbilled
	f.Ambiguous += o.Ambiguous
	f.SavedRequests += o.SavedRequests
	f.SavedInput += o.SavedInput
	f.SavedOutput += o.SavedOutput
	f.Saved.Add(o.Saved)
	f.BilledInput += o.BilledInput
	f.BilledOutput += o.BilledOutput
	f.Spent.Add(o.Spent)
	f.Unpriced += o.Unpriced
	f.Prevented += o.Prevented
}

// Line is one thing to be booked: figures of a series, in the minute of At.
type Line struct {
	At time.Time
	Series
	Figures
}

// Minute of the line: minutes since 1970.
func (l *Line) Minute() int64 { return l.At.Unix() / 60 }

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
	// MostSeries is how many series a bucket has before further ones are
	// booked under OtherSeries.
	MostSeries = 2000
	// Other stands for whatever a bucket has no room to tell apart.
	Other = "other"
)

// OtherSeries is where a series is booked whose bucket is full: what clients
// name freely is no longer told apart; what is configured still is.
func OtherSeries(s Series) Series {
	s.Model, s.User, s.Key = Other, Other, Other
	return s
}

// Begin is when the bucket begins that t falls into. zone is that of days.
func (l Level) Begin(t time.Time, zone *time.Location) time.Time {
	switch l {
	case Minute:
		return t.Truncate(time.Minute)
	case Quarter:
		return t.Truncate(15 * time.Minute)
	}
	y, m, d := t.In(zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, zone)
}

// Ledger is the part of a Store that keeps the account.
type Ledger interface {
	// Book adds lines that belong to no settlement. It neither waits nor
	// fails: what can't be written yet is written as soon as it can be. A
	// crash may lose the last second of it; nothing is ever counted twice.
	Book(lines ...Line)
	// Scan calls f for each series of each bucket of the level that begins in
	// [from, until), in any order: once for a bucket and series, with all
	// that was booked before the call. f must not keep the figures.
	Scan(ctx context.Context, level Level, from, until time.Time, f func(begin time.Time, s Series, sum *Figures)) error
}
