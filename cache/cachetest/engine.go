// Package cachetest is what every engine of cache.Store must do: Run is run on
// each. Its cases say what the rows of the record's state table come to, for
// one caller, for many, for answers that were lost, and after a restart.
package cachetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"oncegate/cache"
)

// Engine is how the suite drives one.
type Engine struct {
	// Case runs one case: synctest.Test, or anything else that gives it a
	// clock that Pass moves. Nil runs it as it is.
	Case func(t *testing.T, f func(t *testing.T))
	// Open gives an empty store whose days are those of zone, nil for UTC, and
	// how to open its state again after a Close, as another process would. The
	// test closes what it opens.
	Open func(t *testing.T, zone *time.Location) (s cache.Store, again func() cache.Store)
	// Pass lets d go by, by the store's clock and by Now.
	Pass func(d time.Duration)
	// Now is the callers' clock. Nil is time.Now.
	Now func() time.Time
}

const (
	lease = 15 * time.Second
	keep  = 5 * time.Minute
	debt  = 2 * time.Minute
)

// Run runs the suite.
func Run(t *testing.T, e Engine) {
	if e.Case == nil {
		e.Case = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	if e.Now == nil {
		e.Now = time.Now
	}
	for _, c := range []struct {
		name string
		run  func(*fixture)
	}{
		{"a claim of an absent record leads", claimAbsent},
		{"a record in flight is followed by whom its mode lets", inFlight},
		{"a completed record replays to whom its mode lets", completed},
		{"a cut answer is no mere duplicate's", cutAnswer},
		{"a failure answers every repeat for its memo", failureMemo},
		{"a released record is claimed anew", released},
		{"an explicit key with other params is refused", mismatch},
		{"a lease lapses, is renewed, and lapses again", leases},
		{"a lapsed holder that nobody replaced may still settle", lateSettle},
		{"a stale holder changes nothing", staleHolder},
		{"a result never changes", resultStands},
		{"retention starts at settlement and no read prolongs it", retention},
		{"each repeat takes one debt", debts},
		{"debts of a call in flight", debtsInFlight},
		{"a debt ends", debtsEnd},
		{"owe on what is gone does nothing", oweGone},
		{"what is forgotten runs anew", forgets},
		{"a step sent again has no second effect", nonces},
		{"a step sent again after its record was replaced", noncesReplaced},
		{"the log in flight", logInFlight},
		{"a log that nobody reads any more is not wanted", logUnread},
		{"a settlement without frames where somebody reads", settledAlone},
		{"a reader waits, and ends with its context", readWaits},
		{"the log after its end", logAfterEnd},
		{"fences never repeat", fences},
		{"keys are apart", keysApart},
		{"the secret stands", secret},
		{"a restart keeps what was promised", restart},
		{"retention goes on over a restart", restartRetention},
		{"a closed store is away", closedAway},
		{"sixty-four claim one key", manyClaim},
		{"sixty-four take eight debts", manyDebts},
		{"steps of many callers are linearizable", linearizable},
		{"acknowledgements are lost", lostAcknowledgements},
		{"writes: a claim of an absent record leads", writeClaims},
		{"writes: dispatch is a one-way door", writeDoor},
		{"writes: a claim that lapsed is free", writeClaimLapses},
		{"writes: a dispatch that lapsed is unknown", writeDispatchLapses},
		{"writes: what was not sent is withdrawn", writeWithdraws},
		{"writes: how one ends, from where", writeSettles},
		{"writes: one in flight is followed", writeFollowed},
		{"writes: a step sent again has no second effect", writeNonces},
		{"writes: a stale dispatch sends nothing", writeStaleDispatch},
		{"writes: an unknown outcome is run again on its caller's word", writeReruns},
		{"writes: a doubt stands until it is ended", writeDoubtStands},
		{"writes: an unknown outcome is run again while the upstream deduplicates", writeAgain},
		{"writes: a window begins when the record settles", writeWithin},
		{"writes: the answer goes, then the memory of the key", writeKept},
		{"writes: of an aged key nobody can tell", writeAged},
		{"writes: an unknown outcome is resolved", writeResolves},
		{"writes: nothing edits the audit", writeAuditStands},
		{"writes: doubts are counted by tool", writeDoubts},
		{"writes: records are listed", writeLists},
		{"writes: a restart keeps what was promised", writeRestart},
		{"writes: the clocks go on over a restart", writeClocks},
		{"writes: each end is booked once", writeLedger},
		{"writes: sixty-four claim one key", manyWriteOne},
		{"writes: sixty-four write at once", manyWrite},
		{"writes: steps of many callers are linearizable", writesLinearizable},
		{"writes: acknowledgements are lost", writeLostAcknowledgements},
		{"writes: a random walk", writeWalk},
		{"writes: a closed store is away", writeClosed},
		{"the ledger sums what is booked", ledgerBook},
		{"a settlement books its lines if it takes effect", ledgerSettle},
		{"a settlement that was lost books once", ledgerLost},
		{"the ledger outlives a restart", ledgerRestart},
		{"days are those of the zone", ledgerDays},
		{"a full bucket books under other", ledgerOther},
		{"the ledger sums what is large", ledgerBig},
		{"lines that can't be are refused", ledgerRefuses},
		{"minutes and quarters end", ledgerRetention},
		{"the ledger is booked and read at once", ledgerTogether},
		{"sums of any lines", ledgerSums},
		{"a closed ledger is away", ledgerClosed},
		{"requests are listed as they came", historyListed},
		{"requests are filtered and found", historyFilters},
		{"requests that come move no page", historyTail},
		{"requests outlive a restart", historyRestart},
		{"requests are kept within bounds", historyKept},
		{"cursors of requests are this store's", historyCursors},
		{"requests are logged and read at once", historyTogether},
		{"a closed log of requests is away", historyClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.Case(t, func(t *testing.T) {
				s, again := e.Open(t, nil)
				f := &fixture{T: t, Store: s, open: e.Open, again: again, pass: e.Pass, now: e.Now}
				defer func() { f.Store.Close() }()
				c.run(f)
			})
		})
	}
}

// fixture is a case's store, with what a case says often.
type fixture struct {
	*testing.T
	Store cache.Store
	open  func(*testing.T, *time.Location) (cache.Store, func() cache.Store)
	again func() cache.Store
	pass  func(time.Duration)
	now   func() time.Time
}

func (f *fixture) restart() {
	f.Helper()
	if err := f.Store.Close(); err != nil {
		f.Fatalf("close: %v", err)
	}
	f.Store = f.again()
}

// reopen goes on with an empty store whose days are those of zone.
func (f *fixture) reopen(zone *time.Location) {
	f.Helper()
	if err := f.Store.Close(); err != nil {
		f.Fatalf("close: %v", err)
	}
	f.Store, f.again = f.open(f.T, zone)
}

func key(n byte) cache.Key { return cache.Key{n, 7, n} }

// derived is a claim of a derived key; explicit of a caller's own.
func derived(k cache.Key, m cache.Mode) cache.Claim {
	return cache.Claim{Key: k, Nonce: cache.NewNonce(), Mode: m, Lease: lease}
}

func retry(k cache.Key) cache.Claim {
	c := derived(k, cache.Retries)
	c.Retry = true
	return c
}

func explicit(k cache.Key, params byte) cache.Claim {
	c := derived(k, cache.Duplicates)
	c.Explicit, c.Fingerprint = true, [32]byte{params}
	return c
}

func body(s string) []cache.Frame {
	return []cache.Frame{
		{Kind: cache.HeadFrame, Head: &cache.Head{Status: 200, Target: "mock/m", Attempts: 1, Header: map[string][]string{"Content-Type": {"text/plain"}}}},
		{Kind: cache.BodyFrame, Data: []byte(s)},
	}
}

func text(frames []cache.Frame) (s string) {
	for _, fr := range frames {
		s += string(fr.Data)
	}
	return s
}

// whole is a settlement with a completed answer.
func whole(s string) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Keep: keep, Debt: debt,
		Result: cache.Result{State: cache.Completed, Frames: body(s)},
	}
}

func (f *fixture) claim(c cache.Claim) cache.Grant {
	f.Helper()
	g, err := f.Store.Claim(f.Context(), c)
	if err != nil {
		f.Fatalf("claim: %v", err)
	}
	tells := g.Role == cache.Replay || g.Role == cache.InDoubt || g.Role == cache.Gone
	if (g.Result != nil) != tells {
		f.Fatalf("a grant of role %d has the result %+v", g.Role, g.Result)
	}
	return g
}

// leads claims and must lead.
func (f *fixture) leads(c cache.Claim) cache.Hold {
	f.Helper()
	g := f.claim(c)
	if g.Role != cache.Lead || g.Fence == 0 {
		f.Fatalf("got %+v, want to lead", g)
	}
	return cache.Hold{Key: c.Key, Fence: g.Fence}
}

// is claims and must get this role, for this reason.
func (f *fixture) is(c cache.Claim, role cache.Role, share cache.Share) cache.Grant {
	f.Helper()
	g := f.claim(c)
	if g.Role != role || g.Share != share {
		f.Fatalf("got role %d, share %q, want %d, %q", g.Role, g.Share, role, share)
	}
	return g
}

// replays claims and must be answered with this body.
func (f *fixture) replays(c cache.Claim, share cache.Share, want string) cache.Grant {
	f.Helper()
	g := f.is(c, cache.Replay, share)
	if got := text(g.Result.Frames); got != want {
		f.Fatalf("the answer is %q, want %q", got, want)
	}
	return g
}

func (f *fixture) settle(h cache.Hold, s cache.Settlement) {
	f.Helper()
	if err := f.Store.Settle(f.Context(), h, s); err != nil {
		f.Fatalf("settle: %v", err)
	}
}

func (f *fixture) owe(h cache.Hold, d time.Duration) {
	f.Helper()
	if err := f.Store.Owe(f.Context(), h, cache.NewNonce(), d); err != nil {
		f.Fatalf("owe: %v", err)
	}
}

func (f *fixture) fenced(step string, err error) {
	f.Helper()
	if !errors.Is(err, cache.ErrFenced) {
		f.Fatalf("%s: %v, want ErrFenced", step, err)
	}
}

func (f *fixture) renew(h cache.Hold) error {
	_, err := f.Store.Renew(f.Context(), h, lease)
	return err
}

// short ends reads that must wait.
func (f *fixture) short() (context.Context, context.CancelFunc) {
	return context.WithTimeout(f.Context(), time.Second)
}
