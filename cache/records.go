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
		err := e.renew()
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

// renew makes one entry's lease last.
func (e *Entry) renew() error {
	r, asked := e.records, time.Now()
	wanted, err := r.Store.Renew(context.Background(), e.Hold(), r.Lease)
	if wanted {
		r.Wanted(e.Hold())
	}
	if err == nil {
		r.mu.Lock()
		e.held = asked
		r.mu.Unlock()
	}
	return err
}

// deliverFor is how long the store hears nothing of the end of a derived key's
// call, so that it hears at once of who was left without.
const deliverFor = 20 * time.Millisecond

// Settle ends a record that this entry leads. keep is how long the result
// answers repeats; zero releases the record. disk: see Settlement. Of an
// explicit key, and where others follow on another node, the result is recorded
// before its last frames go to the readers; of a derived one when all readers
// have left with it, or after deliverFor.
// The error says that it could not be recorded; the readers get their frames
// all the same.
func (e *Entry) Settle(res Result, keep time.Duration, disk bool, last ...Frame) error {
	r := e.records
	if r == nil { // private
		if e.lost != nil {
			e.lost.settle(e, res, keep, disk, last)
		}
		e.log.mark(res.State == Completed, true)
		e.log.End(last...)
		return nil
	}
	whole := res.State == Completed
	var ended time.Time
	r.mu.Lock()
	first := !e.claim.Explicit && !e.wanted // the readers come first
	e.ended = first                         // who asks from now on asks the store
	r.mu.Unlock()
	if first {
		if !e.At.IsZero() { // at the earliest
			ended = e.At.Add(time.Since(e.heard))
		}
		e.log.mark(whole, true)
		e.log.End(last...)
		last = nil // they are in the log now
		e.delivered()
	}
	err := e.record(res, keep, disk, ended, last)
	if !first {
		e.log.mark(whole, err == nil)
	}
	r.mu.Lock()
	if e.settled = true; e.over != nil {
		close(e.over)
	}
	r.mu.Unlock()
	r.forget(e)
	if !first {
		e.log.End(last...)
	}
	r.oops("settle", err)
	return err
}

// delivered waits until all readers of a log that has ended have left it, but
// not for long.
func (e *Entry) delivered() {
	timer := time.NewTimer(deliverFor)
	defer timer.Stop()
	select {
	case <-e.log.Gone():
	case <-timer.C:
	}
}

// record tells the store of a call's end. What it did not hear it is told
// again behind.
func (e *Entry) record(res Result, keep time.Duration, disk bool, ended time.Time, last []Frame) error {
	r := e.records
	r.mu.Lock()
	e.settling = true
	r.owes(e)
	owed := e.owed
	r.mu.Unlock()
	set := e.settlement(r, res, keep, e.published(), last)
	set.Owed, set.Disk, set.Ended, set.Lines = owed, disk, ended, e.Lines
	err := r.Store.Settle(context.Background(), e.Hold(), set)
	switch {
	case !errors.Is(err, ErrAway):
	case e.claim.Write != nil:
		go r.settleWrite(e.Hold(), set)
	default:
		go r.settleLater(e.Hold(), set, attempts(e.Lapses))
	}
	return err
}

// settlement makes of a call's end what the store is told. followed: somebody
// on another node may read the log.
func (e *Entry) settlement(r *Records, res Result, keep time.Duration, followed bool, last []Frame) Settlement {
	if e.claim.Write != nil {
		return e.settlementOfWrite(r, res, keep, last)
	}
	frames, all := e.log.Whole()
	if keep > 0 && all && size(frames)+size(last) <= r.Window {
		res.Frames = shared(frames, last)
	} else { // a part of an answer must never replay
		res.State, res.Frames, keep = Released, nil, 0
		if followed && all { // but those who follow elsewhere read it to its end
			res.Frames = shared(frames, last)
		}
	}
	return Settlement{Nonce: NewNonce(), Result: res, Keep: keep, Debt: r.Debt}
}

// settleFor is how long a settlement that the store did not hear of is sent
// again. Whoever asks for the record meanwhile waits for it, or for the lease
// to lapse.
const settleFor = time.Minute

// settleLater tells the store of an end that it did not hear of. The nonce is
// the same, so that one whose acknowledgement was lost counts once. lapses is
// how many attempts the store books by itself if it never hears of it.
func (r *Records) settleLater(h Hold, set Settlement, lapses int64) {
	for end := time.Now().Add(settleFor); time.Now().Before(end); {
		time.Sleep(readAgain)
		if err := r.Store.Settle(context.Background(), h, set); !errors.Is(err, ErrAway) {
			return
		}
	}
	// Nobody knows whether it was booked: what it might add is in doubt.
	for i := range set.Lines {
		l := set.Lines[i]
		n := attempts(set.Lines[i : i+1])
		known := min(n, lapses)
		if lapses -= known; n > known {
			l.Figures = Figures{Ambiguous: n - known}
			r.Store.Book(l)
		}
	}
}

// attempts is how many lines tell of.
func attempts(lines []Line) (n int64) {
	for i := range lines {
		n += lines[i].Billed + lines[i].Unbilled + lines[i].Ambiguous
	}
	return n
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
		r.owe(d.hold)
	}
}

// Owe says that this request's client left without all of the answer, so that
// its next try, even unmarked, may take it.
func (e *Entry) Owe() {
	r := e.records
	if r == nil { // private
		if e.lost != nil {
			e.lost.owe()
		}
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
		kept := !lead.settling && !lead.away && (!r.Shared || lead.ended)
		if kept {
			lead.owed = append(lead.owed, time.Now())
		} else {
			lead.told++
		}
		over := lead.settling
		r.mu.Unlock()
		if kept {
			return
		}
		if over {
			<-lead.log.Done()
		}
	}
	r.owe(e.Hold())
}

// owe tells the store of a debt, later if need be.
func (r *Records) owe(h Hold) {
	n, until := NewNonce(), time.Now().Add(r.Debt)
	err := r.Store.Owe(context.Background(), h, n, r.Debt)
	if errors.Is(err, ErrAway) {
		go r.oweLater(h, n, until)
	}
	r.oops("owe", err)
}

// oweLater tells the store of a debt that it did not hear of. The nonce is the
// same, so that one whose acknowledgement was lost counts once.
func (r *Records) oweLater(h Hold, n Nonce, until time.Time) {
	again := time.NewTicker(readAgain)
	defer again.Stop()
	for time.Now().Before(until) {
		select {
		case <-again.C:
		case <-r.Closed:
			return
		}
		if err := r.Store.Owe(context.Background(), h, n, time.Until(until)); !errors.Is(err, ErrAway) {
			return
		}
	}
}
