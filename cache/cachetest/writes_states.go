package cachetest

import (
	"errors"
	"slices"
	"time"

	"oncegate/cache"
)

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
