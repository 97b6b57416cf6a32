package cachetest

import (
	"errors"

	"oncegate/cache"
)

// writeLedger: a dispatched write is booked once, by whoever says how it ended.
func writeLedger(f *fixture) {
	var want []cache.Line
	line := func(model string, n int) cache.Line {
		l := call(f.now(), model)
		l.Requests = int64(n)
		return l
	}
	books := func(when string, lines ...cache.Line) {
		f.Helper()
		want = append(want, lines...)
		f.booked(when, want...)
	}
	lapses := func(n int) cache.Claim {
		c := knowingly(key(byte(n)))
		c.Lapses = []cache.Line{line("lapsed", n)}
		return c
	}
	with := func(s cache.Settlement, l cache.Line) cache.Settlement {
		s.Lines = []cache.Line{l}
		return s
	}
	// Nobody settled, and it was met.
	for n, meet := range []func(h cache.Hold){
		func(h cache.Hold) { f.unsure(write(h.Key, 1), h, true) },
		func(h cache.Hold) { f.record(h.Key, cache.Unknown) },
		func(h cache.Hold) {
			if _, err := f.Store.Doubts(f.Context()); err != nil {
				f.Fatal(err)
			}
		},
		func(h cache.Hold) {
			if _, _, err := f.Store.Read(f.Context(), h, 0); !errors.Is(err, cache.ErrLapsed) {
				f.Fatalf("read: %v", err)
			}
		},
		func(h cache.Hold) { f.list(cache.Filter{State: cache.Unknown}, 200) },
		func(h cache.Hold) { f.resolves(h.Key, done("found").Result) },
	} {
		c := lapses(n)
		l := c.Lapses[0]
		h := f.sends(c)
		f.pass(lease)
		meet(h)
		books("lapsed", l)
		f.Store.Record(f.Context(), h.Key) // once
		f.list(cache.Filter{}, 200)
		if n < 5 {
			f.settle(h, with(done("late"), line("late", n))) // the doubt was booked
		}
		books("a late result")
	}
	// Settled in time: its own lines, and nothing else, now or later.
	for n, s := range []cache.Settlement{done("one"), unclear(500), undone()} {
		h := f.sends(lapses(10 + n))
		l := line("settled", n)
		s := with(s, l)
		f.settle(h, s)
		books("settled", l)
		f.settle(h, s)
		f.pass(4 * lease)
		f.list(cache.Filter{}, 200)
		books("settled long ago")
		if n == 1 {
			f.settle(h, with(done("late"), line("late", n)))
			books("a late result")
		}
		f.fenced("settle", f.Store.Settle(f.Context(), h, with(done("stale"), line("stale", n))))
		books("a stale settlement")
	}
	// Never sent.
	h := f.begins(lapses(20))
	l := line("released", 20)
	f.settle(h, with(undone(), l))
	books("released before it was sent", l)
	f.begins(lapses(21))
	h = f.sends(lapses(22))
	f.withdraws(h)
	f.pass(lease)
	f.begins(lapses(21))
	f.begins(lapses(22))
	books("what was claimed lapsed")

	// What runs again books anew.
	first := f.sends(lapses(30))
	l = line("settled", 30)
	f.settle(first, with(unclear(0), l))
	books("unknown", l)
	c := lapses(30)
	l = c.Lapses[0]
	h = f.dispatches(f.reruns(c, first, false))
	f.pass(lease)
	f.unsure(write(key(30), 1), h, true)
	books("run again and lapsed", l)
	h = f.dispatches(f.reruns(lapses(30), first, false))
	l = line("settled", 31)
	f.settle(h, with(undone(), l))
	books("run again and released", l)

	// A process died.
	c = lapses(40)
	l = c.Lapses[0]
	f.sends(c)
	f.restart()
	f.pass(lease)
	f.record(key(40), cache.Unknown)
	books("after a restart", l)
	f.restart()
	f.record(key(40), cache.Unknown)
	books("after another")
}
