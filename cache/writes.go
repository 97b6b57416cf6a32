package cache

import (
	"context"
	"errors"
	"time"
)

// The record of a write has a step more than a completion's: it is claimed
// first, and dispatched, durably, before its first byte leaves. From there on it
// runs once: what became of a dispatch that nobody settled is unknown, until a
// late result, a probe or a person says.

// Write is what a claim brings that is one of a write. Its key is always the
// caller's own (Claim.Explicit), or a random one that nobody can repeat.
type Write struct {
	About About // kept with the record
	// Again: an unknown outcome is claimed anew while its first dispatch is
	// younger than this, for the upstream tells a second one from the first by
	// our key. Zero: never.
	Again time.Duration
	// Knowingly: an unknown outcome is claimed anew, because the caller said so.
	Knowingly bool
	// Within: a completed record that settled longer ago is claimed anew. Zero:
	// however old it is, it answers.
	Within time.Duration
	// Aged: the caller's key is older than used keys are remembered, so that
	// nobody can tell whether it was used: what is absent is not claimed.
	Aged bool
}

// About says what a write is, for whoever has to find out what became of it.
type About struct {
	Tool      string `json:"tool"`
	Method    string `json:"method"`
	Path      string `json:"path"` // escaped, without its query
	Principal string `json:"principal"`
	User      string `json:"user,omitempty"`
	Unkeyed   bool   `json:"unkeyed,omitempty"` // the caller sent no key
	Size      int64  `json:"size,omitempty"`    // of the request's body, in bytes
	SHA256    string `json:"sha256,omitempty"`  // of it, hex; empty: there was none
	Probe     string `json:"probe,omitempty"`   // path and query to ask for the outcome; may hold {upstream_key}
}

// Steps of a record's trail, in the words that people read.
const (
	StepClaimed    = "claimed"
	StepDispatched = "dispatched"
	StepWithdrawn  = "withdrawn" // nothing was sent, or not executed: back to claimed
	StepCompleted  = "completed"
	StepReleased   = "released"
	StepUnknown    = "unknown"
	StepLapsed     = "lapsed"   // unknown, for its leader was not heard of any more
	StepRerun      = "rerun"    // an unknown outcome is claimed anew, on the caller's word
	StepAgain      = "again"    // likewise, for the upstream deduplicates
	StepResolved   = "resolved" // a person or a probe said what became of it

	StepForgotten = "forgotten" // of completions, in the audit only
)

// Step is one entry of a record's trail.
type Step struct {
	At     time.Time `json:"at"`
	What   string    `json:"what"`
	Fence  Fence     `json:"fence"`
	Status int       `json:"status,omitempty"` // of the upstream, where it had one
	Actor  string    `json:"actor,omitempty"`  // resolved: who; rerun: the principal
	Reason string    `json:"reason,omitempty"` // resolved: why
	As     string    `json:"as,omitempty"`     // resolved: completed or released
}

// maxTrail is how many steps a record's trail has: the first one and the latest.
const maxTrail = 64

// AddStep adds a step to a trail, and drops from its middle what is too much.
func AddStep(trail []Step, s Step) []Step {
	if len(trail) >= maxTrail {
		trail = append(trail[:1:1], trail[2:]...)
	}
	return append(trail, s)
}

// Resolution is what a person or a probe found out of an unknown outcome.
type Resolution struct {
	Nonce Nonce
	// Completed: it happened, and Result answers repeats; without frames they
	// are told that the answer is gone. Released: it did not, and the next
	// caller runs it.
	Result Result
	Keep   time.Duration // as of a Settlement
	Memory time.Duration // likewise
	Fence  Fence         // of the claim that is meant; zero: the latest
	Actor  string
	Reason string
}

// Record is what is known of a record of a write.
type Record struct {
	Key        Key
	Fence      Fence
	Origin     Fence // see Grant.Origin
	State      State // of one whose answer is not kept any more: Tombstone
	About      About
	Claimed    time.Time // the latest claim; times are the store's, zero: not yet, or not known
	Dispatched time.Time // the first dispatch that is in flight, in doubt or was settled
	Settled    time.Time // completed or unknown since
	Expires    time.Time // Completed: when the answer goes
	Forgotten  time.Time // Completed, Tombstone: when the key goes
	Status     int       // see Result
	Size       int64
	Sum        [32]byte
	Trail      []Step    // of Records: the last one
	Frames     []Frame   // of Record: the answer, where it is kept
	Read       time.Time // when it was read, by the clock of the others
}

// Filter chooses records. Zero values choose all.
type Filter struct {
	State     State // Absent: any
	Tool      string
	Principal string
}

// Audit is one decision that let a write run again, or said what became of it.
type Audit struct {
	Key   Key
	About About
	Step
}

// ErrSettled says that a record is not one whose outcome is unknown, and so is
// not to be resolved.
var ErrSettled = errors.New("cache: the record's outcome is not unknown")

// ErrNone says that there is no such record.
var ErrNone = errors.New("cache: there is no such record")

// Writes is the part of a store that the records of writes need beside.
type Writes interface {
	// Dispatch takes a claim through the one-way door: from Claimed to
	// Dispatched, if it is the latest and its lease has not lapsed, by the
	// store's clock. Once it returns nil that is durable, and only then may a
	// byte be sent. ErrFenced: another leads, or may; that is the answer to one
	// sent again too, unless it still stands: not one that was withdrawn or
	// settled since. With any other error it
	// counts as not dispatched, whatever the store did: nothing is sent, and
	// the holder releases it.
	Dispatch(ctx context.Context, h Hold, n Nonce) error
	// Withdraw takes it back from Dispatched to Claimed, with proof that
	// nothing was sent or executed, until the next attempt. It need not be
	// durable. On any other state it is ErrFenced.
	Withdraw(ctx context.Context, h Hold, n Nonce) error
	// Resolve ends an unknown outcome, durably, and writes to the audit.
	// ErrSettled, ErrNone: there is none to be ended; ErrFenced: not of that
	// claim. A dispatched record whose lease has lapsed is unknown.
	Resolve(ctx context.Context, k Key, r Resolution) error
	// Record gives one record with its trail and answer; ErrNone.
	Record(ctx context.Context, k Key) (Record, error)
	// Records lists, without answers, and of each trail the last step: the unknown ones by when they
	// were dispatched, the oldest first; others by when they were claimed, the
	// latest first.
	// next goes on where this page ended; empty: it was the last one. At most
	// limit (1 to 200) a page; a cursor that is none of this store's is
	// ErrCursor. What changes meanwhile may be missed or come twice.
	Records(ctx context.Context, f Filter, cursor string, limit int) (page []Record, next string, err error)
	// Audits lists the audit, the latest first. Nothing edits it.
	Audits(ctx context.Context, cursor string, limit int) (page []Audit, next string, err error)
	// Doubts counts the unknown outcomes of each tool.
	Doubts(ctx context.Context) (map[string]int64, error)
}

// ErrCursor says that a cursor is none that the store gave.
var ErrCursor = errors.New("cache: not a cursor of this list")
