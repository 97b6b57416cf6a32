package cachetest

import (
	"time"

	"oncegate/cache"
)

// dead lets what a process that is gone left in flight show: at once where it
// is known to be dead, else when its leases have lapsed.
func (f *fixture) dead(c cache.Claim) {
	f.Helper()
	for range 2 {
		c.Nonce = cache.NewNonce()
		switch g := f.claim(c); g.Role {
		case cache.Follow:
			f.pass(lease)
			continue
		case cache.Lead:
			f.settle(cache.Hold{Key: c.Key, Fence: g.Fence}, undone())
		}
		return
	}
}

func writeRestart(f *fixture) {
	f.begins(write(key(1), 1))
	h2 := f.sends(write(key(2), 1))
	h3 := f.sends(write(key(3), 1))
	f.withdraws(h3)
	h4 := f.sends(write(key(4), 1))
	f.settle(h4, unclear(503))
	h5 := f.sends(write(key(5), 1))
	f.settle(h5, done("five"))
	h6 := f.sends(write(key(6), 1))
	f.settle(h6, undone())
	bare := done("seven")
	bare.Result.Frames = nil
	f.settle(f.sends(write(key(7), 1)), bare)
	first8 := f.sends(write(key(8), 1))
	f.settle(first8, unclear(0))
	f.reruns(knowingly(key(8)), first8, false) // claimed
	first9 := f.sends(write(key(9), 1))
	f.settle(first9, unclear(0))
	f.dispatches(f.reruns(knowingly(key(9)), first9, false))
	first10 := f.sends(write(key(10), 1))
	f.settle(first10, unclear(0))
	h10 := f.dispatches(f.reruns(knowingly(key(10)), first10, false))
	f.withdraws(h10)
	f.settle(f.sends(write(key(11), 1)), unclear(0))
	f.resolves(key(11), cache.Result{State: cache.Released})
	f.settle(f.sends(write(key(12), 1)), unclear(0))
	f.resolves(key(12), done("twelve").Result)
	h13 := f.sends(write(key(13), 1))
	f.pass(lease)
	f.unsure(write(key(13), 1), h13, true)

	f.pass(time.Minute)
	f.restart()
	f.dead(write(key(2), 1))
	for _, n := range []byte{1, 3, 6, 11} { // nothing was sent, or it was not executed
		c := write(key(n), 2)
		f.dead(c)
		f.begins(c)
	}
	for _, h := range []cache.Hold{h2, h4, h13} {
		if res := f.unsure(write(h.Key, 1), h, false); h == h4 && res.Status != 503 {
			f.Errorf("what is known of it is %+v", res)
		}
		f.is(write(h.Key, 2), cache.Mismatch, "")
	}
	r := f.record(key(2), cache.Unknown)
	if r.About != payments || r.Origin != h2.Fence {
		f.Errorf("the record is %+v", r)
	}
	f.trail(r, cache.StepClaimed, cache.StepDispatched, cache.StepLapsed)
	f.trail(f.record(key(4), cache.Unknown), cache.StepClaimed, cache.StepDispatched, cache.StepUnknown)
	f.replays(write(key(5), 1), cache.ByKey, "five")
	f.is(write(key(5), 2), cache.Mismatch, "")
	f.gone(write(key(7), 1), "seven")
	for _, first := range []cache.Hold{first8, first9, first10} {
		f.dead(write(first.Key, 1))
		f.is(write(first.Key, 1), cache.InDoubt, "")
		if r := f.record(first.Key, cache.Unknown); r.Origin != first.Fence {
			f.Errorf("the record is %+v", r)
		}
	}
	f.replays(write(key(12), 1), cache.ByKey, "twelve")

	// A late result is welcome still, and one of an older claim is not.
	f.settle(h2, done("late"))
	f.replays(write(key(2), 1), cache.ByKey, "late")
	f.fenced("settle", f.Store.Settle(f.Context(), h2, done("later")))
	f.settle(h4, undone())
	f.begins(write(key(4), 1))
	f.fenced("settle", f.Store.Settle(f.Context(), first9, done("stale")))
	h9 := f.dispatches(f.reruns(knowingly(key(9)), first9, false))
	if h9.Fence <= h10.Fence {
		f.Errorf("fence %d came after %d", h9.Fence, h10.Fence)
	}
	f.settle(h9, undone())
	f.unsure(write(key(9), 1), h9, false)

	f.restart()
	f.replays(write(key(2), 1), cache.ByKey, "late")
	f.unsure(write(key(9), 1), h9, false)
	r = f.record(key(9), cache.Unknown)
	if last := r.Trail[len(r.Trail)-1]; last.What != cache.StepReleased || r.Fence != h9.Fence {
		f.Errorf("the record is %+v", r)
	}
	f.settle(h9, undone()) // of the doubt's last claim, and the doubt stands
	f.unsure(write(key(9), 1), h9, false)
}

// writeClocks: the three clocks go on over a restart.
func writeClocks(f *fixture) {
	h := f.sends(write(key(1), 1))
	f.settle(h, done("one"))
	within := func() cache.Claim {
		c := write(key(1), 1)
		c.Write.Within = 2 * time.Minute
		return c
	}
	first := f.sends(write(key(2), 1))
	f.settle(first, unclear(0))
	f.pass(time.Minute)
	f.restart()
	f.pass(59 * time.Second)
	if g := f.replays(within(), cache.ByKey, "one"); f.now().Sub(g.Result.Settled).Round(time.Second) != 119*time.Second {
		f.Errorf("it settled %v ago", f.now().Sub(g.Result.Settled))
	}
	f.settle(f.reruns(again(key(2), 2*time.Minute), first, false), undone())
	f.pass(time.Second)
	f.is(again(key(2), 2*time.Minute), cache.InDoubt, "")
	f.settle(f.begins(within()), undone())
	f.begins(write(key(1), 2))

	f.settle(f.sends(write(key(3), 1)), done("three"))
	f.restart()
	f.pass(keep - time.Second)
	f.replays(write(key(3), 1), cache.ByKey, "three")
	f.restart()
	f.pass(time.Second)
	f.gone(write(key(3), 1), "three")
	f.restart()
	f.gone(write(key(3), 1), "three")
	f.pass(memory - keep - time.Second)
	f.gone(write(key(3), 1), "three")
	f.restart()
	f.pass(time.Second)
	f.none(key(3))
	f.begins(write(key(3), 2))
}
