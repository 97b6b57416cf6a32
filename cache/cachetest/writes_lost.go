package cachetest

import (
	"errors"
	"math/rand/v2"

	"oncegate/cache"
)

// writeLostAcknowledgements plays holders that send each step again until it
// is answered, over a store that loses one in three. What the trail has shows
// that each had its effect once.
func writeLostAcknowledgements(f *fixture) {
	rnd := rand.New(rand.NewPCG(7, 11))
	lose := func(string) bool { return rnd.IntN(3) == 0 }
	truth, ctx := f.Store, f.Context()
	for when, faulty := range []*Faulty{
		{Store: truth, Before: lose},
		{Store: truth, After: lose},
		{Store: truth, Before: lose, After: lose},
	} {
		again := func(step string, do func() error) {
			f.Helper()
			for range 100 {
				err := do()
				if err == nil {
					return
				}
				if !errors.Is(err, cache.ErrAway) {
					f.Fatalf("%s: %v", step, err)
				}
			}
			f.Fatalf("%s: never answered", step)
		}
		for n := range 12 {
			k := cache.Key{byte(n), byte(when), 1}
			claim := func(c cache.Claim) (h cache.Hold) {
				f.Helper()
				again("claim", func() error {
					g, err := faulty.Claim(ctx, c)
					h = cache.Hold{Key: k, Fence: g.Fence}
					if err == nil && g.Role != cache.Lead {
						f.Fatalf("a claim got %+v", g)
					}
					return err
				})
				f.is(write(k, 1), cache.Follow, cache.ByKey)
				return h
			}
			step := func(name string, do func(cache.Nonce) error) {
				f.Helper()
				nonce := cache.NewNonce()
				again(name, func() error { return do(nonce) })
			}
			settle := func(h cache.Hold, s cache.Settlement) {
				f.Helper()
				again("settle", func() error { return faulty.Settle(ctx, h, s) })
			}
			// A dispatch that was not acknowledged counts as none: nothing is
			// sent, and it is released.
			h := claim(write(k, 1))
			err := faulty.Dispatch(ctx, h, cache.NewNonce())
			if err != nil && !errors.Is(err, cache.ErrAway) {
				f.Fatalf("dispatch: %v", err)
			}
			settle(h, undone())
			f.none(k)

			h = claim(write(k, 1))
			dispatch := func() { step("dispatch", func(n cache.Nonce) error { return faulty.Dispatch(ctx, h, n) }) }
			dispatch()
			step("withdraw", func(n cache.Nonce) error { return faulty.Withdraw(ctx, h, n) })
			dispatch()
			settle(h, unclear(500))
			h = claim(knowingly(k))
			dispatch()
			settle(h, unclear(500))
			want := []string{cache.StepClaimed, cache.StepDispatched, cache.StepWithdrawn, cache.StepDispatched, cache.StepUnknown,
				cache.StepRerun, cache.StepDispatched, cache.StepUnknown}
			if n%2 == 0 {
				settle(h, done("late"))
				want = append(want, cache.StepCompleted)
			} else {
				r := resolution(done("late").Result)
				again("resolve", func() error { return faulty.Resolve(ctx, k, r) })
				want = append(want, cache.StepResolved)
			}
			f.replays(write(k, 1), cache.ByKey, "late")
			f.trail(f.record(k, cache.Completed), want...)
		}
		if got, want := len(f.audits()), (when+1)*(12+6); got != want {
			f.Errorf("the audit has %d entries, want %d", got, want)
		}
	}
}

func writeClosed(f *fixture) {
	h := f.sends(write(key(1), 1))
	other := f.begins(write(key(2), 1))
	if err := f.Store.Close(); err != nil {
		f.Fatal(err)
	}
	ctx := f.Context()
	_, claim := f.Store.Claim(ctx, write(key(1), 1))
	_, _, read := f.Store.Read(ctx, h, 0)
	_, record := f.Store.Record(ctx, key(1))
	_, _, records := f.Store.Records(ctx, cache.Filter{}, "", 10)
	_, _, audits := f.Store.Audits(ctx, "", 10)
	_, doubts := f.Store.Doubts(ctx)
	for step, err := range map[string]error{
		"claim": claim, "dispatch": f.dispatch(other), "withdraw": f.withdraw(h), "renew": f.renew(h), "read": read,
		"settle": f.Store.Settle(ctx, h, done("one")), "append": f.Store.Append(ctx, h, 0, body("a")),
		"resolve": f.Store.Resolve(ctx, key(1), resolution(cache.Result{State: cache.Released})),
		"record":  record, "records": records, "audits": audits, "doubts": doubts,
	} {
		if !errors.Is(err, cache.ErrAway) {
			f.Errorf("%s: %v, want ErrAway", step, err)
		}
	}
}
