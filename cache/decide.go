package cache

import "time"

// View is what Decide needs to know of a record.
type View struct {
	State       State
	Fingerprint [32]byte
	Lapsed      bool // Dispatched: the lease ran out
	Cut         bool // Completed: see Result.Cut
	Owed        bool // at least one debt that still counts

	// Of writes.
	Doubt bool          // Claimed, Dispatched: an earlier claim's outcome is in doubt
	Sent  time.Duration // how long ago the first dispatch that is in doubt was
	Age   time.Duration // how long ago it settled
	Kept  bool          // Completed: the answer is there
}

// Decision is what a claim on a record comes to.
type Decision struct {
	Role     Role
	Share    Share
	TakeDebt bool // the request takes one debt
	Lapsed   bool // see Grant.Lapsed
	Again    bool // Lead: of an unknown outcome, whose origin and first dispatch stand
}

// Decide says what a request is that finds a record in this state. An engine
// applies it atomically with its effect; a record past its retention is
// Absent.
func Decide(c Claim, v View) Decision {
	if c.Write != nil {
		return decideWrite(c, v)
	}
	switch {
	case v.State == Absent || v.State == Released:
		return Decision{Role: Lead}
	case v.State == Dispatched && v.Lapsed && !(c.Explicit && c.Fingerprint != v.Fingerprint):
		return Decision{Role: Lead, Lapsed: true}
	case c.Explicit && c.Fingerprint != v.Fingerprint:
		return Decision{Role: Mismatch}
	}
	role := Replay
	if v.State == Dispatched {
		role = Follow
	}
	switch {
	case c.Explicit:
		return Decision{Role: role, Share: ByKey}
	case c.Retry:
		return Decision{Role: role, Share: RetryMarked}
	case v.Owed:
		return Decision{Role: role, Share: ByDebt, TakeDebt: true}
	case v.State == Failed: // the failure memo answers every repeat
		return Decision{Role: Replay, Share: ByTwin}
	case v.State == Dispatched && c.Mode >= Duplicates:
		return Decision{Role: Follow, Share: ByTwin}
	case v.State == Dispatched:
		return Decision{Role: Twin}
	case c.Mode >= Always && !v.Cut:
		return Decision{Role: Replay, Share: WithinTTL}
	}
	return Decision{Role: Lead} // completed, and this caller may not share it
}
