package cachetest

import (
	"context"
	"errors"
	"time"

	"oncegate/cache"
)

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

func settledAlone(f *fixture) {
	alone := func() cache.Settlement {
		return cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}, Alone: true}
	}
	f.settle(f.leads(derived(key(1), cache.Duplicates)), alone()) // nobody does

	h := f.leads(derived(key(2), cache.Duplicates))
	f.is(derived(key(2), cache.Duplicates), cache.Follow, "twin")
	if err := f.Store.Append(f.Context(), h, 0, body("a")); err != nil {
		f.Fatal(err)
	}
	if frames, _, err := f.Store.Read(f.Context(), h, 0); err != nil || text(frames) != "a" {
		f.Fatalf("read %q, %v", text(frames), err)
	}
	set := alone()
	for range 2 {
		if err := f.Store.Settle(f.Context(), h, set); !errors.Is(err, cache.ErrFollowed) {
			f.Fatalf("settled alone: %v", err)
		}
	}
	if err := f.renew(h); err != nil {
		f.Fatalf("it is not in flight any more: %v", err)
	}
	set.Alone, set.Result.Frames = false, body("ab") // the same nonce, for that had no effect
	f.settle(h, set)
	if _, res, err := f.Store.Read(f.Context(), h, 1); err != nil || res == nil || text(res.Frames) != "ab" {
		f.Fatalf("the end: %+v, %v", res, err)
	}
	f.leads(derived(key(2), cache.Duplicates))
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
