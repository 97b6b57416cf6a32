package cache

import "time"

// Journal remembers on this node's disk which upstream attempts are in the
// air, so that those a dead process made can be booked as ambiguous.
type Journal interface {
	// Begin notes an attempt; called before its first byte is sent. It is a
	// plain write, not synced: it outlives the process, not the machine's
	// power. An error means that the attempt is not noted, and may be made
	// all the same.
	Begin(h Hold, target string) (id uint64, err error)
	// End notes that the attempt of this id was booked. Ids that are not
	// open, 0 among them, are ignored.
	End(id uint64)
}

// Attempt is one that was begun and never ended.
type Attempt struct {
	Key     Key
	Fence   Fence
	Target  string // provider/model
	Started time.Time
}
