package cachetest

import (
	"bytes"
	"time"

	"oncegate/cache"
)

func claimAbsent(f *fixture) {
	for n, c := range []cache.Claim{
		derived(key(1), cache.Retries), derived(key(2), cache.Duplicates), derived(key(3), cache.Always),
		retry(key(4)), explicit(key(5), 1),
	} {
		if g := f.claim(c); g.Role != cache.Lead || g.Lapsed || g.Fence == 0 {
			f.Errorf("claim %d: %+v", n, g)
		}
	}
}

func inFlight(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	f.is(derived(key(1), cache.Retries), cache.Twin, "")
	f.is(derived(key(1), cache.Always), cache.Follow, cache.ByTwin)
	f.is(retry(key(1)), cache.Follow, cache.RetryMarked)
	if g := f.is(derived(key(1), cache.Duplicates), cache.Follow, cache.ByTwin); g.Fence != h.Fence {
		f.Errorf("follows fence %d, want %d", g.Fence, h.Fence)
	}
	k := f.leads(explicit(key(2), 1))
	if g := f.is(explicit(key(2), 1), cache.Follow, cache.ByKey); g.Fence != k.Fence {
		f.Errorf("follows fence %d, want %d", g.Fence, k.Fence)
	}
}

func completed(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	f.settle(h, whole("one"))
	f.replays(retry(key(1)), cache.RetryMarked, "one")
	if g := f.replays(derived(key(1), cache.Always), cache.WithinTTL, "one"); g.Fence != h.Fence {
		f.Errorf("replays fence %d, want %d", g.Fence, h.Fence)
	}
	again := f.leads(derived(key(1), cache.Duplicates)) // regenerate regenerates
	if again.Fence <= h.Fence {
		f.Errorf("fence %d came after %d", again.Fence, h.Fence)
	}
	f.is(retry(key(1)), cache.Follow, cache.RetryMarked)
	f.settle(again, whole("two"))
	f.replays(retry(key(1)), cache.RetryMarked, "two")

	f.settle(f.leads(explicit(key(2), 1)), whole("three"))
	g := f.replays(explicit(key(2), 1), cache.ByKey, "three")
	if g.Result.State != cache.Completed || g.Result.Cut {
		f.Errorf("the result is %+v", g.Result)
	}
	if head := g.Result.Frames[0].Head; head == nil || head.Status != 200 || head.Target != "mock/m" {
		f.Errorf("its head is %+v", head)
	}
	if age := f.now().Sub(g.Result.Settled); age < 0 || age > time.Minute {
		f.Errorf("it was settled %v ago", age)
	}
}

func cutAnswer(f *fixture) {
	s := whole("half")
	s.Result.Cut = true
	f.settle(f.leads(derived(key(1), cache.Always)), s)
	if g := f.replays(retry(key(1)), cache.RetryMarked, "half"); !g.Result.Cut {
		f.Error("the result forgot that it was cut")
	}
	f.leads(derived(key(1), cache.Always))

	s = whole("half")
	s.Result.Cut, s.Disk = true, true
	f.settle(f.leads(explicit(key(2), 1)), s)
	f.restart()
	if g := f.replays(explicit(key(2), 1), cache.ByKey, "half"); !g.Result.Cut {
		f.Error("the result forgot over a restart that it was cut")
	}
}

func failureMemo(f *fixture) {
	s := whole("no")
	s.Result.State, s.Keep = cache.Failed, 2*time.Second
	f.settle(f.leads(derived(key(1), cache.Retries)), s)
	f.pass(1900 * time.Millisecond)
	if g := f.replays(derived(key(1), cache.Retries), cache.ByTwin, "no"); g.Result.State != cache.Failed {
		f.Errorf("the result is %+v", g.Result)
	}
	f.replays(retry(key(1)), cache.RetryMarked, "no")
	f.pass(100 * time.Millisecond)
	f.leads(derived(key(1), cache.Retries))

	// Not on disk, whatever the settlement says: a restart tries anew.
	s.Nonce, s.Disk, s.Keep = cache.NewNonce(), true, time.Minute
	f.settle(f.leads(explicit(key(2), 1)), s)
	f.replays(explicit(key(2), 1), cache.ByKey, "no")
}

func released(f *fixture) {
	first := f.leads(explicit(key(1), 1))
	f.settle(first, cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}})
	f.fenced("renew", f.renew(first))
	second := f.leads(explicit(key(1), 2)) // and its fingerprint is not remembered
	if second.Fence <= first.Fence {
		f.Errorf("fence %d came after %d", second.Fence, first.Fence)
	}
	f.is(explicit(key(1), 1), cache.Mismatch, "")
}

func mismatch(f *fixture) {
	h := f.leads(explicit(key(1), 1))
	f.is(explicit(key(1), 2), cache.Mismatch, "")
	f.settle(h, whole("one"))
	f.is(explicit(key(1), 2), cache.Mismatch, "")
	f.replays(explicit(key(1), 1), cache.ByKey, "one") // a refusal changed nothing
	f.pass(keep)
	f.leads(explicit(key(1), 2))
	f.pass(lease)
	f.is(explicit(key(1), 1), cache.Mismatch, "") // nor does a lapsed lease make it another's
}

func leases(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	f.pass(lease - time.Second)
	f.is(derived(key(1), cache.Duplicates), cache.Follow, cache.ByTwin)
	if err := f.renew(h); err != nil {
		f.Fatal(err)
	}
	f.pass(lease - time.Second)
	f.is(derived(key(1), cache.Duplicates), cache.Follow, cache.ByTwin) // following renews nothing
	f.pass(time.Second)
	g := f.claim(derived(key(1), cache.Duplicates))
	if g.Role != cache.Lead || !g.Lapsed || g.Fence <= h.Fence {
		f.Fatalf("the lease lapsed, and a claim got %+v", g)
	}
	f.fenced("renew", f.renew(h))
	f.is(derived(key(1), cache.Duplicates), cache.Follow, cache.ByTwin)
}

func lateSettle(f *fixture) {
	h := f.leads(explicit(key(1), 1))
	f.pass(4 * lease)
	if err := f.renew(h); err != nil {
		f.Errorf("renew: %v", err)
	}
	f.pass(4 * lease)
	f.settle(h, whole("late"))
	f.replays(explicit(key(1), 1), cache.ByKey, "late")
}

func staleHolder(f *fixture) {
	old := f.leads(derived(key(1), cache.Duplicates))
	f.pass(lease)
	h := f.leads(derived(key(1), cache.Duplicates))
	try := func() {
		f.Helper()
		f.fenced("renew", f.renew(old))
		f.fenced("append", f.Store.Append(f.Context(), old, 0, body("stale")))
		f.fenced("settle", f.Store.Settle(f.Context(), old, whole("stale")))
		gone := cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}}
		f.fenced("release", f.Store.Settle(f.Context(), old, gone))
		_, _, err := f.Store.Read(f.Context(), old, 0)
		f.fenced("read", err)
		f.owe(old, debt)
	}
	try()
	f.is(derived(key(1), cache.Retries), cache.Twin, "") // it owes nothing
	if err := f.renew(h); err != nil {
		f.Fatal(err)
	}
	f.settle(h, whole("true"))
	try()
	f.replays(retry(key(1)), cache.RetryMarked, "true")
	f.leads(derived(key(1), cache.Retries))
	unknown := cache.Hold{Key: key(9), Fence: h.Fence}
	f.fenced("renew", f.renew(unknown))
	f.fenced("settle", f.Store.Settle(f.Context(), unknown, whole("stale")))
	f.leads(explicit(key(9), 1))
}

func resultStands(f *fixture) {
	h := f.leads(explicit(key(1), 1))
	s := whole("one")
	s.Disk = true
	f.settle(h, s)
	f.fenced("settle", f.Store.Settle(f.Context(), h, whole("two")))
	f.fenced("append", f.Store.Append(f.Context(), h, 2, body("two")))
	f.fenced("renew", f.renew(h))
	f.replays(explicit(key(1), 1), cache.ByKey, "one")
}

func retention(f *fixture) {
	h := f.leads(derived(key(1), cache.Always))
	for range 30 { // a long call
		f.pass(10 * time.Second)
		if err := f.renew(h); err != nil {
			f.Fatal(err)
		}
	}
	f.settle(h, whole("one"))
	for range 4 {
		f.pass(keep/4 - time.Second)
		f.replays(derived(key(1), cache.Always), cache.WithinTTL, "one")
		f.replays(retry(key(1)), cache.RetryMarked, "one")
	}
	f.pass(3 * time.Second)
	f.replays(derived(key(1), cache.Always), cache.WithinTTL, "one")
	f.pass(time.Second)
	f.leads(derived(key(1), cache.Always))
}

func fences(f *fixture) {
	var last cache.Fence
	next := func() cache.Hold {
		f.Helper()
		h := f.leads(derived(key(1), cache.Duplicates))
		if h.Fence <= last {
			f.Fatalf("fence %d after %d", h.Fence, last)
		}
		last = h.Fence
		return h
	}
	for range 3 {
		f.settle(next(), whole("x"))
		f.pass(keep + time.Minute) // long gone
		f.settle(next(), cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}})
		f.pass(time.Hour)
		next()
		f.pass(time.Hour) // and never settled
		f.restart()
	}
}

func keysApart(f *fixture) {
	// A difference in any byte is another record.
	for i := range 32 {
		var k cache.Key
		k[i] = 1
		s := whole(string(rune('a' + i)))
		s.Disk = i%2 == 0
		f.settle(f.leads(explicit(k, 1)), s)
	}
	for i := range 32 {
		var k cache.Key
		k[i] = 1
		f.replays(explicit(k, 1), cache.ByKey, string(rune('a'+i)))
	}
}

func secret(f *fixture) {
	one, err := f.Store.Secret(f.Context())
	if err != nil || len(one) < 32 || bytes.Equal(one, make([]byte, len(one))) {
		f.Fatalf("secret: %d bytes, %v", len(one), err)
	}
	one = bytes.Clone(one)
	f.restart()
	if two, err := f.Store.Secret(f.Context()); err != nil || !bytes.Equal(one, two) {
		f.Fatalf("another secret after a restart: %v", err)
	}
}
