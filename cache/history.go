package cache

import (
	"context"
	"time"
)

// Request is one request that is over, as the log of requests keeps it: one of
// the operations, the passthrough or the tools. The ledger sums the same ones.
type Request struct {
	Place string    // in the log, set by Requests: a cursor that goes on after it. Unlike any other
	At    time.Time // when it was over, as the ledger has it; to the microsecond
	ID    string    // x-request-id: ours, or the upstream's. Unlike most others
	Series
	Record Key    // that it is about; zero: none
	Target string // who answered, or was asked last: provider/model, or a tool
	Status int    // 499: the client left first
	Left   bool   // the client left before it had all

	Attempts int           // upstream, of the call that it led or shared
	Took     time.Duration // from its arrival on; these are whole microseconds
	Upstream time.Duration // of it, in attempts of its own; zero: it made none
	Overhead time.Duration // from its arrival to its first attempt; zero: it made none

	Tokens Tokens // of the answer
	Billed Amount // that its own call cost; not known of one that shared another's answer
	Saved  Amount // that the answer which it shared had cost; not known of one that led

	Timeline []Moment
}

// Tokens are those of an answer. Known: it said what it used; else all are zero.
type Tokens struct {
	Known                 bool
	Input, Output, Cached int64 // Cached are of Input, from the provider's own prompt cache
}

// Amount is money that may not be known: then it is not zero.
type Amount struct {
	Money
	Known bool
}

// Moment is one entry of the timeline of a request.
type Moment struct {
	At     time.Duration // from the request's arrival on, when it began
	What   Happening
	Target string        // attempt: who was asked
	Status int           // attempt: the upstream's, 0 if none came; answered: the client's
	Result string        // attempt: ok, 503, timeout, ...; shared: why; stored: as what
	For    time.Duration // attempt, wait: how long
	Of     time.Duration // wait: the jitter's upper bound, that For was drawn below
	Fence  Fence         // claimed
}

// Happening is what a moment is.
type Happening uint8

const (
	WasClaimed  Happening = iota + 1 // it leads its record
	WasShared                        // it reads one that another leads, or led
	WasTried                         // an attempt upstream
	WasHeldBack                      // a wait between two
	WasAnswered                      // its client has all that it gets
	WasStored                        // the record's end is settled

	happenings
)

func (h Happening) String() string {
	return [...]string{"", "claimed", "shared", "attempt", "wait", "answered", "stored"}[h%happenings]
}

// MostMoments is how many of a timeline are kept: its first ones.
const MostMoments = 64

// Unnamed chooses those that have no name, of a user, a tool, ...
const Unnamed = "-"

// RequestFilter chooses requests. Zero values choose all.
type RequestFilter struct {
	Since, Until time.Time // since inclusive, until exclusive
	Series       Series    // each name that is not empty is the request's; Unnamed: it has none
	Find         Find
	After        string // a place: those that came into the log later
}

// Find chooses requests for which any of these is so. Zero: all.
type Find struct {
	ID     string
	Record string // of the record's key in lower hex digits: all or how it begins
	Keys   []Key  // one of these is the record's
}

func (f *Find) all() bool { return f.ID == "" && f.Record == "" && len(f.Keys) == 0 }

// History is the part of a Store that keeps the log of requests.
type History interface {
	// Log adds a request, behind: it never waits, and keeps nothing of r. What
	// can't be written in time is left out, and that is told. A crash may lose
	// the last second.
	Log(r *Request)
	// Requests lists what this node logged before the call, and others up to a
	// second before: the latest first, by when they came into the log, so that
	// what comes meanwhile comes before the first page and moves none. next goes
	// on where this page ended; empty: it was the last one. At most limit
	// (1 to 200) a page, and fewer, even none, where a search has not found more
	// in about a second: next goes on then. A cursor that is none of this
	// store's is ErrCursor.
	Requests(ctx context.Context, f RequestFilter, cursor string, limit int) (page []Request, next string, err error)
}

const (
	// MostPage is how many requests a page has at most.
	MostPage = 200
	// BlockRequests and BlockBytes are how many requests, and bytes of them
	// before they are compressed, are kept together at most.
	BlockRequests = 256
	BlockBytes    = 256 << 10
	// MostWaiting is how many blocks wait to be written at most. What comes
	// then is left out.
	MostWaiting = 64
	// SearchFor is after how long a search gives what it has.
	SearchFor = time.Second
)
