package cachetest

import (
	"time"

	"oncegate/cache"
)

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
