package cachetest

import (
	"errors"
	"maps"
	"time"

	"oncegate/cache"
)

// resolution is what an operator found out.
func resolution(res cache.Result) cache.Resolution {
	return cache.Resolution{
		Nonce: cache.NewNonce(), Result: res, Keep: keep, Memory: memory, Actor: "ops@example.com", Reason: "seen in their console",
	}
}

// resolves ends an unknown outcome.
func (f *fixture) resolves(k cache.Key, res cache.Result) {
	f.Helper()
	if err := f.Store.Resolve(f.Context(), k, resolution(res)); err != nil {
		f.Fatalf("resolve: %v", err)
	}
}

// audits reads the whole audit, three a page.
func (f *fixture) audits() (all []cache.Audit) {
	f.Helper()
	for cursor := ""; ; {
		page, next, err := f.Store.Audits(f.Context(), cursor, 3)
		if err != nil || len(page) > 3 || next != "" && len(page) != 3 {
			f.Fatalf("audit: %d entries, next %q, %v", len(page), next, err)
		}
		if all = append(all, page...); next == "" {
			return all
		}
		cursor = next
	}
}

func writeResolves(f *fixture) {
	ctx := f.Context()
	refuses := func(k cache.Key, want error) {
		f.Helper()
		for _, res := range []cache.Result{done("no").Result, {State: cache.Released}} {
			if err := f.Store.Resolve(ctx, k, resolution(res)); !errors.Is(err, want) {
				f.Errorf("resolve: %v, want %v", err, want)
			}
		}
	}
	refuses(key(1), cache.ErrNone)
	h := f.begins(write(key(1), 1))
	refuses(key(1), cache.ErrSettled)
	f.dispatches(h)
	refuses(key(1), cache.ErrSettled)
	f.settle(h, unclear(500))
	if err := f.Store.Resolve(ctx, key(1), resolution(cache.Result{State: cache.Unknown})); err == nil {
		f.Error("an unknown outcome could be resolved as unknown")
	}
	r := resolution(done("no").Result)
	r.Fence = h.Fence + 1
	f.fenced("resolve", f.Store.Resolve(ctx, key(1), r))
	f.unsure(write(key(1), 1), h, false)
	if a := f.audits(); len(a) != 0 {
		f.Errorf("nothing was resolved, and the audit is %+v", a)
	}

	// It happened, and this is the answer.
	f.pass(time.Hour)
	r = resolution(done("found").Result)
	r.Fence = h.Fence
	if err := f.Store.Resolve(ctx, key(1), r); err != nil {
		f.Fatal(err)
	}
	refuses(key(1), cache.ErrSettled)
	if g := f.replays(write(key(1), 1), cache.ByKey, "found"); g.Fence != h.Fence || g.Result.Status != 201 || g.Result.State != cache.Completed {
		f.Errorf("it replays %+v of %+v", g.Result, g)
	}
	for _, s := range []cache.Settlement{done("late"), undone(), unclear(500)} { // what was said stands
		f.fenced("settle", f.Store.Settle(ctx, h, s))
	}
	rec := f.record(key(1), cache.Completed)
	f.near("the settlement", rec.Settled, 0)
	f.near("the answer's end", rec.Expires, -keep)
	f.near("the key's end", rec.Forgotten, -memory)
	f.trail(rec, cache.StepClaimed, cache.StepDispatched, cache.StepUnknown, cache.StepResolved)
	if s := rec.Trail[3]; s.Actor != r.Actor || s.Reason != r.Reason || s.As != "completed" || s.Fence != h.Fence || s.Status != 201 {
		f.Errorf("it was resolved by %+v", s)
	}
	f.pass(keep)
	f.gone(write(key(1), 1), "found")
	refuses(key(1), cache.ErrSettled)
	f.pass(memory - keep)
	refuses(key(1), cache.ErrNone)
	f.begins(write(key(1), 2))

	// It happened, and there is no answer.
	f.settle(f.sends(write(key(2), 1)), unclear(0))
	bare := done("known").Result
	bare.Frames = nil
	f.resolves(key(2), bare)
	f.gone(write(key(2), 1), "known")

	// It did not happen; by the lapsed lease, too.
	h = f.sends(write(key(3), 1))
	f.pass(lease)
	f.resolves(key(3), cache.Result{State: cache.Released})
	f.none(key(3))
	refuses(key(3), cache.ErrNone)
	f.fenced("settle", f.Store.Settle(ctx, h, done("late")))
	next := f.sends(write(key(3), 2)) // it was never used
	f.refused(h)
	refuses(key(3), cache.ErrSettled)
	f.settle(next, done("two"))

	// What several claims left in doubt is ended by one word.
	first := f.sends(write(key(4), 1))
	f.settle(first, unclear(0))
	h = f.reruns(knowingly(key(4)), first, false)
	refuses(key(4), cache.ErrSettled) // it runs
	f.settle(h, undone())
	f.resolves(key(4), cache.Result{State: cache.Released})
	f.begins(write(key(4), 2))

	want := []struct {
		k    cache.Key
		what string
		as   string
	}{
		{key(4), cache.StepResolved, "released"}, {key(4), cache.StepRerun, ""}, {key(3), cache.StepResolved, "released"},
		{key(2), cache.StepResolved, "completed"}, {key(1), cache.StepResolved, "completed"},
	}
	got := f.audits()
	if len(got) != len(want) {
		f.Fatalf("the audit is %+v", got)
	}
	for n, w := range want {
		a := got[n]
		if a.Key != w.k || a.What != w.what || a.As != w.as || a.About != payments || a.Fence == 0 || n > 0 && a.At.After(got[n-1].At) {
			f.Errorf("entry %d of the audit is %+v, want %+v", n, a, w)
		}
		if a.What == cache.StepResolved && (a.Actor != "ops@example.com" || a.Reason != "seen in their console") {
			f.Errorf("entry %d of the audit is %+v", n, a)
		}
	}
}

func writeAuditStands(f *fixture) {
	var want []cache.Audit
	check := func(more int) {
		f.Helper()
		got := f.audits()
		if len(got) != len(want)+more {
			f.Fatalf("the audit has %d entries, want %d more than %d", len(got), more, len(want))
		}
		for n := range want {
			if a, b := got[more+n], want[n]; a.Key != b.Key || a.About != b.About || !a.At.Equal(b.At) || a.What != b.What ||
				a.Actor != b.Actor || a.Reason != b.Reason || a.As != b.As || a.Fence != b.Fence || a.Status != b.Status {
				f.Fatalf("an entry of the audit was %+v and is %+v", b, a)
			}
		}
		want = got
	}
	for n := range byte(5) {
		h := f.sends(write(key(n), 1))
		f.settle(h, unclear(0))
		check(0)
		h = f.reruns(knowingly(key(n)), h, false)
		check(1)
		f.settle(h, undone())
		check(0)
		res := done("found").Result
		if n%2 == 0 {
			res = cache.Result{State: cache.Released}
		}
		f.resolves(key(n), res)
		check(1)
		if err := f.Store.Resolve(f.Context(), key(n), resolution(res)); err == nil {
			f.Error("resolved twice")
		}
		check(0)
		f.pass(time.Second)
	}
	f.restart()
	check(0)
	f.pass(long) // whatever is swept
	check(0)
	h := f.sends(write(key(1), 1))
	f.settle(h, unclear(0))
	f.resolves(key(1), done("found").Result)
	check(1)
	f.restart()
	check(0)
}

func writeDoubts(f *fixture) {
	doubts := func(want map[string]int64) {
		f.Helper()
		got, err := f.Store.Doubts(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		maps.DeleteFunc(got, func(_ string, n int64) bool { return n == 0 })
		if !maps.Equal(got, want) {
			f.Errorf("doubts: %v, want %v", got, want)
		}
	}
	of := func(n byte, tool string) cache.Claim {
		c := knowingly(key(n))
		c.Write.About.Tool = tool
		return c
	}
	doubts(map[string]int64{})
	var holds []cache.Hold
	for n, tool := range []string{"a", "b", "a", "b", "a"} {
		holds = append(holds, f.sends(of(byte(n), tool)))
	}
	doubts(map[string]int64{})
	f.settle(holds[0], unclear(0))
	f.settle(holds[1], unclear(0))
	f.settle(holds[2], unclear(0))
	doubts(map[string]int64{"a": 2, "b": 1})
	f.settle(holds[2], done("late"))
	doubts(map[string]int64{"a": 1, "b": 1})
	f.pass(lease)
	doubts(map[string]int64{"a": 2, "b": 2}) // what lapsed, too
	f.unsure(func() cache.Claim { c := of(3, "b"); c.Write.Knowingly = false; return c }(), holds[3], false)
	doubts(map[string]int64{"a": 2, "b": 2})
	h := f.reruns(of(0, "a"), holds[0], false)
	doubts(map[string]int64{"a": 1, "b": 2})
	f.settle(h, undone())
	doubts(map[string]int64{"a": 2, "b": 2})
	f.settle(h, undone())
	doubts(map[string]int64{"a": 2, "b": 2})
	h = f.reruns(of(0, "a"), holds[0], false)
	f.restart() // its claim may be forgotten: the doubt is not
	f.pass(lease)
	doubts(map[string]int64{"a": 2, "b": 2})
	f.resolves(key(1), cache.Result{State: cache.Released})
	f.resolves(key(0), done("found").Result)
	doubts(map[string]int64{"a": 1, "b": 1})
	f.settle(holds[3], undone())
	doubts(map[string]int64{"a": 1})
	f.pass(long)
	doubts(map[string]int64{"a": 1})
	f.resolves(key(4), cache.Result{State: cache.Released})
	doubts(map[string]int64{})
	f.restart()
	doubts(map[string]int64{})
	_ = h
}
