package cachetest

import (
	"time"

	"oncegate/cache"
)

// writeKept: the answer goes, then the memory of the key, each to the moment
// and whether or not anything swept.
func writeKept(f *fixture) {
	h := f.sends(write(key(1), 1))
	f.pass(10 * time.Second)
	f.settle(h, done("one"))
	f.pass(keep - time.Second) // from when it settled; no replay prolongs it
	f.replays(write(key(1), 1), cache.ByKey, "one")
	f.pass(time.Second)
	f.gone(write(key(1), 1), "one")
	f.gone(knowingly(key(1)), "one")
	f.is(write(key(1), 2), cache.Mismatch, "")
	_, _, err := f.Store.Read(f.Context(), h, 0)
	f.fenced("read", err)
	for _, s := range []cache.Settlement{done("two"), undone(), unclear(500)} {
		f.fenced("settle", f.Store.Settle(f.Context(), h, s))
	}
	r := f.record(key(1), cache.Tombstone)
	want := done("one").Result
	if r.Frames != nil || r.Status != want.Status || r.Size != want.Size || r.Sum != want.Sum || r.Fence != h.Fence || r.About != payments {
		f.Errorf("the record is %+v", r)
	}
	f.near("the key's end", r.Forgotten, keep-memory)
	f.near("the settlement", r.Settled, keep)
	f.trail(r, cache.StepClaimed, cache.StepDispatched, cache.StepCompleted)
	f.pass(memory - keep - time.Second)
	f.gone(write(key(1), 1), "one")
	f.record(key(1), cache.Tombstone)
	f.pass(time.Second)
	f.none(key(1))
	f.begins(write(key(1), 2))

	// Without an answer from the start, or one that is not kept.
	bare := done("large")
	bare.Result.Frames = nil
	f.settle(f.sends(write(key(2), 1)), bare)
	f.gone(write(key(2), 1), "large")
	short := done("short")
	short.Keep = 0
	f.settle(f.sends(write(key(3), 1)), short)
	f.gone(write(key(3), 1), "short")
	f.record(key(3), cache.Tombstone)
	f.pass(memory - time.Second)
	f.gone(write(key(2), 1), "large")
	f.gone(write(key(3), 1), "short")
	f.pass(time.Second)
	f.begins(write(key(2), 1))
	f.begins(write(key(3), 1))

	// A memory that is shorter than the answer lasts as long.
	short = done("short")
	short.Memory = time.Second
	f.settle(f.sends(write(key(4), 1)), short)
	f.pass(keep - time.Second)
	f.replays(write(key(4), 1), cache.ByKey, "short")
	f.pass(time.Second)
	f.begins(write(key(4), 1))
}

func writeAged(f *fixture) {
	aged := func(k cache.Key) cache.Claim {
		c := write(k, 1)
		c.Write.Aged, c.Write.Knowingly = true, true
		return c
	}
	for range 2 {
		if g := f.is(aged(key(1)), cache.Aged, ""); g.Result != nil {
			f.Errorf("got %+v", g)
		}
	}
	f.none(key(1)) // it left nothing
	h := f.begins(write(key(1), 1))
	f.is(aged(key(1)), cache.Follow, cache.ByKey) // it is known
	f.dispatches(h)
	f.is(aged(key(1)), cache.Follow, cache.ByKey)
	f.settle(h, done("one"))
	f.replays(aged(key(1)), cache.ByKey, "one")
	f.pass(keep)
	f.gone(aged(key(1)), "one")
	f.pass(memory - keep)
	f.is(aged(key(1)), cache.Aged, "")
	h = f.sends(write(key(2), 1))
	f.settle(h, unclear(0))
	c := aged(key(2))
	c.Write.Knowingly = false
	f.unsure(c, h, false)
}
