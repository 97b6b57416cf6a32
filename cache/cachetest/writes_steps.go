package cachetest

import (
	"errors"
	"time"

	"oncegate/cache"
)

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
