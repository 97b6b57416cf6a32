package cachetest

import (
	"time"

	"oncegate/cache"
)

func writeReruns(f *fixture) {
	first := f.sends(write(key(1), 1))
	f.settle(first, unclear(500))
	c := write(key(1), 2)
	c.Write.Knowingly = true
	f.is(c, cache.Mismatch, "") // with other params it is no repeat
	f.pass(long)
	h := f.reruns(knowingly(key(1)), first, false)
	f.refused(first) // a late result of another fence is not welcome
	f.is(write(key(1), 1), cache.Follow, cache.ByKey)
	f.is(knowingly(key(1)), cache.Follow, cache.ByKey)
	r := f.record(key(1), cache.Claimed)
	if r.Fence != h.Fence || r.Origin != first.Fence {
		f.Errorf("the record is %+v", r)
	}
	f.near("the first dispatch", r.Dispatched, long)
	f.near("the latest claim", r.Claimed, 0)
	f.dispatches(h)
	f.near("the first dispatch", f.record(key(1), cache.Dispatched).Dispatched, long)
	f.settle(h, done("two"))
	f.refused(first)
	if g := f.replays(write(key(1), 1), cache.ByKey, "two"); g.Origin != first.Fence {
		f.Errorf("it replays %+v", g)
	}
	r = f.record(key(1), cache.Completed)
	f.trail(r, cache.StepClaimed, cache.StepDispatched, cache.StepUnknown, cache.StepRerun, cache.StepDispatched, cache.StepCompleted)
	if s := r.Trail[3]; s.Actor != payments.Principal || s.Fence != h.Fence {
		f.Errorf("it was run again by %+v", s)
	}
	a := f.audits()
	if len(a) != 1 || a[0].Key != key(1) || a[0].About != payments || a[0].What != cache.StepRerun || a[0].Actor != payments.Principal || a[0].Fence != h.Fence {
		f.Errorf("the audit is %+v", a)
	}

	// By the claim that finds the lapsed lease, too; and said beside an
	// upstream that deduplicates, it is the caller's word that counts.
	first = f.sends(write(key(2), 1))
	f.pass(lease)
	c = knowingly(key(2))
	c.Write.Again = time.Hour
	f.reruns(c, first, true)
	f.trail(f.record(key(2), cache.Claimed), cache.StepClaimed, cache.StepDispatched, cache.StepLapsed, cache.StepRerun)
}

// writeDoubtStands: once a first dispatch is in doubt, no end of another one
// makes the key free.
func writeDoubtStands(f *fixture) {
	for n, end := range []struct {
		by    string
		steps []string
		run   func(cache.Hold)
	}{
		{"released from claimed", []string{cache.StepReleased}, func(h cache.Hold) { f.settle(h, undone()) }},
		{"released from dispatched", []string{cache.StepDispatched, cache.StepReleased}, func(h cache.Hold) { f.dispatches(h); f.settle(h, undone()) }},
		{"released from unknown", []string{cache.StepDispatched, cache.StepUnknown, cache.StepReleased}, func(h cache.Hold) {
			f.dispatches(h)
			f.settle(h, unclear(0))
			f.settle(h, undone())
		}},
		{"released when lapsed", []string{cache.StepDispatched, cache.StepLapsed, cache.StepReleased}, func(h cache.Hold) {
			f.dispatches(h)
			f.pass(lease)
			f.unsure(write(h.Key, 1), h, true)
			f.settle(h, undone())
		}},
		{"lapsed when claimed", []string{cache.StepLapsed}, func(h cache.Hold) { f.pass(lease) }},
		{"withdrawn and lapsed", []string{cache.StepDispatched, cache.StepWithdrawn, cache.StepLapsed}, func(h cache.Hold) {
			f.dispatches(h)
			f.withdraws(h)
			f.pass(lease)
		}},
		{"unknown", []string{cache.StepDispatched, cache.StepUnknown}, func(h cache.Hold) { f.dispatches(h); f.settle(h, unclear(0)) }},
	} {
		k := key(byte(n))
		first := f.sends(write(k, 1))
		f.settle(first, unclear(500))
		h := f.reruns(knowingly(k), first, false)
		end.run(h)
		f.unsure(write(k, 1), h, false)
		f.is(write(k, 2), cache.Mismatch, "")
		f.fenced("dispatch", f.dispatch(h))
		r := f.record(k, cache.Unknown)
		want := append([]string{cache.StepClaimed, cache.StepDispatched, cache.StepUnknown, cache.StepRerun}, end.steps...)
		if r.Origin != first.Fence || r.Fence != h.Fence {
			f.Errorf("%s: the record is %+v", end.by, r)
		}
		f.trail(r, want...)
		f.refused(first)

		// And so on.
		third := f.reruns(knowingly(k), first, false)
		f.settle(third, undone())
		f.unsure(write(k, 1), third, false)
		last := f.dispatches(f.reruns(knowingly(k), first, false))
		f.settle(last, done("at last"))
		f.replays(write(k, 1), cache.ByKey, "at last")
	}
}

func writeAgain(f *fixture) {
	first := f.sends(write(key(1), 1))
	f.withdraws(first) // that one was not sent: the window begins with the next
	f.pass(10 * time.Second)
	f.dispatches(first)
	f.settle(first, unclear(500))
	f.pass(30 * time.Second)
	f.unsure(write(key(1), 1), first, false) // who does not say so does not run it
	f.unsure(again(key(1), 30*time.Second), first, false)
	h := f.dispatches(f.reruns(again(key(1), time.Minute), first, false))
	f.settle(h, unclear(500))
	f.pass(28 * time.Second)
	h = f.reruns(again(key(1), time.Minute), first, false) // it goes on from the first
	f.dispatches(h)
	f.withdraws(h)
	f.dispatches(h)
	f.settle(h, unclear(500))
	f.pass(2 * time.Second)
	f.unsure(again(key(1), time.Minute), h, false)
	r := f.record(key(1), cache.Unknown)
	f.near("the first dispatch", r.Dispatched, time.Minute)
	f.trail(r, cache.StepClaimed, cache.StepDispatched, cache.StepWithdrawn, cache.StepDispatched, cache.StepUnknown,
		cache.StepAgain, cache.StepDispatched, cache.StepUnknown,
		cache.StepAgain, cache.StepDispatched, cache.StepWithdrawn, cache.StepDispatched, cache.StepUnknown)
	for n, a := range f.audits() {
		if a.What != cache.StepAgain || a.Key != key(1) || n > 1 {
			f.Errorf("the audit has %+v", a)
		}
	}

	first = f.sends(write(key(2), 1))
	f.pass(lease)
	h = f.reruns(again(key(2), time.Minute), first, true)
	f.trail(f.record(key(2), cache.Claimed), cache.StepClaimed, cache.StepDispatched, cache.StepLapsed, cache.StepAgain)
	f.settle(h, undone())
	f.unsure(write(key(2), 1), h, false)

	// A key that came free is a new operation, and its window too.
	f.resolves(key(2), cache.Result{State: cache.Released})
	f.pass(time.Hour)
	h = f.sends(write(key(2), 1))
	f.settle(h, unclear(0))
	f.pass(30 * time.Second)
	f.reruns(again(key(2), time.Minute), h, false)
}

func writeWithin(f *fixture) {
	within := func(params byte) cache.Claim {
		c := write(key(1), params)
		c.Write.Within = time.Minute
		return c
	}
	h := f.sends(within(1))
	for range 10 { // a long call
		f.pass(10 * time.Second)
		if err := f.renew(h); err != nil {
			f.Fatal(err)
		}
	}
	f.settle(h, done("one"))
	f.pass(59 * time.Second) // from when it settled
	f.replays(within(1), cache.ByKey, "one")
	f.is(within(2), cache.Mismatch, "")
	f.pass(time.Second)
	f.replays(write(key(1), 1), cache.ByKey, "one") // of no window
	next := f.begins(within(2))
	f.refused(h)
	f.trail(f.record(key(1), cache.Claimed), cache.StepClaimed)
	f.settle(next, undone()) // and what it took over is gone
	h = f.sends(within(3))
	f.settle(h, unclear(0))
	f.pass(time.Hour) // an unknown outcome outlasts it
	f.unsure(within(3), h, false)
	f.settle(h, done("two"))
	f.pass(keep)
	f.gone(write(key(1), 3), "two")
	f.begins(within(4)) // of a tombstone too
	if a := f.audits(); len(a) != 0 {
		f.Errorf("the audit is %+v", a)
	}
	f.pass(lease)
	f.begins(within(5))
}
