package cachetest

import (
	"bytes"
	"context"
	"errors"
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

func debts(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	s := whole("one")
	now := f.now()
	s.Owed = []time.Time{now.Add(-debt - time.Second), now.Add(-time.Second), now} // one no longer counts
	f.settle(h, s)
	f.replays(retry(key(1)), cache.RetryMarked, "one") // takes none
	f.replays(derived(key(1), cache.Retries), cache.ByDebt, "one")
	f.owe(h, debt)
	f.replays(derived(key(1), cache.Duplicates), cache.ByDebt, "one")
	f.replays(derived(key(1), cache.Always), cache.ByDebt, "one")
	f.leads(derived(key(1), cache.Duplicates))

	k := f.leads(explicit(key(2), 1))
	s = whole("two")
	s.Owed = []time.Time{now}
	f.settle(k, s)
	f.replays(explicit(key(2), 1), cache.ByKey, "two")
	f.replays(explicit(key(2), 1), cache.ByKey, "two")
}

func debtsInFlight(f *fixture) {
	h := f.leads(derived(key(1), cache.Retries))
	f.owe(h, debt)
	f.owe(h, debt)
	f.is(derived(key(1), cache.Retries), cache.Follow, cache.ByDebt)
	f.settle(h, whole("one"))
	f.replays(derived(key(1), cache.Retries), cache.ByDebt, "one") // a debt in flight is one later
	f.leads(derived(key(1), cache.Retries))
}

func debtsEnd(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	s := whole("one")
	f.pass(time.Minute)
	s.Owed = []time.Time{f.now().Add(-time.Minute)}
	f.settle(h, s)
	f.owe(h, 2*time.Minute)
	f.pass(time.Minute) // the first ends, the second goes on
	f.replays(derived(key(1), cache.Duplicates), cache.ByDebt, "one")
	f.owe(h, time.Minute)
	f.pass(time.Minute)
	f.replays(retry(key(1)), cache.RetryMarked, "one")
	f.leads(derived(key(1), cache.Duplicates))
}

func oweGone(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	f.settle(h, whole("one"))
	f.pass(keep)
	f.owe(h, debt)
	f.leads(derived(key(1), cache.Duplicates))

	h = f.leads(derived(key(2), cache.Duplicates))
	f.settle(h, cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}})
	f.owe(h, debt)
	f.leads(derived(key(2), cache.Duplicates))
	f.owe(cache.Hold{Key: key(3), Fence: 1}, debt)
	f.leads(derived(key(3), cache.Duplicates))
}

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

func logInFlight(f *fixture) {
	ctx := f.Context()
	h := f.leads(derived(key(1), cache.Duplicates))
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	if wanted, err := f.Store.Renew(ctx, h, lease); err != nil || wanted {
		f.Fatalf("renew: %v, %v before anybody read", wanted, err)
	}
	must(f.Store.Append(ctx, h, 0, body("a")))
	must(f.Store.Append(ctx, h, 0, body("b"))) // there already
	must(f.Store.Append(ctx, h, 1, append(body("x")[1:], body("c")[1:]...)))
	if err := f.Store.Append(ctx, h, 4, body("d")); err == nil || errors.Is(err, cache.ErrFenced) {
		f.Errorf("a gap gave %v", err)
	}
	frames, res, err := f.Store.Read(ctx, h, 0)
	if err != nil || res != nil || text(frames) != "ac" || len(frames) != 3 || frames[0].Head.Status != 200 {
		f.Fatalf("read %q, %v, %v", text(frames), res, err)
	}
	if frames, _, err = f.Store.Read(ctx, h, 2); err != nil || text(frames) != "c" {
		f.Fatalf("read %q, %v", text(frames), err)
	}
	if wanted, err := f.Store.Renew(ctx, h, lease); err != nil || !wanted {
		f.Fatalf("renew: %v, %v though somebody reads", wanted, err)
	}
}

func logUnread(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	wanted := func(when string, want bool) {
		f.Helper()
		if got, err := f.Store.Ask(f.Context(), h); got != want || err != nil {
			f.Errorf("%s: wanted %v, %v", when, got, err)
		}
		if got, err := f.Store.Renew(f.Context(), h, lease); got != want || err != nil {
			f.Errorf("%s, by the renewal: wanted %v, %v", when, got, err)
		}
	}
	read := func() {
		f.Helper()
		if frames, _, err := f.Store.Read(f.Context(), h, 0); err != nil || text(frames) != "a" {
			f.Fatalf("read %q, %v", text(frames), err)
		}
	}
	if err := f.Store.Append(f.Context(), h, 0, body("a")); err != nil {
		f.Fatal(err)
	}
	wanted("before anybody read", false)
	read()
	for range 3 { // from one time to the next somebody does
		f.pass(cache.Unread)
		read()
		wanted("read on", true)
	}
	f.pass(cache.Unread - 2*time.Second) // a busy machine takes some of it
	wanted("still", true)
	f.pass(2 * time.Second)
	wanted("nobody read since", false)
	wanted("nor then", false)
	read()
	wanted("read again", true)
	f.settle(h, whole("a"))
	_, err := f.Store.Ask(f.Context(), h)
	f.fenced("ask", err)
}

func readWaits(f *fixture) {
	h := f.leads(derived(key(1), cache.Duplicates))
	ctx, cancel := f.short()
	defer cancel()
	if _, _, err := f.Store.Read(ctx, h, 0); !errors.Is(err, context.DeadlineExceeded) {
		f.Fatalf("with nothing to read: %v", err)
	}
	type got struct {
		frames []cache.Frame
		res    *cache.Result
		err    error
	}
	read := func(from int) chan got {
		c := make(chan got, 1)
		go func() {
			frames, res, err := f.Store.Read(f.Context(), h, from)
			c <- got{frames, res, err}
		}()
		return c
	}
	first := read(0)
	f.pass(time.Second)
	if err := f.Store.Append(f.Context(), h, 0, body("a")); err != nil {
		f.Fatal(err)
	}
	if g := <-first; g.err != nil || text(g.frames) != "a" {
		f.Fatalf("a waiting reader got %+v", g)
	}
	last := read(2)
	f.pass(time.Second)
	f.settle(h, whole("ab"))
	if g := <-last; g.err != nil || g.res == nil || g.res.State != cache.Completed || len(g.frames) != 0 {
		f.Fatalf("at the end a waiting reader got %+v", g)
	}

	h = f.leads(derived(key(2), cache.Duplicates))
	over := read(0)
	f.pass(lease)
	f.leads(derived(key(2), cache.Duplicates))
	if g := <-over; !errors.Is(g.err, cache.ErrLapsed) && !errors.Is(g.err, cache.ErrFenced) {
		f.Fatalf("the reader of a claim that was taken over got %+v", g)
	}

	h = f.leads(derived(key(3), cache.Duplicates))
	over = read(0)
	f.pass(lease)
	if g := <-over; !errors.Is(g.err, cache.ErrLapsed) { // nobody claims, and it must be known all the same
		f.Fatalf("the reader of a claim whose lease lapsed got %+v", g)
	}
}

func logAfterEnd(f *fixture) {
	for n, s := range []cache.Settlement{whole("abc"), whole("abc")} {
		s.Disk = n == 1
		h := f.leads(explicit(key(byte(n)), 1))
		f.settle(h, s)
		frames, res, err := f.Store.Read(f.Context(), h, 0)
		if err != nil || res == nil || text(frames) != "abc" || text(res.Frames) != "abc" {
			f.Fatalf("read %q, %+v, %v", text(frames), res, err)
		}
		if frames, res, err = f.Store.Read(f.Context(), h, 7); err != nil || res == nil || len(frames) != 0 {
			f.Fatalf("beyond the end: %v, %v, %v", frames, res, err)
		}
		f.pass(keep)
		_, _, err = f.Store.Read(f.Context(), h, 0)
		f.fenced("read", err)
	}
	if _, _, err := f.Store.Read(f.Context(), cache.Hold{Key: key(9), Fence: 1}, 0); !errors.Is(err, cache.ErrFenced) {
		f.Errorf("an unknown log: %v", err)
	}
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
