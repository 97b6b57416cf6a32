// Package cache keeps records: append-only logs of response frames, each
// claimed by one leader under a fence and read by everyone else. Store is the
// port that an engine implements; Records is how the gateway uses one.
package cache

import (
	"context"
	"errors"
	"time"
)

// Key names a record: an HMAC, so that nothing of a client's key can be read
// from it or steer where it is kept.
type Key [32]byte

// Fence numbers the claims of a key. A step of an older fence changes nothing.
type Fence uint64

// Nonce is made anew by the caller of each step. A step that is sent again
// with its nonce gives the answer it gave before and has no second effect, so
// a lost acknowledgement can be asked for again.
type Nonce [16]byte

// Mode is what a request without an explicit key may share. Each mode
// includes the one before it.
type Mode uint8

const (
	Off        Mode = iota // nothing; never claims
	Retries                // a retry joins or replays the call it repeats
	Duplicates             // and concurrent duplicates share one call
	Always                 // and every duplicate within the retention replays
)

// State of a record. Completions go from absent straight to Dispatched.
type State uint8

const (
	Absent State = iota
	Dispatched
	Completed
	Failed   // a final failure, kept for a moment so that repeats get it too
	Released // given up by its holder: the next caller claims it

	// Of writes only; see Write.
	Claimed   // nothing was sent
	Unknown   // sent, and nobody knows what became of it
	Tombstone // completed, and the answer is no longer kept
)

// Claim asks what a request is, and makes it the leader when nobody leads.
type Claim struct {
	Key         Key
	Fingerprint [32]byte // what an explicit key was first used with; zero for derived keys
	Nonce       Nonce
	Explicit    bool // the key is the caller's own
	Mode        Mode
	Retry       bool // the request says that it is a retry
	Lease       time.Duration
	// Lapses is what the claim comes to in the ledger if nobody settles it: it
	// is booked with the claim that takes it over, or when it is forgotten. An
	// engine whose nodes keep a Journal books nothing.
	Lapses []Line
	Write  *Write // nil: a completion
}

// Role is what a claim found the request to be.
type Role uint8

const (
	Lead     Role = iota + 1 // run the call, append, settle
	Follow                   // read the log of the call in flight
	Replay                   // read the settled result
	Mismatch                 // the same explicit key with another fingerprint
	Twin                     // in flight, but the mode may not share it: run privately

	// Of writes only.
	InDoubt // nobody knows whether it happened; Grant.Result says what is known
	Gone    // it ran, and its answer is not kept; likewise
	Aged    // see Write.Aged
)

// Share is the word for why an answer was shared.
type Share string

const (
	ByKey       Share = "key"
	RetryMarked Share = "retry_marked"
	ByDebt      Share = "owed"
	ByTwin      Share = "twin"
	WithinTTL   Share = "within_ttl"
)

// Grant answers a claim.
type Grant struct {
	Role   Role
	Fence  Fence
	Share  Share     // Follow and Replay: why
	Result *Result   // Replay: what to read; it must not be changed
	At     time.Time // when it was granted, by the store's clock; zero: the engine does not say
	Lapsed bool      // Lead: taken over from a holder whose lease ran out, so its attempt is ambiguous; InDoubt: this claim found that out
	// Origin, of a write: the fence of the claim that the operation began with.
	// It stands while an unknown outcome is run again, so that the upstream gets
	// the same key.
	Origin Fence
}

// Hold names a claim that its leader holds.
type Hold struct {
	Key   Key
	Fence Fence
}

// Result is how a record ended.
type Result struct {
	State   State // Completed, Failed, Released, Unknown
	Frames  []Frame
	Settled time.Time // set by the engine; of a Grant by this process's clock
	Ended   time.Time // see Settlement
	Cut     bool      // finished by length or content filter: never a mere duplicate's answer

	// Of a write: what is remembered when the frames are not there (any more).
	Status int      // the upstream's; 0: it sent none
	Size   int64    // bytes of its body
	Sum    [32]byte // SHA-256 of them
}

// Settlement ends a record.
type Settlement struct {
	Nonce  Nonce
	Result Result
	Keep   time.Duration // how long the result answers repeats, from now; of a failure the memo
	Memory time.Duration // of a write that completed: how long its key is remembered, from now; at least Keep
	Owed   []time.Time   // when clients left without all of it, at most Debt ago
	Debt   time.Duration // how long each of Owed counts
	Ended  time.Time     // from when on, by the store's clock, its readers may have had their end; zero: not before this
	Disk   bool          // an explicit key: on disk before Settle returns. Owed ones go there behind
	Lines  []Line        // what the call comes to in the ledger: booked if, and only if, the record ends by this
	Alone  bool          // of a completion: its frames were left out, for nobody elsewhere is known to read them
}

// ErrFollowed says of a settlement that is Alone that somebody reads the log:
// it needs the frames. Nothing was changed.
var ErrFollowed = errors.New("cache: the log is read elsewhere")

// ErrFenced says that the claim is no longer the caller's: another leads, or
// the record is gone. Nothing was changed.
var ErrFenced = errors.New("cache: the claim was taken over")

// ErrLapsed says that the lease of the call in flight ran out: its leader is
// dead or stopped, and whoever claims next leads.
var ErrLapsed = errors.New("cache: the leader's lease lapsed")

// ErrAway says that the store could not be asked, or did not answer in time.
// The step may or may not have had its effect.
var ErrAway = errors.New("cache: the store is away")

// ErrLost says, beside ErrAway, that the step was sent and only its answer is
// missing. Without it a step that is away had no effect, where the engine
// tells the two apart.
var ErrLost = errors.New("cache: the answer was lost")

// Unread is for how long a log is wanted of which no reader is heard.
const Unread = 3 * time.Second

// Store keeps records. Each method is one atomic step, linearizable per key,
// that checks the fence, and may be sent again with the same nonce. Any
// number of goroutines and processes may call it at once.
type Store interface {
	// Claim decides by Decide, atomically with what it changes: a new fence
	// and lease for a leader, one debt less for a retry that takes one.
	Claim(ctx context.Context, c Claim) (Grant, error)
	// Renew makes the lease last for lease from now, by the store's clock.
	// wanted says that somebody on another node reads this log, so that it
	// must be appended from its beginning.
	Renew(ctx context.Context, h Hold, lease time.Duration) (wanted bool, err error)
	// Ask has everybody who reads this log say so again. wanted is false, until
	// it is next read, once nobody has said so for Unread.
	Ask(ctx context.Context, h Hold) (wanted bool, err error)
	// Append publishes frames of the log, the first of them at index from.
	// Frames that are already there are left as they are; a gap is an error.
	Append(ctx context.Context, h Hold, from int, frames []Frame) error
	// Read gives the frames of the log from index from on. result is nil
	// while the record is in flight; then Read waits for the first new frame
	// until ctx ends. Calling it, and waiting in it, leaves the mark that Renew
	// reports as wanted.
	// A log that is gone is ErrFenced, one that nobody leads any more
	// ErrLapsed.
	Read(ctx context.Context, h Hold, from int) (frames []Frame, result *Result, err error)
	// Settle ends the record. Completed and failed results answer repeats
	// for s.Keep; a released record is gone at once, its fence remembered.
	//
	// A write is settled durably, from Dispatched or, by a late result of the
	// same fence, from Unknown; released from Claimed too. Where an earlier
	// claim's outcome is in doubt, released means unknown again. The frames of an
	// unknown outcome are for those who follow, and not kept; one that completed
	// without frames is Gone to repeats. From Unknown nothing is booked: the
	// doubt was.
	Settle(ctx context.Context, h Hold, s Settlement) error
	// Owe says that a client was left without all of the settled answer: the
	// next unmarked repeat within d may take it. On a record that is gone or
	// was claimed anew it does nothing.
	Owe(ctx context.Context, h Hold, n Nonce, d time.Duration) error
	// Forget lets go of a completion that is settled, durably, so that the next
	// caller runs it anew, and writes to the audit. ErrNone: there is none, or it
	// is in flight, or a write: used keys are not forgotten. Sent again it is
	// ErrNone too.
	Forget(ctx context.Context, k Key, actor, reason string) error

	Ledger
	Writes
	History
	// Secret is what all keys are derived from. The store makes it at first
	// start; it never changes afterwards.
	Secret(ctx context.Context) ([]byte, error)
	// Close writes down what is still to be written and lets go.
	Close() error
}
