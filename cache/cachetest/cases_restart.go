package cachetest

import (
	"errors"
	"time"

	"oncegate/cache"
)

func restart(f *fixture) {
	s := whole("explicit")
	s.Disk = true
	h := f.leads(explicit(key(1), 1))
	f.settle(h, s)

	now := f.now()
	s = whole("owed")
	s.Owed = []time.Time{now, now, now}
	f.settle(f.leads(derived(key(2), cache.Duplicates)), s)
	f.replays(derived(key(2), cache.Duplicates), cache.ByDebt, "owed")

	late := f.leads(derived(key(3), cache.Duplicates))
	f.settle(late, whole("owed late"))
	f.owe(late, debt)

	f.restart()
	if g := f.replays(explicit(key(1), 1), cache.ByKey, "explicit"); g.Fence != h.Fence {
		f.Errorf("fence %d, was %d", g.Fence, h.Fence)
	}
	f.is(explicit(key(1), 2), cache.Mismatch, "")
	f.replays(derived(key(2), cache.Duplicates), cache.ByDebt, "owed")
	f.replays(derived(key(3), cache.Duplicates), cache.ByDebt, "owed late")
	f.owe(late, debt)

	f.restart()
	f.replays(derived(key(2), cache.Duplicates), cache.ByDebt, "owed")
	f.replays(derived(key(3), cache.Duplicates), cache.ByDebt, "owed late")
	if g := f.leads(derived(key(2), cache.Duplicates)); g.Fence <= late.Fence {
		f.Errorf("fence %d came after %d", g.Fence, late.Fence)
	}
	f.leads(derived(key(3), cache.Duplicates))
}

func restartRetention(f *fixture) {
	s := whole("one")
	s.Disk, s.Keep = true, 2*time.Minute
	f.settle(f.leads(explicit(key(1), 1)), s)
	f.pass(time.Minute)
	f.restart()
	f.pass(59 * time.Second)
	g := f.replays(explicit(key(1), 1), cache.ByKey, "one")
	if age := f.now().Sub(g.Result.Settled).Round(time.Second); age != 119*time.Second {
		f.Errorf("its age is %v", age)
	}
	f.restart()
	f.replays(explicit(key(1), 1), cache.ByKey, "one")
	f.pass(time.Second)
	f.leads(explicit(key(1), 1))
	f.restart()
}

func closedAway(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	if err := f.Store.Close(); err != nil {
		f.Fatal(err)
	}
	if err := f.Store.Close(); err != nil {
		f.Errorf("closed again: %v", err)
	}
	_, err := f.Store.Claim(f.Context(), derived(key(1), cache.Duplicates))
	_, _, read := f.Store.Read(f.Context(), h, 0)
	for step, err := range map[string]error{
		"claim": err, "renew": f.renew(h), "read": read,
		"append": f.Store.Append(f.Context(), h, 0, body("a")),
		"settle": f.Store.Settle(f.Context(), h, whole("one")),
		"owe":    f.Store.Owe(f.Context(), h, cache.NewNonce(), debt),
	} {
		if !errors.Is(err, cache.ErrAway) {
			f.Errorf("%s: %v, want ErrAway", step, err)
		}
	}
}
