package local

import (
	"container/heap"
	"container/list"
	"sync"
	"time"

	"oncegate/cache"
)

// overhead is what a record is taken to cost in memory beside its frames, in
// bytes.
const overhead = 640

// place says where a record is on disk. Once it is anything but nowhere, its
// row must be deleted when the record goes.
type place uint8

const (
	nowhere place = iota
	queued        // the writer has it; it may be read from memory only
	stored        // committed
)

// A record is guarded by its shard's mutex. Of what it points to, frames and
// answer are never changed once set.
type record struct {
	key         cache.Key
	fence       cache.Fence
	fingerprint [32]byte
	state       cache.State
	cut         bool
	claimedBy   cache.Nonce // of the claim that leads it
	lapsed      bool        // that claim took over a lapsed lease
	settledBy   cache.Nonce
	steps       []step      // other steps, the latest last
	owed        []time.Time // when each debt ends, the earliest first

	// In flight.
	lease   time.Time
	log     []cache.Frame
	wanted  bool          // somebody has read the log since asked
	asked   time.Time     // when its readers last were asked; zero: they were not, or nobody has since
	changed chan struct{} // closed when log grows or the record settles; made on demand
	pending *pending      // its settlement, on its way to disk

	// Settled.
	settled time.Time
	ended   time.Time // see cache.Result
	expires time.Time
	keep    time.Duration // as it was settled
	answer  []byte        // its frames, encoded as on disk; nil: to be read from there
	weight  int64         // bytes that it counts in memory
	where   place
	loading chan struct{} // closed when a read from disk has ended

	// Where it is linked in.
	prev, next *record // in its shard's flights, or in recent
	list       *ring
	index      int // in the shard's deadlines, -1 when it is not in there
}

// kind of a step
type kind uint8

const (
	claimed kind = iota
	settled
	owed
	dispatched // of writes
	withdrawn
	resolved
)

// step is one that a record remembers, for its nonce to come again.
type step struct {
	nonce cache.Nonce
	kind  kind
	grant cache.Grant // claimed; its result is the record's
}

// remembered is how many steps a record remembers beside its claim and
// settlement.
const remembered = 8

func (r *record) remember(s step) {
	if s.nonce == (cache.Nonce{}) {
		return
	}
	if len(r.steps) == remembered {
		copy(r.steps, r.steps[1:])
		r.steps = r.steps[:remembered-1]
	}
	r.steps = append(r.steps, s)
}

// recall gives what the step of this nonce was answered.
func (r *record) recall(n cache.Nonce, k kind) (cache.Grant, bool) {
	switch {
	case n == (cache.Nonce{}):
		return cache.Grant{}, false
	case k == claimed && n == r.claimedBy:
		return cache.Grant{Role: cache.Lead, Fence: r.fence, Lapsed: r.lapsed}, true
	case k == settled && n == r.settledBy:
		return cache.Grant{Fence: r.fence}, true
	}
	for i := range r.steps {
		if s := &r.steps[i]; s.nonce == n && s.kind == k {
			return s.grant, true
		}
	}
	return cache.Grant{}, false
}

// inherit takes over what the record that this one replaces remembers.
func (r *record) inherit(old *record) {
	r.steps = old.steps
	if old.claimedBy != (cache.Nonce{}) {
		r.remember(step{old.claimedBy, claimed, cache.Grant{Role: cache.Lead, Fence: old.fence, Lapsed: old.lapsed}})
	}
	if old.settledBy != (cache.Nonce{}) {
		r.remember(step{old.settledBy, settled, cache.Grant{Fence: old.fence}})
	}
}

// gone says that the record is past its retention: Absent, whether it was
// swept or not.
func (r *record) gone(now time.Time) bool {
	return r.state != cache.Dispatched && !now.Before(r.expires)
}

// view drops the debts that no longer count, and gives what is to be decided.
func (r *record) view(now time.Time) cache.View {
	for len(r.owed) > 0 && !now.Before(r.owed[0]) {
		r.owed = r.owed[1:]
	}
	return cache.View{
		State:       r.state,
		Fingerprint: r.fingerprint,
		Lapsed:      r.state == cache.Dispatched && !now.Before(r.lease),
		Cut:         r.cut,
		Owed:        len(r.owed) > 0,
	}
}

// owe adds a debt that ends then.
func (r *record) owe(end time.Time) {
	i := len(r.owed)
	for i > 0 && end.Before(r.owed[i-1]) {
		i--
	}
	// Not in place: rows on their way to disk share the array.
	next := make([]time.Time, 0, len(r.owed)+1)
	r.owed = append(append(append(next, r.owed[:i]...), end), r.owed[i:]...)
}

// tell wakes those who read the log.
func (r *record) tell() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// kept is a settled record as its shard's mutex let it be seen.
type kept struct {
	result cache.Result // less its frames
	answer []byte       // nil: to be read from disk
}

func (r *record) kept() kept {
	return kept{cache.Result{State: r.state, Settled: r.settled, Ended: r.ended, Cut: r.cut}, r.answer}
}

// read gives what a replay reads: frames of its own, over the bytes that all
// share.
func (k kept) read() (*cache.Result, error) {
	frames, err := cache.DecodeFrames(k.answer)
	if err != nil {
		return nil, err
	}
	k.result.Frames = frames
	return &k.result, nil
}

// shard is a part of the keys.
type shard struct {
	mu        sync.Mutex
	records   map[cache.Key]*record
	flights   ring      // in flight, the first claimed first
	recent    ring      // settled and held in memory, the longest unused first
	deadlines deadlines // all settled ones, by when they expire

	writes   map[cache.Key]*write
	restless map[*write]struct{} // those in flight, and that could not be written
	settled  list.List           // of *write, the longest unused first
	released list.List           // likewise
}

// ring is a list of records around its root.
type ring struct{ first, last *record }

func (l *ring) push(r *record) {
	r.list, r.prev, r.next = l, l.last, nil
	if l.last != nil {
		l.last.next = r
	} else {
		l.first = r
	}
	l.last = r
}

// unlink takes a record out of the list that it is in, if any.
func (r *record) unlink() {
	l := r.list
	if l == nil {
		return
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.list, r.prev, r.next = nil, nil, nil
}

// deadlines is a heap of settled records, the first to expire on top.
type deadlines []*record

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].expires.Before(d[j].expires) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *deadlines) Push(x any) {
	r := x.(*record)
	r.index = len(*d)
	*d = append(*d, r)
}

func (d *deadlines) Pop() any {
	last := len(*d) - 1
	r := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	r.index = -1
	return r
}

// hold counts a settled record's answer, and marks it as just used.
func (s *Store) hold(sh *shard, r *record) {
	r.unlink()
	sh.recent.push(r)
	if r.weight == 0 {
		r.weight = overhead + int64(len(r.answer))
		s.used.Add(r.weight)
	}
}

// letGo takes a settled record's answer out of memory. It stays known.
func (s *Store) letGo(r *record) {
	r.unlink()
	s.used.Add(-r.weight)
	r.weight, r.answer = 0, nil
}

// drop forgets a record, in memory at once and on disk behind.
func (s *Store) drop(sh *shard, r *record) {
	if sh.records[r.key] == r {
		delete(sh.records, r.key)
	}
	s.letGo(r)
	if r.index >= 0 {
		heap.Remove(&sh.deadlines, r.index)
	}
	if r.where != nowhere || r.pending != nil {
		s.writer.put(op{what: erase, key: r.key, fence: r.fence})
		r.where = nowhere
	}
	r.tell()
}

// evict makes room: the longest unused go first. What is on disk stays known
// and is read again when it is asked for; what is only in memory is lost,
// which costs a call and never a wrong answer.
func (s *Store) evict() {
	for empty := 0; s.used.Load() > s.memory && empty < len(s.shards); {
		sh := &s.shards[s.hand.Add(1)%uint64(len(s.shards))]
		sh.mu.Lock()
		r := sh.recent.first
		if s.evictWrite(sh) { // nothing is lost with it
			empty = 0
			sh.mu.Unlock()
			continue
		}
		for r != nil && r.where == queued { // not on disk yet: it would be lost
			r = r.next
		}
		switch {
		case r == nil:
			empty++
		case r.where == stored:
			s.letGo(r)
			empty = 0
		default:
			s.drop(sh, r)
			empty = 0
		}
		sh.mu.Unlock()
	}
}
