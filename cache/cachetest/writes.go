package cachetest

import (
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"oncegate/cache"
)

const (
	// memory is how long the key of a write that completed is remembered.
	memory = time.Hour
	// long is longer than anything is kept that has an end.
	long = 3 * time.Hour
)

// payments is what the writes of the suite are, unless a case says otherwise.
var payments = cache.About{
	Tool: "payments", Method: "POST", Path: "/v1/payments%2Fx", Principal: "research", User: "u/1", Probe: "/v1/payments?ref=1",
}

// write is a claim of a write with these params.
func write(k cache.Key, params byte) cache.Claim {
	c := explicit(k, params)
	c.Write = &cache.Write{About: payments}
	return c
}

// knowingly is one that says that it runs an unknown outcome again.
func knowingly(k cache.Key) cache.Claim {
	c := write(k, 1)
	c.Write.Knowingly = true
	return c
}

// again is one whose upstream deduplicates for so long.
func again(k cache.Key, d time.Duration) cache.Claim {
	c := write(k, 1)
	c.Write.Again = d
	return c
}

// done is a settlement of a write that completed.
func done(s string) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Keep: keep, Memory: memory, Disk: true,
		Result: cache.Result{State: cache.Completed, Frames: body(s), Status: 201, Size: int64(len(s)), Sum: sha256.Sum256([]byte(s))},
	}
}

// undone is one of a write that was not executed.
func undone() cache.Settlement {
	return cache.Settlement{Nonce: cache.NewNonce(), Disk: true, Result: cache.Result{State: cache.Released}}
}

// unclear is one of a write of which nobody knows whether it was.
func unclear(status int) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Disk: true,
		Result: cache.Result{State: cache.Unknown, Frames: body("nobody knows"), Status: status},
	}
}

// begins claims and must lead a new operation.
func (f *fixture) begins(c cache.Claim) cache.Hold {
	f.Helper()
	g := f.claim(c)
	if g.Role != cache.Lead || g.Fence == 0 || g.Lapsed {
		f.Fatalf("got %+v, want to lead", g)
	}
	if g.Origin != g.Fence {
		f.Fatalf("a new operation has the origin %d and the fence %d", g.Origin, g.Fence)
	}
	return cache.Hold{Key: c.Key, Fence: g.Fence}
}

// reruns claims and must lead an operation again that began with origin.
// lapsed: it may be the first to find that a lease ran out; the engine may have.
func (f *fixture) reruns(c cache.Claim, origin cache.Hold, lapsed bool) cache.Hold {
	f.Helper()
	g := f.claim(c)
	if g.Role != cache.Lead || g.Fence <= origin.Fence || g.Lapsed && !lapsed {
		f.Fatalf("got %+v, want to lead again, lapsed %v", g, lapsed)
	}
	if g.Origin != origin.Fence {
		f.Fatalf("run again, it has the origin %d, want %d", g.Origin, origin.Fence)
	}
	return cache.Hold{Key: c.Key, Fence: g.Fence}
}

func (f *fixture) dispatch(h cache.Hold) error {
	return f.Store.Dispatch(f.Context(), h, cache.NewNonce())
}

func (f *fixture) dispatches(h cache.Hold) cache.Hold {
	f.Helper()
	if err := f.dispatch(h); err != nil {
		f.Fatalf("dispatch: %v", err)
	}
	return h
}

// sends begins a write and dispatches it.
func (f *fixture) sends(c cache.Claim) cache.Hold {
	f.Helper()
	return f.dispatches(f.begins(c))
}

func (f *fixture) withdraw(h cache.Hold) error {
	return f.Store.Withdraw(f.Context(), h, cache.NewNonce())
}

func (f *fixture) withdraws(h cache.Hold) {
	f.Helper()
	if err := f.withdraw(h); err != nil {
		f.Fatalf("withdraw: %v", err)
	}
}

// unsure claims and must be told that nobody knows. found: it may be the first
// to find that a lease ran out.
func (f *fixture) unsure(c cache.Claim, h cache.Hold, found bool) *cache.Result {
	f.Helper()
	g := f.is(c, cache.InDoubt, "")
	if g.Fence != h.Fence || g.Lapsed && !found || g.Result.State != cache.Unknown {
		f.Fatalf("got %+v of %+v, want fence %d, found out by it %v", g, g.Result, h.Fence, found)
	}
	return g.Result
}

// gone claims and must be told that the answer is not kept, and what is known.
func (f *fixture) gone(c cache.Claim, answer string) {
	f.Helper()
	g := f.is(c, cache.Gone, cache.ByKey)
	want := done(answer).Result
	if r := g.Result; r.State != cache.Completed || r.Status != want.Status || r.Size != want.Size || r.Sum != want.Sum || r.Frames != nil {
		f.Fatalf("it is gone with %+v, want %+v without frames", r, want)
	}
}

// record reads a record, which must be in this state.
func (f *fixture) record(k cache.Key, want cache.State) cache.Record {
	f.Helper()
	r, err := f.Store.Record(f.Context(), k)
	if err != nil {
		f.Fatalf("record: %v", err)
	}
	if r.State != want || r.Key != k {
		f.Fatalf("it is %+v, want state %d", r, want)
	}
	return r
}

func (f *fixture) none(k cache.Key) {
	f.Helper()
	if r, err := f.Store.Record(f.Context(), k); !errors.Is(err, cache.ErrNone) {
		f.Fatalf("there is %+v, %v, want none", r, err)
	}
}

// trail checks what a record's trail says, in words.
func (f *fixture) trail(r cache.Record, want ...string) {
	f.Helper()
	var got []string
	for n, s := range r.Trail {
		got = append(got, s.What)
		if s.At.IsZero() || s.At.After(f.now()) || n > 0 && s.At.Before(r.Trail[n-1].At) {
			f.Errorf("step %d of the trail was at %v", n, s.At)
		}
		if s.Fence == 0 || s.Fence > r.Fence || n > 0 && s.Fence < r.Trail[n-1].Fence {
			f.Errorf("step %d of the trail is of fence %d, the record of %d", n, s.Fence, r.Fence)
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("the trail is %q, want %q", got, want)
	}
}

// near says that a moment is at most so long ago, give or take a second.
func (f *fixture) near(what string, at time.Time, ago time.Duration) {
	f.Helper()
	if off := f.now().Sub(at) - ago; off < -time.Second || off > time.Second {
		f.Errorf("%s was at %v, %v ago, want %v ago", what, at, f.now().Sub(at), ago)
	}
}

// refused checks that a hold may take no step any more.
func (f *fixture) refused(h cache.Hold) {
	f.Helper()
	f.fenced("dispatch", f.dispatch(h))
	f.fenced("withdraw", f.withdraw(h))
	f.fenced("renew", f.renew(h))
	f.fenced("append", f.Store.Append(f.Context(), h, 0, body("stale")))
	for _, s := range []cache.Settlement{done("stale"), undone(), unclear(500)} {
		f.fenced("settle", f.Store.Settle(f.Context(), h, s))
	}
	_, _, err := f.Store.Read(f.Context(), h, 0)
	f.fenced("read", err)
}

func writeClaims(f *fixture) {
	f.none(key(1))
	h := f.begins(write(key(1), 1))
	r := f.record(key(1), cache.Claimed)
	if r.Fence != h.Fence || r.Origin != h.Fence || r.About != payments || !r.Dispatched.IsZero() || !r.Settled.IsZero() {
		f.Errorf("the record is %+v", r)
	}
	f.near("the claim", r.Claimed, 0)
	f.trail(r, cache.StepClaimed)
	if g := f.is(write(key(1), 1), cache.Follow, cache.ByKey); g.Fence != h.Fence || g.Origin != h.Fence {
		f.Errorf("follows %+v", g)
	}
	f.is(knowingly(key(1)), cache.Follow, cache.ByKey)
	f.is(write(key(1), 2), cache.Mismatch, "")
	if other := f.begins(write(key(2), 1)); other.Fence == h.Fence {
		f.Errorf("two keys have the fence %d", h.Fence)
	}
}

func writeDoor(f *fixture) {
	h := f.begins(write(key(1), 1))
	f.fenced("withdraw", f.withdraw(h)) // nothing is dispatched
	f.fenced("settle", f.Store.Settle(f.Context(), h, done("one")))
	f.fenced("settle", f.Store.Settle(f.Context(), h, unclear(0)))
	f.fenced("dispatch", f.dispatch(cache.Hold{Key: h.Key, Fence: h.Fence + 1}))
	f.fenced("dispatch", f.dispatch(cache.Hold{Key: h.Key, Fence: h.Fence - 1}))
	f.fenced("dispatch", f.dispatch(cache.Hold{Key: key(9), Fence: h.Fence}))
	f.record(key(1), cache.Claimed) // as none of them was its holder
	f.pass(time.Second)
	f.dispatches(h)
	f.fenced("dispatch", f.dispatch(h)) // the door is one way
	r := f.record(key(1), cache.Dispatched)
	f.near("the claim", r.Claimed, time.Second)
	f.near("the dispatch", r.Dispatched, 0)
	f.trail(r, cache.StepClaimed, cache.StepDispatched)
	f.is(write(key(1), 1), cache.Follow, cache.ByKey)
	f.is(knowingly(key(1)), cache.Follow, cache.ByKey)
	f.is(again(key(1), time.Hour), cache.Follow, cache.ByKey)
	f.is(write(key(1), 2), cache.Mismatch, "")
	f.settle(h, done("one"))
	f.fenced("dispatch", f.dispatch(h))
	f.trail(f.record(key(1), cache.Completed), cache.StepClaimed, cache.StepDispatched, cache.StepCompleted)
}

func writeClaimLapses(f *fixture) {
	h := f.begins(write(key(1), 1))
	f.pass(lease - time.Second)
	if err := f.renew(h); err != nil {
		f.Fatal(err)
	}
	f.pass(lease - time.Second)
	f.is(write(key(1), 1), cache.Follow, cache.ByKey)
	f.pass(time.Second)
	f.fenced("dispatch", f.dispatch(h)) // though nobody took over
	next := f.begins(write(key(1), 2))  // what it was claimed with was never used
	f.refused(h)
	f.dispatches(next)
	f.refused(h)
	f.settle(next, done("one"))
	f.refused(h)
	c := write(key(1), 2)
	f.replays(c, cache.ByKey, "one")

	// One that lapsed may still be given up by its holder.
	h = f.begins(write(key(2), 1))
	f.pass(4 * lease)
	f.settle(h, undone())
	f.begins(write(key(2), 1))
}

func writeDispatchLapses(f *fixture) {
	for n, meet := range []struct {
		by  string
		run func(h cache.Hold)
	}{
		{"claim", func(h cache.Hold) { f.unsure(write(h.Key, 1), h, true) }},
		{"mismatch", func(h cache.Hold) { f.is(write(h.Key, 2), cache.Mismatch, "") }},
		{"record", func(h cache.Hold) { f.record(h.Key, cache.Unknown) }},
		{"records", func(h cache.Hold) {
			page, _, err := f.Store.Records(f.Context(), cache.Filter{State: cache.Unknown}, "", 200)
			if err != nil || !slices.ContainsFunc(page, func(r cache.Record) bool { return r.Key == h.Key }) {
				f.Fatalf("it is not among %+v, %v", page, err)
			}
		}},
		{"doubts", func(h cache.Hold) {
			if d, err := f.Store.Doubts(f.Context()); err != nil || d["payments"] == 0 {
				f.Fatalf("doubts: %v, %v", d, err)
			}
		}},
		{"read", func(h cache.Hold) {
			if _, _, err := f.Store.Read(f.Context(), h, 0); !errors.Is(err, cache.ErrLapsed) {
				f.Fatalf("read: %v, want ErrLapsed", err)
			}
		}},
	} {
		k := key(byte(n))
		h := f.sends(write(k, 1))
		f.pass(lease - time.Second)
		f.is(write(k, 1), cache.Follow, cache.ByKey)
		if err := f.renew(h); err != nil {
			f.Fatal(err)
		}
		f.pass(lease - time.Second)
		f.is(write(k, 1), cache.Follow, cache.ByKey)
		f.pass(time.Second)
		meet.run(h)
		for range 2 { // and it is one that was found out
			if meet.by == "read" || meet.by == "mismatch" {
				break
			}
			f.unsure(write(k, 1), h, false)
		}
		f.fenced("dispatch", f.dispatch(h))
		f.fenced("withdraw", f.withdraw(h))
		if meet.by != "read" {
			f.fenced("renew", f.renew(h))
			f.fenced("append", f.Store.Append(f.Context(), h, 0, body("stale")))
			f.fenced("settle", f.Store.Settle(f.Context(), h, unclear(500)))
		}
		r := f.record(k, cache.Unknown)
		f.trail(r, cache.StepClaimed, cache.StepDispatched, cache.StepLapsed)
		f.near("the unknown's dispatch", r.Dispatched, 2*lease-time.Second)
		f.is(write(k, 2), cache.Mismatch, "")
		f.pass(long) // nothing runs it again by itself
		f.unsure(write(k, 1), h, false)
		f.settle(h, done("late"))
		f.replays(write(k, 1), cache.ByKey, "late")
		f.trail(f.record(k, cache.Completed), cache.StepClaimed, cache.StepDispatched, cache.StepLapsed, cache.StepCompleted)
	}
	// One that is late, and that nobody met.
	h := f.sends(write(key(20), 1))
	f.pass(4 * lease)
	f.settle(h, done("late"))
	f.replays(write(key(20), 1), cache.ByKey, "late")
	h = f.sends(write(key(21), 1))
	f.pass(4 * lease)
	f.settle(h, undone()) // with proof that nothing was sent
	f.begins(write(key(21), 1))
}

func writeWithdraws(f *fixture) {
	h := f.sends(write(key(1), 1))
	f.pass(5 * time.Second)
	f.withdraws(h)
	f.fenced("withdraw", f.withdraw(h))
	r := f.record(key(1), cache.Claimed)
	if !r.Dispatched.IsZero() {
		f.Errorf("withdrawn, it was dispatched at %v", r.Dispatched)
	}
	f.is(write(key(1), 1), cache.Follow, cache.ByKey)
	f.fenced("settle", f.Store.Settle(f.Context(), h, done("one")))
	f.pass(5 * time.Second)
	f.dispatches(h)
	r = f.record(key(1), cache.Dispatched)
	f.near("the second dispatch", r.Dispatched, 0)
	f.near("the claim", r.Claimed, 10*time.Second)
	f.trail(r, cache.StepClaimed, cache.StepDispatched, cache.StepWithdrawn, cache.StepDispatched)
	f.withdraws(h)
	f.pass(5 * time.Second) // the lease goes on from the claim
	f.fenced("dispatch", f.dispatch(h))
	next := f.begins(write(key(1), 2)) // it is proved that nothing was sent
	f.refused(h)

	// However many steps, the trail has its first one and the latest.
	for range 50 {
		f.dispatches(next)
		f.withdraws(next)
	}
	f.dispatches(next)
	f.settle(next, done("one"))
	r = f.record(key(1), cache.Completed)
	if len(r.Trail) > 64 || len(r.Trail) < 16 || r.Trail[0].What != cache.StepClaimed || r.Trail[len(r.Trail)-1].What != cache.StepCompleted {
		f.Errorf("the trail of %d steps is %+v", len(r.Trail), r.Trail)
	}
}

func writeSettles(f *fixture) {
	// Completed, from Dispatched.
	h := f.sends(write(key(1), 1))
	f.settle(h, done("one"))
	g := f.replays(write(key(1), 1), cache.ByKey, "one")
	want := done("one").Result
	if r := g.Result; r.State != cache.Completed || r.Status != want.Status || r.Size != want.Size || r.Sum != want.Sum || g.Fence != h.Fence || g.Origin != h.Fence {
		f.Errorf("it replays %+v of %+v", g.Result, g)
	}
	f.near("the settlement", g.Result.Settled, 0)
	f.is(write(key(1), 2), cache.Mismatch, "")
	f.replays(knowingly(key(1)), cache.ByKey, "one") // nothing is unknown
	f.replays(again(key(1), time.Hour), cache.ByKey, "one")
	for _, s := range []cache.Settlement{done("two"), undone(), unclear(500)} { // a result never changes
		f.fenced("settle", f.Store.Settle(f.Context(), h, s))
	}
	f.fenced("renew", f.renew(h))
	f.fenced("withdraw", f.withdraw(h))
	f.fenced("append", f.Store.Append(f.Context(), h, 2, body("two")))
	f.replays(write(key(1), 1), cache.ByKey, "one")
	frames, res, err := f.Store.Read(f.Context(), h, 0)
	if err != nil || res == nil || res.State != cache.Completed || text(frames) != "one" || res.Status != 201 {
		f.Errorf("read %q, %+v, %v", text(frames), res, err)
	}
	r := f.record(key(1), cache.Completed)
	if r.Status != want.Status || r.Size != want.Size || r.Sum != want.Sum || text(r.Frames) != "one" {
		f.Errorf("the record is %+v", r)
	}
	f.near("the settlement", r.Settled, 0)
	f.near("the answer's end", r.Expires, -keep)
	f.near("the key's end", r.Forgotten, -memory)
	if last := r.Trail[len(r.Trail)-1]; last.Status != 201 {
		f.Errorf("the trail ends with %+v", last)
	}

	// Released, from wherever it was.
	for n, to := range []func(cache.Hold){
		func(cache.Hold) {},
		func(h cache.Hold) { f.dispatches(h) },
		func(h cache.Hold) { f.dispatches(h); f.withdraws(h) },
		func(h cache.Hold) { f.dispatches(h); f.settle(h, unclear(0)) },
		func(h cache.Hold) { f.dispatches(h); f.pass(lease); f.unsure(write(h.Key, 1), h, true) },
	} {
		k := key(byte(10 + n))
		h := f.begins(write(k, 1))
		to(h)
		f.settle(h, undone())
		f.none(k)
		f.fenced("renew", f.renew(h))
		f.fenced("dispatch", f.dispatch(h))
		f.fenced("settle", f.Store.Settle(f.Context(), h, done("stale")))
		next := f.sends(write(k, 2)) // it was never used
		f.refused(h)
		f.trail(f.record(k, cache.Dispatched), cache.StepClaimed, cache.StepDispatched)
		f.settle(next, done("two"))
		f.refused(h)
	}

	// Unknown, from Dispatched only.
	h = f.sends(write(key(20), 1))
	f.settle(h, unclear(503))
	f.fenced("settle", f.Store.Settle(f.Context(), h, unclear(500)))
	if res := f.unsure(write(key(20), 1), h, false); res.Status != 503 {
		f.Errorf("what is known is %+v", res)
	}
	r = f.record(key(20), cache.Unknown)
	if f.near("the doubt", r.Settled, 0); r.Status != 503 || !r.Expires.IsZero() || !r.Forgotten.IsZero() {
		f.Errorf("the record is %+v", r)
	}
	f.trail(r, cache.StepClaimed, cache.StepDispatched, cache.StepUnknown)
	if r.Trail[2].Status != 503 {
		f.Errorf("the trail ends with %+v", r.Trail[2])
	}
	if frames, res, err := f.Store.Read(f.Context(), h, 0); err != nil || res == nil || res.State != cache.Unknown || text(frames) != "nobody knows" {
		f.Errorf("who follows reads %q, %+v, %v", text(frames), res, err)
	}
	f.settle(h, done("late"))
	f.replays(write(key(20), 1), cache.ByKey, "late")
	f.fenced("settle", f.Store.Settle(f.Context(), h, undone()))

	// A write does not fail: that is a completion's end.
	h = f.sends(write(key(21), 1))
	failed := done("no")
	failed.Result.State = cache.Failed
	if err := f.Store.Settle(f.Context(), h, failed); err == nil {
		f.Error("a write could be settled as failed")
	}
	f.record(key(21), cache.Dispatched)
}

func writeFollowed(f *fixture) {
	h := f.sends(write(key(1), 1))
	if err := f.Store.Append(f.Context(), h, 0, body("a")); err != nil {
		f.Fatal(err)
	}
	if frames, res, err := f.Store.Read(f.Context(), h, 0); err != nil || res != nil || text(frames) != "a" {
		f.Fatalf("read %q, %v, %v", text(frames), res, err)
	}
	if wanted, err := f.Store.Renew(f.Context(), h, lease); err != nil || !wanted {
		f.Fatalf("renew: %v, %v though somebody reads", wanted, err)
	}
	ends := func(h cache.Hold, how func()) (frames []cache.Frame, res *cache.Result, err error) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			frames, res, err = f.Store.Read(f.Context(), h, 2)
		}()
		f.pass(time.Second)
		how()
		<-over
		return frames, res, err
	}
	if _, res, err := ends(h, func() { f.settle(h, done("ab")) }); err != nil || res == nil || text(res.Frames) != "ab" {
		f.Errorf("at the end a follower got %+v, %v", res, err)
	}
	h = f.begins(write(key(2), 1)) // not dispatched yet
	if _, res, err := ends(h, func() { f.dispatches(h); f.settle(h, unclear(0)) }); err != nil || res == nil || res.State != cache.Unknown {
		f.Errorf("of an unknown outcome a follower got %+v, %v", res, err)
	}
	h = f.sends(write(key(3), 1))
	if _, res, err := ends(h, func() { f.settle(h, undone()) }); !(err == nil && res != nil && res.State == cache.Released) && !errors.Is(err, cache.ErrFenced) {
		f.Errorf("of a released one a follower got %+v, %v", res, err)
	}
	h = f.sends(write(key(4), 1))
	if _, _, err := ends(h, func() { f.pass(lease) }); !errors.Is(err, cache.ErrLapsed) {
		f.Errorf("of a lapsed one a follower got %v", err)
	}
	f.record(key(4), cache.Unknown)
	f.owe(h, debt) // nothing of a write is owed
	f.unsure(write(key(4), 1), h, false)
}

func writeNonces(f *fixture) {
	ctx := f.Context()
	c := write(key(1), 1)
	h := f.begins(c)
	if again := f.begins(c); again != h {
		f.Fatalf("sent again it is %+v, was %+v", again, h)
	}
	thrice := func(step string, do func() error) {
		f.Helper()
		for range 3 {
			if err := do(); err != nil {
				f.Fatalf("%s: %v", step, err)
			}
		}
	}
	n := cache.NewNonce()
	thrice("dispatch", func() error { return f.Store.Dispatch(ctx, h, n) })
	n = cache.NewNonce()
	thrice("withdraw", func() error { return f.Store.Withdraw(ctx, h, n) })
	n = cache.NewNonce()
	thrice("dispatch", func() error { return f.Store.Dispatch(ctx, h, n) })
	s := unclear(500)
	thrice("settle", func() error { return f.Store.Settle(ctx, h, s) })
	f.trail(f.record(key(1), cache.Unknown), cache.StepClaimed, cache.StepDispatched, cache.StepWithdrawn, cache.StepDispatched, cache.StepUnknown)
	s = done("late")
	thrice("settle", func() error { return f.Store.Settle(ctx, h, s) })
	f.trail(f.record(key(1), cache.Completed),
		cache.StepClaimed, cache.StepDispatched, cache.StepWithdrawn, cache.StepDispatched, cache.StepUnknown, cache.StepCompleted)

	h = f.sends(write(key(2), 1))
	f.pass(lease)
	c = knowingly(key(2))
	one := f.reruns(c, h, true)
	if two := f.reruns(c, h, true); two != one {
		f.Fatalf("sent again it is %+v, was %+v", two, one)
	}
	f.dispatches(one)
	f.settle(one, unclear(0))
	r := cache.Resolution{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}, Actor: "ops", Reason: "not there"}
	thrice("resolve", func() error { return f.Store.Resolve(ctx, key(2), r) })
	next := f.begins(write(key(2), 1))
	thrice("resolve", func() error { return f.Store.Resolve(ctx, key(2), r) }) // that acknowledgement may have been lost
	f.dispatches(next)
	thrice("resolve", func() error { return f.Store.Resolve(ctx, key(2), r) })
	f.record(key(2), cache.Dispatched)
	if got := f.audits(); len(got) != 2 {
		f.Errorf("the audit is %+v, want a rerun and a resolution", got)
	}

	h = f.begins(write(key(3), 1))
	s = undone()
	thrice("release", func() error { return f.Store.Settle(ctx, h, s) })
	next = f.begins(write(key(3), 1))
	thrice("release", func() error { return f.Store.Settle(ctx, h, s) }) // and it does not end the next one
	f.dispatches(next)
}

// writeStaleDispatch: a dispatch that is sent again says that a byte may be
// sent. It must not once another may lead, whatever it said before.
func writeStaleDispatch(f *fixture) {
	n := cache.NewNonce()
	late := func(h cache.Hold) {
		f.Helper()
		f.fenced("dispatch sent again", f.Store.Dispatch(f.Context(), h, n))
	}
	h := f.begins(write(key(1), 1))
	if err := f.Store.Dispatch(f.Context(), h, n); err != nil {
		f.Fatal(err)
	}
	f.pass(lease)
	f.unsure(write(key(1), 1), h, true)
	late(h)
	next := f.reruns(knowingly(key(1)), h, false)
	late(h)
	f.dispatches(next)
	late(h)
	f.settle(next, unclear(0))
	late(h)
	f.resolves(key(1), cache.Result{State: cache.Released})
	late(h)
	f.sends(write(key(1), 1))
	late(h)

	// Nor does one that was withdrawn dispatch again.
	h = f.begins(write(key(2), 1))
	n = cache.NewNonce()
	if err := f.Store.Dispatch(f.Context(), h, n); err != nil {
		f.Fatal(err)
	}
	f.withdraws(h)
	late(h)
	f.record(key(2), cache.Claimed)
	f.dispatches(h)
	f.withdraws(h)
	late(h)
	f.dispatches(h)
	f.settle(h, done("one"))
}
