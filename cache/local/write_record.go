package local

import (
	"container/list"
	"slices"
	"time"

	"oncegate/cache"
)

// writeOverhead is what a record of a write is taken to cost in memory beside
// its answer, in bytes.
const writeOverhead = 1536

// A write is the record of one, guarded by its shard's mutex. It is in memory
// while it is in flight and for a while after; its row has whatever must
// outlive the process, from its dispatch on. The answer is never changed once
// set, and of the trail nothing but what comes after its end.
type write struct {
	key     cache.Key
	fence   cache.Fence
	origin  cache.Fence
	print   [32]byte
	about   cache.About
	state   cache.State // Absent: only just asked for; never Tombstone, which is a Completed one past expires
	doubt   bool        // an earlier claim's outcome is in doubt
	lost    bool        // Unknown: its leader was not heard of
	trail   []cache.Step
	claimed time.Time

	// Of the latest claim.
	claimedBy  cache.Nonce
	lapsed     bool // it took over a lapsed lease
	lease      time.Time
	lapses     []byte // what it comes to if nobody settles, encoded
	dispatched time.Time
	sentBy     cache.Nonce // the dispatch
	log        []cache.Frame
	wanted     bool          // somebody reads the log
	changed    chan struct{} // closed when log grows or the claim ends; made on demand

	// Of its end.
	endedBy   cache.Nonce // a settlement or a resolution
	endedHow  kind
	settled   time.Time
	expires   time.Time // Completed: when the answer goes; Released: when the nonces go
	forgotten time.Time // Completed: when the key goes
	status    int
	size      int64
	sum       [32]byte
	kept      bool          // Completed: the answer is on disk
	answer    []byte        // frames, encoded as on disk; nil: none, or to be read from there
	reading   chan struct{} // closed when a read of it from disk has ended

	steps   []step        // other steps, the latest last
	pending *pendingWrite // a step on its way to disk
	loading chan struct{} // closed when its row was looked for
	queued  int           // its changes that the writer has yet to commit
	stored  bool          // there is a row, or one is queued
	row     cache.Fence   // the row's; 0: there is none, or it is not known
	unsaved bool          // its row could not be written: to be tried again
	owing   []byte        // what could not be booked with it, encoded
	told    []*auditRow   // what could not be written of it to the audit

	weight int64         // bytes that it counts in memory
	in     *list.List    // its shard's of those that have ended, or nil
	recent *list.Element // in that
	used   time.Time     // when it was last
}

// inFlight says that a claim holds the record, lapsed or not.
func (w *write) inFlight() bool { return w.state == cache.Claimed || w.state == cache.Dispatched }

// late says that the claim's lease ran out.
func (w *write) late(now time.Time) bool {
	return w.inFlight() && w.pending == nil && !now.Before(w.lease)
}

// view gives what is to be decided.
func (w *write) view(now time.Time) cache.View {
	v := cache.View{
		State: w.state, Fingerprint: w.print, Lapsed: w.late(now), Doubt: w.doubt,
		Sent: now.Sub(w.dispatched), Age: now.Sub(w.settled), Kept: w.kept && now.Before(w.expires),
	}
	if w.state == cache.Completed && !now.Before(w.forgotten) {
		v.State = cache.Absent
	}
	return v
}

// grant is what a claim that does not lead is told.
func (w *write) grant(d cache.Decision, now time.Time) cache.Grant {
	g := cache.Grant{Role: d.Role, Share: d.Share, Fence: w.fence, Origin: w.origin, At: now, Lapsed: d.Lapsed}
	if d.Role == cache.Aged {
		g.Fence, g.Origin = 0, 0
	}
	if d.Role == cache.InDoubt || d.Role == cache.Gone {
		g.Result = w.result()
	}
	return g
}

// result is what is known of how it ended, less the answer.
func (w *write) result() *cache.Result {
	return &cache.Result{State: w.state, Settled: w.settled, Status: w.status, Size: w.size, Sum: w.sum}
}

// leads is the grant of the claim that holds it.
func (w *write) leads() cache.Grant {
	return cache.Grant{Role: cache.Lead, Fence: w.fence, Origin: w.origin, Lapsed: w.lapsed, At: w.claimed}
}

func (w *write) remember(s step) {
	if s.nonce == (cache.Nonce{}) {
		return
	}
	if len(w.steps) == remembered {
		w.steps = slices.Clone(w.steps[1:])
	}
	w.steps = append(w.steps, s)
}

// recall gives what the step of this nonce was answered. Of a dispatch it is
// one that was withdrawn: see Dispatch.
func (w *write) recall(n cache.Nonce, k kind) (cache.Grant, bool) {
	switch {
	case n == (cache.Nonce{}):
		return cache.Grant{}, false
	case k == claimed && n == w.claimedBy:
		return w.leads(), true
	case k == w.endedHow && n == w.endedBy:
		return cache.Grant{Fence: w.fence}, true
	}
	for i := range w.steps {
		if s := &w.steps[i]; s.nonce == n && s.kind == k {
			return s.grant, true
		}
	}
	return cache.Grant{}, false
}

// passOn keeps, of the claim that another takes over or of the end that
// another follows, what may be sent again.
func (w *write) passOn() {
	w.remember(step{w.claimedBy, claimed, w.leads()})
	w.remember(step{w.endedBy, w.endedHow, cache.Grant{Fence: w.fence}})
	w.claimedBy, w.sentBy, w.endedBy = cache.Nonce{}, cache.Nonce{}, cache.Nonce{}
}

// ended notes which step ended it.
func (w *write) ended(n cache.Nonce, how kind) {
	w.remember(step{w.endedBy, w.endedHow, cache.Grant{Fence: w.fence}})
	w.endedBy, w.endedHow = n, how
}

// step adds to the trail.
func (w *write) step(s cache.Step) {
	s.Fence = w.fence
	w.trail = cache.AddStep(w.trail, s)
}

// tell wakes those who read the log.
func (w *write) tell() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// become changes a record, and keeps the count of doubts, what the sweeper
// looks at and what is counted in memory.
func (s *Store) become(sh *shard, w *write, change func(*write)) {
	was, tool := w.state, w.about.Tool
	change(w)
	if was == cache.Unknown {
		s.doubts.add(tool, -1)
	}
	if w.state == cache.Unknown {
		s.doubts.add(w.about.Tool, 1)
	}
	if !w.inFlight() {
		w.log = nil
		w.tell()
	}
	s.place(sh, w)
}

// place links a record in where it belongs by its state.
func (s *Store) place(sh *shard, w *write) {
	if w.inFlight() || w.unsaved {
		sh.restless[w] = struct{}{}
	} else {
		delete(sh.restless, w)
	}
	var in *list.List
	switch w.state {
	case cache.Completed, cache.Unknown:
		in = &sh.settled
	case cache.Released:
		in = &sh.released
	}
	if w.in != in {
		w.unlink()
		if w.in = in; in != nil {
			w.recent = in.PushBack(w)
		}
	}
	s.useWrite(w)
	weight := writeOverhead + int64(len(w.answer))
	s.used.Add(weight - w.weight)
	w.weight = weight
}

// useWrite marks a record that has ended as just used.
func (s *Store) useWrite(w *write) {
	if w.in != nil {
		w.in.MoveToBack(w.recent)
		w.used = s.now()
	}
}

// unlink takes a record out of the list that it is in, if any.
func (w *write) unlink() {
	if w.in != nil {
		w.in.Remove(w.recent)
		w.in, w.recent = nil, nil
	}
}

// forgetWrite takes a record out of memory. What is on disk stays there.
func (s *Store) forgetWrite(sh *shard, w *write) {
	if sh.writes[w.key] == w {
		delete(sh.writes, w.key)
	}
	delete(sh.restless, w)
	w.unlink()
	s.used.Add(-w.weight)
	w.weight = 0
}

// idle says that nothing of the record is in memory only.
func (w *write) idle() bool {
	return w.pending == nil && w.queued == 0 && !w.unsaved && w.loading == nil && w.reading == nil && !w.inFlight()
}

// evictWrite lets a shard's longest unused record go that has ended, if there
// is one. It is on disk; of one that was released nothing but nonces is lost.
func (s *Store) evictWrite(sh *shard) bool {
	for _, in := range []*list.List{&sh.released, &sh.settled} {
		for e := in.Front(); e != nil; e = e.Next() {
			if w := e.Value.(*write); w.idle() {
				s.forgetWrite(sh, w)
				return true
			}
		}
	}
	return false
}
