package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Records is how one process uses a Store: duplicates meet in memory first,
// so that however many follow a call here, the store sees one claim. A call
// that is led elsewhere has one copy of its log here, which all followers read.
type Records struct {
	Store  Store
	Lease  time.Duration // how long a claim lasts without renewal
	Window int64         // bytes: the largest answer that is kept, see Log
	Debt   time.Duration // how long an undelivered answer waits for its unmarked retry
	// Shared: other nodes use the store too, and may take what is owed of a call
	// that is still in flight here.
	Shared bool
	// Oops is told of a background step that failed; may be nil.
	Oops func(step string, err error)
	// GiveBack ends, behind, a claim whose answer was lost (ErrLost): by this
	// settlement if it landed, and so that it can't land any more if it did
	// not. Nil: the store does what is needed by itself.
	GiveBack func(Claim, *Settlement)
	// Closed is closed when the store is about to be; nil: never.
	Closed <-chan struct{}
	// Landed says whether such a claim leads, and if it does not sees to it that
	// it can't any more. Nil: it is not renewed.
	Landed func(Claim) (h Hold, leads bool, err error)

	mu       sync.Mutex
	live     map[Key]*Entry
	renewing bool // a timer is set for the next renewals
}

// Entry is a request's hold on a record.
type Entry struct {
	Grant
	Reader *Reader       // of Lead, Follow and Replay
	Lines  []Line        // of Lead: what the call came to, to be booked with its settlement; of a private one nobody books them
	Memory time.Duration // of a Lead of a write that completes: how long its key is remembered
	Lapses []Line        // of Lead: what the store books by itself should it never hear of the end: the claim's, or what it was told since

	records *Records
	claim   Claim
	log     *Log
	lead    *Entry        // Follow: the entry of the leader in this process
	asked   time.Time     // just before the claim was sent
	heard   time.Time     // and just after its answer
	lost    *lost         // its claim may have landed, though the store is away; else nil
	ready   chan struct{} // closed once the store has answered the claim; made on demand, guarded by records.mu
	known   bool          // the store has answered; guarded likewise
	noLead  bool          // valid after ready: this entry leads nothing
	err     error         // valid after ready: the store's

	// Of a leader's entry; guarded by records.mu.
	owed     []time.Time // when clients left without all of it
	told     int         // how many of those the store was told of at once, and keeps
	leading  bool        // its claim is held
	held     time.Time   // just before the store was last asked for the lease, and gave it
	away     bool        // it is led on another node: log is a copy
	wanted   bool        // somebody on another node reads the log: it is published
	calls    int         // how often that was told
	unheard  time.Time   // when the store last did not answer its publisher
	ended    bool        // its readers have the end: nobody joins any more
	settling bool
	fenced   bool          // another leads: there is nothing to renew
	settled  bool          // the store was told, or could not be
	over     chan struct{} // closed once it is settled; made on demand
}

// Log is the record's log: for a leader to fill. Only a Mismatch and a Twin
// have none.
func (e *Entry) Log() *Log {
	if e.lead != nil {
		return e.lead.log
	}
	return e.log
}

// Hold names the entry's claim.
func (e *Entry) Hold() Hold { return Hold{e.claim.Key, e.Fence} }

// NewNonce makes a nonce. It need only be unlike any other, not secret.
func NewNonce() (n Nonce) {
	binary.LittleEndian.PutUint64(n[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(n[8:], rand.Uint64())
	return n
}

// Open finds out what a request is, and joins it to the log that it is to
// read until the given time (zero: for ever) for a first frame. A Lead must be
// ended by Settle.
//
// An error is the store's, or ctx's cause when it ends while another request's
// step is waited for. With ErrAway comes an entry all the same, but for a write:
// for a call that is to run without protection. It is as Private makes one, and
// must be ended by Settle too.
func (r *Records) Open(ctx context.Context, c Claim, until time.Time) (*Entry, error) {
	c.Nonce, c.Lease = NewNonce(), r.Lease
	for {
		r.mu.Lock()
		e := r.live[c.Key]
		if e == nil {
			mine := &Entry{records: r, claim: c}
			if r.live == nil {
				r.live = make(map[Key]*Entry)
			}
			r.live[c.Key] = mine
			r.mu.Unlock()
			return r.ask(mine, until)
		}
		known := e.answered()
		r.mu.Unlock()

		select {
		case <-known:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if e.noLead {
			if errors.Is(e.err, ErrAway) && c.Write == nil { // for everyone
				return Private(r.Window, until), e.err
			}
			if e.err != nil {
				return nil, e.err
			}
			if got := e.alike(c, until); got != nil {
				return got, nil
			}
			continue // what that request was says nothing of this one
		}
		got, ask := r.meet(e, c, until)
		if ask {
			return r.ask(&Entry{records: r, claim: c}, until)
		}
		if got != nil {
			return got, nil
		}
		// About to be settled: ask again then.
		select {
		case <-r.over(e):
			r.forget(e)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// answered is closed once the store has answered the claim. r.mu is held.
func (e *Entry) answered() <-chan struct{} {
	if e.known {
		return closedChan
	}
	if e.ready == nil {
		e.ready = make(chan struct{})
	}
	return e.ready
}

// tell says that the store has answered the claim. r.mu is held.
func (e *Entry) tell() {
	if e.known = true; e.ready != nil {
		close(e.ready)
	}
}

// Private makes a leader's entry that no store knows and nobody else can join.
func Private(window int64, until time.Time) *Entry {
	e := &Entry{Grant: Grant{Role: Lead}}
	e.log = NewLog(window)
	e.Reader, _ = e.log.Join(until)
	return e
}

// ask claims at the store, and makes the entry what the grant says.
func (r *Records) ask(e *Entry, until time.Time) (*Entry, error) {
	// The claim is the record's, not the connection's: a client that goes
	// away must not leave the store's answer unheard.
	e.asked = time.Now()
	g, err := r.Store.Claim(context.Background(), e.claim)
	e.heard = time.Now()
	e.Grant = g
	if err == nil && g.Role == Lead {
		e.log, e.Lapses = NewLog(r.Window), e.claim.Lapses
		e.Reader, _ = e.log.Join(until)
		r.mu.Lock()
		r.live[e.claim.Key] = e
		e.leading, e.held = true, e.asked
		e.tell()
		r.scheduleRenewals()
		r.mu.Unlock()
		return e, nil
	}
	if err == nil && g.Role == Follow {
		return r.followAway(e, until), nil
	}
	e.noLead, e.err = true, err
	r.mu.Lock()
	e.tell()
	r.mu.Unlock()
	r.forget(e)
	switch {
	case err == nil:
		return e.replay(until), nil
	case e.claim.Write != nil:
		if r.GiveBack != nil && errors.Is(err, ErrLost) {
			r.GiveBack(e.claim, nil)
		}
	case errors.Is(err, ErrAway):
		return r.bypass(e.claim, err, until), err
	}
	return nil, err
}

// Away says that the call is led on another node, which may be lost.
func (e *Entry) Away() bool { return e.away || e.lead != nil && e.lead.away }

// MayLose says that the log this entry reads may be lost, so that it has to be
// claimed anew: it is led on another node, or it is a write, whose leader may be
// told that another leads.
func (e *Entry) MayLose() bool {
	return e.Role == Follow && (e.Away() || e.claim.Write != nil)
}

// replay joins an entry that replays to its result; others are as they are.
func (e *Entry) replay(until time.Time) *Entry {
	if e.Role == Replay {
		e.log = SettledLog(e.Result)
		e.Reader, _ = e.log.Join(until)
	}
	return e
}

// alike gives a claim the answer that another's got from the store while this
// one waited for it, if that answer is this one's too: so that however many
// ask for a settled record at once, the store sees one claim.
func (e *Entry) alike(c Claim, until time.Time) *Entry {
	if c.Explicit != e.claim.Explicit || c.Fingerprint != e.claim.Fingerprint ||
		c.Mode != e.claim.Mode || c.Retry != e.claim.Retry || e.Share == ByDebt || c.Write != nil && c.Write.Knowingly {
		return nil
	}
	g := e.Grant
	g.Lapsed = false // that was found out once
	return (&Entry{Grant: g, records: e.records, claim: c}).replay(until)
}

// Late says, of a follower whose log has ended, that its claim came when the
// readers of that call may have had their end already: it follows nothing, and
// is to be asked anew. Only who follows a call of another node can be late: the
// store hears of an end a moment after the readers do.
func (e *Entry) Late() bool {
	if e.Role != Follow || e.Share != ByTwin || !e.Away() {
		return false
	}
	ended := e.Log().endedAt()
	return !ended.IsZero() && !e.At.IsZero() && !e.At.Before(ended)
}

// over is closed once the store knows how a call that is led here ended, or
// once the copy of another's log has ended.
func (r *Records) over(e *Entry) <-chan struct{} {
	if e.away {
		return e.log.Done()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.settled {
		return closedChan
	}
	if e.over == nil {
		e.over = make(chan struct{})
	}
	return e.over
}

// meet decides a claim on a record in flight in this process. nil: its log has
// ended or was abandoned, or it takes a debt that is on its way to the store.
// ask: an answer may be owed that the store knows of.
func (r *Records) meet(lead *Entry, c Claim, until time.Time) (got *Entry, ask bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := Decide(c, View{State: Dispatched, Fingerprint: lead.claim.Fingerprint, Owed: r.owes(lead)})
	e := &Entry{Grant: Grant{Role: d.Role, Fence: lead.Fence, Share: d.Share}, records: r, claim: c, lead: lead}
	if lead.away && !lead.At.IsZero() { // at the latest
		e.At = lead.At.Add(time.Since(lead.asked))
	}
	if lead.ended { // what it came to, the store will know
		return nil, false
	}
	if d.Role == Twin && lead.away || lead.told > 0 && (d.Role == Twin || d.Share == ByTwin) {
		return nil, true
	}
	if d.Role != Follow {
		return e, false
	}
	if d.TakeDebt && lead.settling {
		return nil, false
	}
	var ok bool
	if e.Reader, ok = lead.log.Join(until); !ok {
		if lead.log.abandoned() {
			return nil, false
		}
		e.Role, e.Share = Twin, "" // too large to be shared any more
		return e, false
	}
	if d.TakeDebt {
		lead.owed = lead.owed[1:]
	}
	return e, false
}

func (r *Records) forget(e *Entry) {
	r.mu.Lock()
	if r.live[e.claim.Key] == e {
		delete(r.live, e.claim.Key)
	}
	r.mu.Unlock()
}

func (r *Records) closed() bool {
	select {
	case <-r.Closed:
		return true
	default:
		return false
	}
}

func (r *Records) oops(step string, err error) {
	if r.Oops != nil && err != nil {
		r.Oops(step, err)
	}
}

// Private says that nobody else can join the record, now or later.
func (e *Entry) Private() bool { return e.records == nil }
