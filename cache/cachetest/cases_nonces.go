package cachetest

import "oncegate/cache"

func nonces(f *fixture) {
	// twice sends a claim again; the answer must be the same.
	twice := func(c cache.Claim) cache.Grant {
		f.Helper()
		one, two := f.claim(c), f.claim(c)
		if one.Role != two.Role || one.Fence != two.Fence || one.Share != two.Share || one.Lapsed != two.Lapsed {
			f.Fatalf("sent again it is %+v, was %+v", two, one)
		}
		return one
	}
	ctx := f.Context()
	c := derived(key(1), cache.Duplicates)
	h := cache.Hold{Key: c.Key, Fence: twice(c).Fence}
	if g := twice(derived(key(1), cache.Duplicates)); g.Role != cache.Follow {
		f.Errorf("a duplicate got %+v", g)
	}
	follower := derived(key(1), cache.Duplicates)
	f.is(follower, cache.Follow, cache.ByTwin)
	n := cache.NewNonce()
	for range 3 {
		if err := f.Store.Owe(ctx, h, n, debt); err != nil {
			f.Fatal(err)
		}
	}
	s := whole("one")
	for range 3 {
		f.settle(h, s)
	}
	f.is(follower, cache.Follow, cache.ByTwin) // as it was told before
	n = cache.NewNonce()
	for range 3 {
		if err := f.Store.Owe(ctx, h, n, debt); err != nil {
			f.Fatal(err)
		}
	}
	// Two debts: the first to be taken is taken once, however often it is asked.
	taker := derived(key(1), cache.Duplicates)
	for range 3 {
		f.replays(taker, cache.ByDebt, "one")
	}
	f.replays(derived(key(1), cache.Duplicates), cache.ByDebt, "one")
	f.replays(taker, cache.ByDebt, "one")
	f.settle(h, s) // not even now
	if g := f.claim(c); g.Role != cache.Lead || g.Fence != h.Fence {
		f.Errorf("the leader's claim sent again is %+v", g)
	}
	f.leads(derived(key(1), cache.Duplicates))

	h = f.leads(derived(key(2), cache.Duplicates))
	gone := cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}}
	f.settle(h, gone)
	f.settle(h, gone)
	next := f.leads(derived(key(2), cache.Duplicates))
	f.settle(h, gone) // and it does not end the next one
	if err := f.renew(next); err != nil {
		f.Errorf("renew: %v", err)
	}

	f.leads(derived(key(3), cache.Duplicates))
	f.pass(lease)
	if g := twice(derived(key(3), cache.Duplicates)); !g.Lapsed {
		f.Errorf("a claim over a lapsed one is %+v", g)
	}

	k := f.leads(explicit(key(4), 1))
	s = whole("disk")
	s.Disk = true
	for range 3 {
		f.settle(k, s)
	}
}

func noncesReplaced(f *fixture) {
	c := derived(key(1), cache.Duplicates)
	h := f.leads(c)
	s := whole("one")
	f.settle(h, s)
	next := f.leads(derived(key(1), cache.Duplicates))
	f.settle(h, s) // its acknowledgement may have been lost
	if g := f.claim(c); g.Role != cache.Lead || g.Fence != h.Fence {
		f.Errorf("sent again it is %+v", g)
	}
	f.fenced("renew", f.renew(h))
	f.settle(next, whole("two"))
	f.replays(retry(key(1)), cache.RetryMarked, "two")
}
