package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/cache/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	lease  = 15 * time.Second
	keep   = 5 * time.Minute
	window = 10_000
)

// house is a process: its records, and the store below with what goes wrong.
type house struct {
	*testing.T
	*cache.Records
	faulty *cachetest.Faulty
	claims atomic.Int64           // that reached the store
	fail   atomic.Pointer[string] // the step that fails before its effect

	mu   sync.Mutex
	told []string // steps behind that failed
}

// inHouse runs f in a bubble.
func inHouse(t *testing.T, f func(*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := local.Open(t.TempDir(), local.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		h := &house{T: t}
		h.faulty = &cachetest.Faulty{Store: s, Before: func(step string) bool {
			if step == "claim" {
				h.claims.Add(1)
			}
			bad := h.fail.Load()
			return bad != nil && *bad == step
		}}
		h.Records = &cache.Records{
			Store: h.faulty, Lease: lease, Window: window, Debt: 2 * time.Minute,
			Oops: func(step string, err error) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.told = append(h.told, step)
			},
		}
		f(h)
	})
}

// toldOf gives the steps behind that failed so far.
func (h *house) toldOf() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}

func (h *house) failing(step string) { h.fail.Store(&step) }

func claim(mode cache.Mode) cache.Claim {
	return cache.Claim{Key: cache.Key{1}, Nonce: cache.NewNonce(), Mode: mode, Lease: lease}
}

func marked() cache.Claim {
	c := claim(cache.Retries)
	c.Retry = true
	return c
}

func keyed(params byte) cache.Claim {
	c := claim(cache.Duplicates)
	c.Explicit, c.Fingerprint = true, [32]byte{params}
	return c
}

func frame(s string) cache.Frame { return cache.Frame{Kind: cache.BodyFrame, Data: []byte(s)} }

func (h *house) open(c cache.Claim) *cache.Entry {
	h.Helper()
	e, err := h.Open(h.Context(), c, time.Time{})
	if err != nil {
		h.Fatal(err)
	}
	readable := e.Role == cache.Lead || e.Role == cache.Follow || e.Role == cache.Replay
	if (e.Reader != nil) != readable {
		h.Fatalf("role %d has the reader %v", e.Role, e.Reader)
	}
	return e
}

func (h *house) is(c cache.Claim, role cache.Role, share cache.Share) *cache.Entry {
	h.Helper()
	e := h.open(c)
	if e.Role != role || e.Share != share {
		h.Fatalf("got role %d, share %q, want %d, %q", e.Role, e.Share, role, share)
	}
	return e
}

func (h *house) settle(e *cache.Entry, frames ...cache.Frame) {
	h.Helper()
	if err := e.Settle(cache.Result{State: cache.Completed}, keep, false, frames...); err != nil {
		h.Fatal(err)
	}
}

// read reads an entry to its end.
func read(e *cache.Entry) (s string) {
	defer e.Reader.Leave()
	for {
		frames, _, ended := e.Reader.Take(nil)
		for _, f := range frames {
			s += string(f.Data)
		}
		if ended {
			return s
		}
		<-e.Reader.Woken()
	}
}

func TestThousandDuplicatesMakeOneClaim(t *testing.T) {
	for name, c := range map[string]func() cache.Claim{
		"derived":  func() cache.Claim { return claim(cache.Duplicates) },
		"explicit": func() cache.Claim { return keyed(1) },
		"retries":  marked,
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(h *house) {
				var wg sync.WaitGroup
				var leaders atomic.Int64
				answers := make([]string, 1000)
				for i := range answers {
					wg.Go(func() {
						e := h.open(c())
						if e.Role == cache.Lead {
							leaders.Add(1)
							wg.Go(func() {
								for n := range 20 {
									if err := e.Log().Append(h.Context(), frame(fmt.Sprint(n, " "))); err != nil {
										h.Error(err)
									}
									time.Sleep(10 * time.Millisecond)
								}
								h.settle(e, frame("end"))
							})
						}
						answers[i] = read(e)
					})
				}
				wg.Wait()
				if n := leaders.Load(); n != 1 {
					h.Errorf("%d lead", n)
				}
				if n := h.claims.Load(); n != 1 {
					h.Errorf("the store saw %d claims", n)
				}
				for _, got := range answers {
					if got != answers[0] || !strings.HasSuffix(got, "19 end") {
						h.Fatalf("one got %q", got)
					}
				}
			})
		})
	}
}

// slowly is a store whose claims take a while, so that others meet them.
type slowly struct{ cache.Store }

func (s slowly) Claim(ctx context.Context, c cache.Claim) (cache.Grant, error) {
	g, err := s.Store.Claim(ctx, c)
	time.Sleep(time.Millisecond)
	return g, err
}

func TestThousandRepeatsOfASettledRecord(t *testing.T) {
	inHouse(t, func(h *house) {
		h.settle(h.open(keyed(1)), frame("answer"))
		h.Store = slowly{h.Store}
		before := h.claims.Load()
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				if i%10 == 0 { // each is judged for itself
					h.is(keyed(2), cache.Mismatch, "")
				} else if got := read(h.is(keyed(1), cache.Replay, cache.ByKey)); got != "answer" {
					h.Errorf("got %q", got)
				}
			})
		}
		wg.Wait()
		if n := h.claims.Load() - before; n > 2 {
			h.Errorf("the store saw %d claims of two kinds", n)
		}
	})
}

// A retry that replays and duplicates that do not, all at once: one of the
// duplicates leads, and none is left with a follower's grant and no log.
func TestMixedClaimsOfASettledRecord(t *testing.T) {
	for round := range 20 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			inHouse(t, func(h *house) {
				h.settle(h.open(claim(cache.Duplicates)), frame("old"))
				h.Store = slowly{h.Store}
				var wg sync.WaitGroup
				var leaders atomic.Int64
				for i := range 200 {
					wg.Go(func() {
						c := claim(cache.Duplicates)
						if i%3 == round%3 {
							c = marked()
						}
						e := h.open(c)
						switch e.Role {
						case cache.Lead:
							leaders.Add(1)
							wg.Go(func() {
								time.Sleep(time.Second)
								h.settle(e, frame("new"))
							})
							fallthrough
						case cache.Follow:
							if got := read(e); got != "new" {
								h.Errorf("got %q", got)
							}
						case cache.Replay:
							if got := read(e); got != "old" || e.Share != cache.RetryMarked {
								h.Errorf("got %q, %q", got, e.Share)
							}
						default:
							h.Errorf("role %d", e.Role)
						}
					})
				}
				wg.Wait()
				if n := leaders.Load(); n != 1 {
					h.Errorf("%d lead", n)
				}
			})
		})
	}
}

func TestModesInFlight(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		lead.Log().Append(h.Context(), frame("a"))
		h.is(claim(cache.Retries), cache.Twin, "")
		follower := h.is(claim(cache.Always), cache.Follow, cache.ByTwin)
		retry := h.is(marked(), cache.Follow, cache.RetryMarked)
		h.settle(lead, frame("b"))
		for _, e := range []*cache.Entry{lead, follower, retry} {
			if got := read(e); got != "ab" {
				h.Errorf("got %q", got)
			}
		}
		h.is(keyed(1), cache.Mismatch, "") // the key of a derived record
	})
	inHouse(t, func(h *house) {
		lead := h.is(keyed(1), cache.Lead, "")
		h.is(keyed(2), cache.Mismatch, "")
		h.settle(lead, frame("x"))
		h.is(keyed(2), cache.Mismatch, "")
		if got := read(h.is(keyed(1), cache.Replay, cache.ByKey)); got != "x" {
			h.Errorf("got %q", got)
		}
	})
}

func TestDebtsInFlight(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Retries), cache.Lead, "")
		twin := h.is(claim(cache.Retries), cache.Twin, "")
		twin.Owe() // its own answer, none of this record
		h.is(claim(cache.Retries), cache.Twin, "")
		lead.Owe()
		follower := h.is(claim(cache.Retries), cache.Follow, cache.ByDebt)
		h.is(claim(cache.Retries), cache.Twin, "")
		follower.Owe()
		lead.Owe()
		h.is(claim(cache.Retries), cache.Follow, cache.ByDebt)
		h.settle(lead, frame("x"))
		if got := read(h.is(claim(cache.Retries), cache.Replay, cache.ByDebt)); got != "x" {
			h.Errorf("got %q", got)
		}
		h.is(claim(cache.Retries), cache.Lead, "")
	})
}

func TestDebtsEndInFlight(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Retries), cache.Lead, "")
		lead.Owe()
		time.Sleep(time.Minute)
		lead.Owe()
		time.Sleep(61 * time.Second)
		h.is(claim(cache.Retries), cache.Follow, cache.ByDebt)
		h.is(claim(cache.Retries), cache.Twin, "")
		lead.Owe()
		time.Sleep(119 * time.Second)
		h.settle(lead, frame("x"))
		time.Sleep(2 * time.Second) // two minutes since it left, not since it settled
		h.is(claim(cache.Retries), cache.Lead, "")
	})
}

func TestOweAfterSettle(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		follower := h.is(claim(cache.Duplicates), cache.Follow, cache.ByTwin)
		h.settle(lead, frame("x"))
		lead.Owe()
		follower.Owe()
		replay := h.is(claim(cache.Duplicates), cache.Replay, cache.ByDebt)
		h.is(claim(cache.Duplicates), cache.Replay, cache.ByDebt)
		replay.Owe() // a replay that did not arrive is owed too
		h.is(claim(cache.Duplicates), cache.Replay, cache.ByDebt)
		next := h.is(claim(cache.Duplicates), cache.Lead, "")
		follower.Owe() // of the answer before: it is gone
		h.settle(next, frame("y"))
		h.is(claim(cache.Duplicates), cache.Lead, "")
	})
}

// gated is a store whose settlements wait for its gate.
type gated struct {
	cache.Store
	gate chan struct{}
}

func (g gated) Settle(ctx context.Context, h cache.Hold, s cache.Settlement) error {
	<-g.gate
	return g.Store.Settle(ctx, h, s)
}

// TestStepsWhileSettling: debts that come and go while a settlement is on its
// way count once.
func TestStepsWhileSettling(t *testing.T) {
	inHouse(t, func(h *house) {
		gate := make(chan struct{})
		h.Store = gated{h.Store, gate}
		lead := h.is(claim(cache.Retries), cache.Lead, "")
		lead.Owe() // one
		lead.Reader.Leave()
		settled := make(chan error, 1)
		go func() { settled <- lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x")) }()
		synctest.Wait()
		takers := make(chan cache.Share, 3)
		for range 3 {
			go func() {
				e := h.open(claim(cache.Retries))
				takers <- e.Share
				if e.Role == cache.Lead {
					e.Reader.Leave()
					e.Settle(cache.Result{State: cache.Released}, 0, false)
				}
			}()
		}
		synctest.Wait()
		if len(takers) > 0 {
			h.Errorf("a debt was taken that is on its way to the store")
		}
		go lead.Owe() // two, after the settlement
		synctest.Wait()
		close(gate)
		if err := <-settled; err != nil {
			h.Fatal(err)
		}
		synctest.Wait()
		got := []string{string(<-takers), string(<-takers), string(<-takers)}
		slices.Sort(got)
		if n := strings.Count(strings.Join(got, " "), string(cache.ByDebt)); n != 2 && n != 1 {
			h.Errorf("takers got %q of two debts", got)
		}
	})
}

func TestAbandonedLogIsWaitedFor(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		lead.Reader.Leave()
		if !lead.Log().Abandon() {
			h.Fatal("not abandoned")
		}
		var wg sync.WaitGroup
		var leaders atomic.Int64
		for range 100 {
			wg.Go(func() {
				e := h.open(claim(cache.Duplicates))
				if e.Role == cache.Lead {
					leaders.Add(1)
					wg.Go(func() {
						time.Sleep(time.Second)
						h.settle(e, frame("new"))
					})
				}
				if got := read(e); got != "new" {
					h.Errorf("got %q", got)
				}
			})
		}
		ctx, cancel := context.WithTimeoutCause(h.Context(), time.Second, errors.New("waited enough"))
		defer cancel()
		if _, err := h.Open(ctx, claim(cache.Duplicates), time.Time{}); err == nil || err.Error() != "waited enough" {
			h.Errorf("with a deadline: %v", err)
		}
		if err := lead.Settle(cache.Result{State: cache.Released}, 0, false); err != nil {
			h.Fatal(err)
		}
		wg.Wait()
		if n := leaders.Load(); n != 1 {
			h.Errorf("%d lead", n)
		}
	})
}

func TestTooLargeToBeKept(t *testing.T) {
	half := frame(strings.Repeat("x", window*2/3))
	for name, fill := range map[string]func(h *house, lead *cache.Entry) []cache.Frame{
		"in the log": func(h *house, lead *cache.Entry) []cache.Frame {
			lead.Log().Append(h.Context(), half)
			go read(lead)
			lead.Log().Append(h.Context(), half)
			h.is(marked(), cache.Twin, "") // too late to join
			return nil
		},
		"with its last frames": func(h *house, lead *cache.Entry) []cache.Frame {
			lead.Log().Append(h.Context(), half)
			return []cache.Frame{half}
		},
		"in one": func(*house, *cache.Entry) []cache.Frame { return []cache.Frame{half, half} },
	} {
		for _, state := range []cache.State{cache.Completed, cache.Failed} {
			t.Run(fmt.Sprint(name, state), func(t *testing.T) {
				inHouse(t, func(h *house) {
					lead := h.is(claim(cache.Duplicates), cache.Lead, "")
					last := fill(h, lead)
					if err := lead.Settle(cache.Result{State: state}, keep, false, last...); err != nil {
						h.Fatal(err)
					}
					h.is(marked(), cache.Lead, "")
				})
			})
		}
	}
}

func TestFailureIsToldOnceAndKeptAsMemo(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Retries), cache.Lead, "")
		follower := h.is(marked(), cache.Follow, cache.RetryMarked)
		if err := lead.Settle(cache.Result{State: cache.Failed}, 2*time.Second, false, frame("502")); err != nil {
			h.Fatal(err)
		}
		if a, b := read(lead), read(follower); a != "502" || b != "502" {
			h.Errorf("got %q, %q", a, b)
		}
		if got := read(h.is(claim(cache.Retries), cache.Replay, cache.ByTwin)); got != "502" {
			h.Errorf("the memo says %q", got)
		}
		time.Sleep(2 * time.Second)
		h.is(claim(cache.Retries), cache.Lead, "")
	})
}

// What only the leader's own client gets is in no replay.
func TestOwnHeadersAreNotKept(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(keyed(1), cache.Lead, "")
		head := &cache.Head{Status: 200, Own: map[string][]string{"X-Ratelimit": {"1"}}}
		lead.Log().Append(h.Context(), cache.Frame{Kind: cache.HeadFrame, Head: head})
		h.settle(lead, frame("x"))
		if frames, _, _ := lead.Reader.Take(nil); frames[0].Head.Own == nil {
			h.Error("the leader's client lost its own headers")
		}
		frames, _, _ := h.is(keyed(1), cache.Replay, cache.ByKey).Reader.Take(nil)
		if frames[0].Head.Own != nil || frames[0].Head.Status != 200 {
			h.Errorf("a replay has %+v", frames[0].Head)
		}
	})
}

func TestLeaseIsRenewedWhileTheCallRuns(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		for range 20 {
			time.Sleep(lease)
			if g, err := h.faulty.Store.Claim(h.Context(), claim(cache.Duplicates)); err != nil || g.Role != cache.Follow {
				h.Fatalf("another node got %+v, %v", g, err)
			}
		}
		h.settle(lead, frame("x"))
		time.Sleep(time.Hour) // and not afterwards
		if told := h.toldOf(); len(told) > 0 {
			h.Errorf("told of %q", told)
		}
	})
}

// A renewal that fails is tried again; one that is fenced is the last.
func TestRenewalFails(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		h.failing("renew")
		time.Sleep(lease/3 + time.Second)
		if told := h.toldOf(); !slices.Equal(told, []string{"renew"}) {
			h.Errorf("told of %q", told)
		}
		h.failing("")
		time.Sleep(2 * lease)
		if g, _ := h.faulty.Store.Claim(h.Context(), claim(cache.Duplicates)); g.Role != cache.Follow {
			h.Fatalf("another node got %+v", g)
		}
		h.failing("renew")
		time.Sleep(lease + lease/3)
		g, _ := h.faulty.Store.Claim(h.Context(), claim(cache.Duplicates)) // another node takes over
		if g.Role != cache.Lead || !g.Lapsed {
			h.Fatalf("another node got %+v", g)
		}
		h.failing("")
		time.Sleep(time.Minute)
		n := len(h.toldOf())
		time.Sleep(time.Hour)
		if more := len(h.toldOf()); more != n {
			h.Errorf("a fenced leader renews on: told of %d and %d", n, more)
		}
		err := lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
		if !errors.Is(err, cache.ErrFenced) {
			h.Errorf("settle: %v", err)
		}
		if got := read(lead); got != "x" {
			h.Errorf("its readers get their answer all the same: %q", got)
		}
	})
}

func TestClaimFails(t *testing.T) {
	inHouse(t, func(h *house) {
		h.failing("claim")
		h.Store = slowlyFailing{h.Store}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if e, err := h.Open(h.Context(), claim(cache.Duplicates), time.Time{}); !errors.Is(err, cache.ErrAway) {
					h.Errorf("%v, %v", e, err)
				}
			})
		}
		wg.Wait()
		if n := h.claims.Load(); n > 1 {
			h.Errorf("a store that is away was asked %d times at once", n)
		}
		h.failing("")
		h.is(claim(cache.Duplicates), cache.Lead, "")
	})
}

// slowlyFailing is a store that takes its time to be away.
type slowlyFailing struct{ cache.Store }

func (s slowlyFailing) Claim(ctx context.Context, c cache.Claim) (cache.Grant, error) {
	time.Sleep(500 * time.Millisecond)
	return s.Store.Claim(ctx, c)
}

func TestSettleFails(t *testing.T) {
	inHouse(t, func(h *house) {
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		follower := h.is(marked(), cache.Follow, cache.RetryMarked)
		h.failing("settle")
		if err := lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x")); !errors.Is(err, cache.ErrAway) {
			h.Errorf("settle: %v", err)
		}
		if a, b := read(lead), read(follower); a != "x" || b != "x" {
			h.Errorf("the readers got %q, %q", a, b)
		}
		if told := h.toldOf(); !slices.Equal(told, []string{"settle"}) {
			h.Errorf("told of %q", told)
		}
		h.failing("")
		// The store still takes the call for running, until it hears of its end.
		if got := read(h.is(marked(), cache.Follow, cache.RetryMarked)); got != "x" {
			h.Errorf("a repeat got %q", got)
		}
		if got := read(h.is(marked(), cache.Replay, cache.RetryMarked)); got != "x" {
			h.Errorf("the store's answer is %q", got)
		}
	})
}

// An end that the store never hears of: what it books by itself is not booked
// beside that.
func TestAnEndThatIsNeverHeard(t *testing.T) {
	for made, want := range map[int64]int64{1: 0, 3: 2} {
		inHouse(t, func(h *house) {
			c := claim(cache.Duplicates)
			c.Lapses = []cache.Line{{At: time.Now(), Figures: cache.Figures{Ambiguous: 1}}}
			lead := h.is(c, cache.Lead, "")
			lead.Lines = []cache.Line{{At: time.Now(), Figures: cache.Figures{Billed: 1}}, {At: time.Now(), Figures: cache.Figures{Unbilled: made - 1}}}
			h.failing("settle")
			lead.Settle(cache.Result{State: cache.Completed}, keep, false, frame("x"))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			var all cache.Figures
			if err := h.Store.Scan(h.Context(), cache.Minute, time.Now().Add(-time.Hour), time.Now().Add(time.Hour),
				func(_ time.Time, _ cache.Series, sum *cache.Figures) { all.Add(sum) }); err != nil {
				h.Fatal(err)
			}
			if all != (cache.Figures{Ambiguous: want}) {
				h.Errorf("of %d attempts, one of which lapses, %+v was booked", made, all)
			}
		})
	}
}

func TestOpenEndsWithItsContext(t *testing.T) {
	inHouse(t, func(h *house) {
		gate := make(chan struct{})
		h.Store = gatedClaim{h.Store, gate}
		first := make(chan *cache.Entry, 1)
		ctx, cancel := context.WithCancelCause(h.Context())
		go func() {
			e, err := h.Open(ctx, claim(cache.Duplicates), time.Time{})
			if err != nil {
				h.Error(err)
			}
			first <- e
		}()
		synctest.Wait()
		waiting := make(chan error, 1)
		go func() {
			_, err := h.Open(ctx, claim(cache.Duplicates), time.Time{})
			waiting <- err
		}()
		synctest.Wait()
		gone := errors.New("the client left")
		cancel(gone)
		if err := <-waiting; !errors.Is(err, gone) {
			h.Errorf("the one that waits: %v", err)
		}
		close(gate) // the one that asks hears the store's answer all the same
		if e := <-first; e.Role != cache.Lead {
			h.Errorf("role %d", e.Role)
		}
	})
}

type gatedClaim struct {
	cache.Store
	gate chan struct{}
}

func (g gatedClaim) Claim(ctx context.Context, c cache.Claim) (cache.Grant, error) {
	<-g.gate
	if ctx.Err() != nil {
		return cache.Grant{}, context.Cause(ctx)
	}
	return g.Store.Claim(ctx, c)
}

func TestPrivate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cache.Private(window, time.Time{})
		e.Log().Append(t.Context(), frame("a"))
		e.Owe()
		if err := e.Settle(cache.Result{State: cache.Completed}, keep, true, frame("b")); err != nil {
			t.Fatal(err)
		}
		if got := read(e); got != "ab" {
			t.Errorf("got %q", got)
		}
	})
}
