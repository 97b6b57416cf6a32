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
	// Oops is told of a background step that failed; may be nil.
	Oops func(step string, err error)

	mu       sync.Mutex
	live     map[Key]*Entry
	renewing bool // a timer is set for the next renewals
}

// Entry is a request's hold on a record.
type Entry struct {
	Grant
	Reader *Reader // of Lead, Follow and Replay

	records *Records
	claim   Claim
	log     *Log
	lead    *Entry        // Follow: the entry of the leader in this process
	ready   chan struct{} // closed once the store has answered the claim; made on demand, guarded by records.mu
	known   bool          // the store has answered; guarded likewise
	noLead  bool          // valid after ready: this entry leads nothing
	err     error         // valid after ready: the store's

	// Of a leader's entry; guarded by records.mu.
	owed     []time.Time // when clients left without all of it
	leading  bool        // its claim is held
	away     bool        // it is led on another node: log is a copy
	wanted   bool        // somebody on another node reads the log: it is published
	settling bool
	fenced   bool // another leads: there is nothing to renew
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
// step is waited for.
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
			if e.err != nil {
				return nil, e.err // the store is away for everyone
			}
			if got := e.alike(c, until); got != nil {
				return got, nil
			}
			continue // what that request was says nothing of this one
		}
		if got := r.meet(e, c, until); got != nil {
			if got.Role == Twin && e.away { // an answer may be owed: the store knows
				return r.ask(&Entry{records: r, claim: c}, until)
			}
			return got, nil
		}
		// About to be settled: ask again then.
		select {
		case <-e.log.Done():
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
	g, err := r.Store.Claim(context.Background(), e.claim)
	e.Grant = g
	if err == nil && g.Role == Lead {
		e.log = NewLog(r.Window)
		e.Reader, _ = e.log.Join(until)
		r.mu.Lock()
		r.live[e.claim.Key] = e
		e.leading = true
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
	if err != nil {
		return nil, err
	}
	return e.replay(until), nil
}

// Away says that the call is led on another node, which may be lost.
func (e *Entry) Away() bool { return e.away || e.lead != nil && e.lead.away }

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
		c.Mode != e.claim.Mode || c.Retry != e.claim.Retry || e.Share == ByDebt {
		return nil
	}
	return (&Entry{Grant: e.Grant, records: e.records, claim: c}).replay(until)
}

// meet decides a claim on a record in flight in this process. nil: its log was
// abandoned, or it takes a debt that is on its way to the store.
func (r *Records) meet(lead *Entry, c Claim, until time.Time) *Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := Decide(c, View{State: Dispatched, Fingerprint: lead.claim.Fingerprint, Owed: r.owes(lead)})
	e := &Entry{Grant: Grant{Role: d.Role, Fence: lead.Fence, Share: d.Share}, records: r, claim: c, lead: lead}
	if d.Role != Follow {
		return e
	}
	if d.TakeDebt && lead.settling {
		return nil
	}
	var ok bool
	if e.Reader, ok = lead.log.Join(until); !ok {
		if lead.log.abandoned() {
			return nil
		}
		e.Role, e.Share = Twin, "" // too large to be shared any more
		return e
	}
	if d.TakeDebt {
		lead.owed = lead.owed[1:]
	}
	return e
}

func (r *Records) owes(e *Entry) bool {
	for len(e.owed) > 0 && time.Since(e.owed[0]) > r.Debt {
		e.owed = e.owed[1:]
	}
	return len(e.owed) > 0
}

func (r *Records) forget(e *Entry) {
	r.mu.Lock()
	if r.live[e.claim.Key] == e {
		delete(r.live, e.claim.Key)
	}
	r.mu.Unlock()
}

func (r *Records) oops(step string, err error) {
	if r.Oops != nil && err != nil {
		r.Oops(step, err)
	}
}

// scheduleRenewals has the leases of the calls that run renewed in time, by one
// timer for all: one a call would cost more than most calls need. r.mu is held.
func (r *Records) scheduleRenewals() {
	if !r.renewing {
		r.renewing = true
		time.AfterFunc(r.Lease/3, r.renew)
	}
}

// renew makes the leases of all calls that run last, and those alone.
func (r *Records) renew() {
	r.mu.Lock()
	var leads []*Entry
	for _, e := range r.live {
		if e.leading && !e.settling && !e.fenced {
			leads = append(leads, e)
		}
	}
	r.mu.Unlock()
	for _, e := range leads {
		wanted, err := r.Store.Renew(context.Background(), e.Hold(), r.Lease)
		if wanted {
			r.Wanted(e.Hold())
		}
		r.mu.Lock()
		over := e.settling // a renewal that crossed the settlement is refused rightly
		e.fenced = e.fenced || errors.Is(err, ErrFenced)
		r.mu.Unlock()
		if !over {
			r.oops("renew", err)
		}
	}
	r.mu.Lock()
	if r.renewing = false; len(r.live) > 0 {
		r.scheduleRenewals()
	}
	r.mu.Unlock()
}

// Settle ends a record that this entry leads: the result is recorded, then
// its last frames go to the readers. keep is how long it answers repeats;
// zero releases the record. disk: see Settlement. The error says that it
// could not be recorded; the readers get their frames all the same.
func (e *Entry) Settle(res Result, keep time.Duration, disk bool, last ...Frame) error {
	r := e.records
	if r == nil { // private
		e.log.mark(res.State == Completed, true)
		e.log.End(last...)
		return nil
	}
	whole := res.State == Completed
	r.mu.Lock()
	e.settling = true
	r.owes(e)
	owed := e.owed
	r.mu.Unlock()

	frames, all := e.log.Whole()
	if keep > 0 && all && size(frames)+size(last) <= r.Window {
		res.Frames = shared(frames, last)
	} else { // a part of an answer must never replay
		res.State, res.Frames, keep = Released, nil, 0
		if e.published() && all { // but those who follow elsewhere read it to its end
			res.Frames = shared(frames, last)
		}
	}
	set := Settlement{Nonce: NewNonce(), Result: res, Keep: keep, Owed: owed, Debt: r.Debt, Disk: disk}
	err := r.Store.Settle(context.Background(), e.Hold(), set)
	if errors.Is(err, ErrAway) {
		go r.settleLater(e.Hold(), set)
	}
	e.log.mark(whole, err == nil)
	r.forget(e) // first: who asks once the end is out asks the store
	e.log.End(last...)
	r.oops("settle", err)
	return err
}

// settleFor is how long a settlement that the store did not hear of is sent
// again. Whoever asks for the record meanwhile waits for it, or for the lease
// to lapse.
const settleFor = time.Minute

// settleLater tells the store of an end that it did not hear of. The nonce is
// the same, so that one whose acknowledgement was lost counts once.
func (r *Records) settleLater(h Hold, set Settlement) {
	for end := time.Now().Add(settleFor); time.Now().Before(end); {
		time.Sleep(readAgain)
		if err := r.Store.Settle(context.Background(), h, set); !errors.Is(err, ErrAway) {
			return
		}
	}
}

// shared gives the frames as they may be kept: less what only the leader's
// own client gets.
func shared(frames, last []Frame) []Frame {
	out := make([]Frame, 0, len(frames)+len(last))
	out = append(append(out, frames...), last...)
	for i, f := range out {
		if f.Kind == HeadFrame && f.Head.Own != nil {
			h := *f.Head
			h.Own = nil
			out[i].Head = &h
		}
	}
	return out
}

// Private says that nobody else can join the record, now or later.
func (e *Entry) Private() bool { return e.records == nil }

// Debt is an answer that was given, and may yet show to have been lost.
type Debt struct {
	records *Records
	hold    Hold
}

// Debt gives what is to be owed of this entry's answer, once its log has
// ended. It keeps nothing of the answer alive.
func (e *Entry) Debt() Debt {
	if e.Role == Twin || e.Role == Mismatch {
		return Debt{}
	}
	return Debt{e.records, e.Hold()}
}

// Owe is as Entry.Owe.
func (d Debt) Owe() {
	if r := d.records; r != nil {
		r.oops("owe", r.Store.Owe(context.Background(), d.hold, NewNonce(), r.Debt))
	}
}

// Owe says that this request's client left without all of the answer, so that
// its next try, even unmarked, may take it.
func (e *Entry) Owe() {
	r := e.records
	if r == nil { // private
		return
	}
	if e.Role == Twin || e.Role == Mismatch {
		return // what its client left is no answer of this record
	}
	lead := e
	if e.lead != nil {
		lead = e.lead
	}
	if e.Role != Replay {
		r.mu.Lock()
		if !lead.settling && !lead.away {
			lead.owed = append(lead.owed, time.Now())
			r.mu.Unlock()
			return
		}
		away := lead.away
		r.mu.Unlock()
		if !away { // of a call that is led elsewhere the store keeps the debts
			<-lead.log.Done()
		}
	}
	r.oops("owe", r.Store.Owe(context.Background(), e.Hold(), NewNonce(), r.Debt))
}
