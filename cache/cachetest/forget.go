package cachetest

import (
	"errors"
	"time"

	"oncegate/cache"
)

// forgets: what is forgotten runs anew, after a restart too; what runs, and what
// was written, is not to be forgotten; and the audit has who did, and why.
func forgets(f *fixture) {
	forget := func(k cache.Key, want error) {
		f.Helper()
		if err := f.Store.Forget(f.Context(), k, "ann", "it was wrong"); !errors.Is(err, want) {
			f.Fatalf("forget: %v, want %v", err, want)
		}
	}
	forget(key(1), cache.ErrNone)
	h := f.leads(explicit(key(1), 1))
	forget(key(1), cache.ErrNone)
	s := whole("one")
	s.Disk = true
	f.settle(h, s)
	f.replays(explicit(key(1), 1), cache.ByKey, "one")
	forget(key(1), nil)
	forget(key(1), cache.ErrNone)
	next := f.leads(explicit(key(1), 2)) // other params: nothing is known of the key
	if next.Fence <= h.Fence {
		f.Errorf("fence %d came after %d", next.Fence, h.Fence)
	}
	if err := f.Store.Settle(f.Context(), h, whole("late")); !errors.Is(err, cache.ErrFenced) {
		f.Errorf("a settlement of the forgotten one: %v", err)
	}
	f.settle(next, whole("two"))
	f.replays(explicit(key(1), 2), cache.ByKey, "two")

	failed := whole("no")
	failed.Result.State = cache.Failed
	f.settle(f.leads(derived(key(2), cache.Duplicates)), failed)
	forget(key(2), nil)
	h = f.leads(derived(key(2), cache.Duplicates))
	owed := whole("owed")
	owed.Owed = append(owed.Owed, f.now())
	f.settle(h, owed)
	forget(key(2), nil)
	h = f.leads(derived(key(2), cache.Duplicates))
	f.settle(h, cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}})
	forget(key(2), cache.ErrNone)

	w := f.begins(write(key(3), 1))
	f.dispatches(w)
	f.settle(w, done("paid"))
	forget(key(3), cache.ErrNone)

	s = whole("kept")
	s.Disk = true
	f.settle(f.leads(explicit(key(4), 1)), s)
	forget(key(4), nil)
	f.restart()
	f.leads(explicit(key(4), 1))
	forgotten := 0
	for _, a := range f.audits() {
		if a.What != cache.StepForgotten || a.Actor != "ann" || a.Reason != "it was wrong" || a.Fence == 0 || a.About != (cache.About{}) || f.now().Sub(a.At).Abs() > time.Hour {
			f.Errorf("the audit has %+v", a)
		}
		forgotten++
	}
	if forgotten != 4 {
		f.Errorf("the audit has %d entries, want 4", forgotten)
	}
}
