package cachetest

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"oncegate/cache"
)

// levels of the ledger, by what a test calls them.
var levels = map[string]cache.Level{"minute": cache.Minute, "quarter": cache.Quarter, "day": cache.Day}

// bucket is a series of a bucket.
type bucket struct {
	begin  int64 // unix seconds
	series cache.Series
}

type sums map[bucket]cache.Figures

// add books a line in the sums of a level, as an engine must.
func (s sums) add(level cache.Level, zone *time.Location, l cache.Line) {
	k := bucket{level.Begin(l.At, zone).Unix(), l.Series}
	sum := s[k]
	sum.Add(&l.Figures)
	s[k] = sum
}

func (s sums) total() (all cache.Figures) {
	for _, sum := range s {
		all.Add(&sum)
	}
	return all
}

// call is a line of a model's call at a moment, with all figures set.
func call(at time.Time, model string) cache.Line {
	return cache.Line{
		At:     at,
		Series: cache.Series{Model: model, Provider: "mock", Operation: "chat", User: "u/1", Key: "research", Outcome: "executed"},
		Figures: cache.Figures{
			Requests: 1, Billed: 2, Unbilled: 3, Ambiguous: 4,
			SavedRequests: 5, SavedInput: 6, SavedOutput: 7, Saved: cache.Money{Dollars: 8, Picos: 9},
			BilledInput: 10, BilledOutput: 11, Spent: cache.Money{Dollars: 12, Picos: 999_999_999_999},
			Unpriced: 13, Prevented: 14,
		},
	}
}

// scan reads [from, until) of a level. No series may come twice for a bucket.
func (f *fixture) scan(level cache.Level, from, until time.Time) sums {
	f.Helper()
	got, err := scan(f, f.Store, level, from, until)
	if err != nil {
		f.Fatalf("scan: %v", err)
	}
	return got
}

func scan(f *fixture, s cache.Store, level cache.Level, from, until time.Time) (sums, error) {
	got := sums{}
	err := s.Scan(f.Context(), level, from, until, func(begin time.Time, series cache.Series, sum *cache.Figures) {
		k := bucket{begin.Unix(), series}
		if _, twice := got[k]; twice {
			f.Errorf("%v of %v comes twice", series, begin)
		}
		got[k] = *sum
	})
	return got, err
}

// all reads a level from before all that is kept of it, days from a year ago,
// until the day after tomorrow.
func (f *fixture) all(level cache.Level) sums {
	f.Helper()
	back := map[cache.Level]time.Duration{
		cache.Minute:  cache.KeepMinutes + 2*time.Hour,
		cache.Quarter: cache.KeepQuarters + 2*time.Hour,
		cache.Day:     366 * 24 * time.Hour,
	}
	return f.scan(level, f.now().Add(-back[level]), f.now().Add(48*time.Hour))
}

// booked checks what is in the ledger, at each level.
func (f *fixture) booked(when string, want ...cache.Line) {
	f.Helper()
	for name, level := range levels {
		wanted := sums{}
		for _, l := range want {
			wanted.add(level, time.UTC, l)
		}
		if got := f.all(level); !maps.Equal(got, wanted) {
			f.Errorf("%s, by %s: the ledger has\n%+v, want\n%+v", when, name, got, wanted)
		}
	}
}

// noon is an hour or more in the past, at the begin of a quarter, and far
// enough from a day's ends.
func (f *fixture) noon() time.Time { return f.now().Truncate(24 * time.Hour).Add(-12 * time.Hour) }

func ledgerBook(f *fixture) {
	f.booked("at first")
	at := f.noon()
	lines := []cache.Line{
		call(at, "a"), call(at.Add(59*time.Second), "a"), call(at.Add(time.Minute), "a"), call(at.Add(14*time.Minute), "b"),
		call(at.Add(15*time.Minute), "a"), call(at.Add(-time.Nanosecond), "a"), call(at.Add(13*time.Hour), "a"),
	}
	f.Store.Book(lines[:3]...)
	f.booked("after three", lines[:3]...)
	f.Store.Book()
	f.Store.Book(lines[3:]...)
	f.booked("after all", lines...)
	// What differs in any name is another series.
	for i, change := range []func(*cache.Series){
		func(s *cache.Series) { s.Model = "a/b" }, func(s *cache.Series) { s.Provider = "x" },
		func(s *cache.Series) { s.Operation = "x" }, func(s *cache.Series) { s.User = "ü\x00\xff'\"|,:" },
		func(s *cache.Series) { s.Key = "x" }, func(s *cache.Series) { s.Tool = "x" },
		func(s *cache.Series) { s.Outcome = "x" }, func(s *cache.Series) { s.Reason = "x" },
		func(s *cache.Series) { *s = cache.Series{} },
		func(s *cache.Series) { *s = cache.Series{Model: "ab", Provider: "c"} },
		func(s *cache.Series) { *s = cache.Series{Model: "a", Provider: "bc"} },
	} {
		l := call(at, "a")
		change(&l.Series)
		l.Figures = cache.Figures{Requests: int64(i + 1)}
		lines = append(lines, l)
		f.Store.Book(l)
	}
	f.booked("with other series", lines...)

	for _, c := range []struct {
		name        string
		level       cache.Level
		from, until time.Duration
		want        int64
	}{
		{"a minute", cache.Minute, 0, time.Minute, 2},
		{"the next minute", cache.Minute, time.Minute, 2 * time.Minute, 1},
		{"no minute begins there", cache.Minute, time.Second, time.Minute, 0},
		{"a minute begins there", cache.Minute, 59 * time.Second, 61 * time.Second, 1},
		{"a quarter", cache.Quarter, 0, 15 * time.Minute, 3},
		{"two quarters", cache.Quarter, -15 * time.Minute, 15 * time.Minute, 4},
		{"no day begins there", cache.Day, -time.Hour, time.Hour, 0},
		{"a day", cache.Day, -12 * time.Hour, 12 * time.Hour, 5},
		{"the next day", cache.Day, 12 * time.Hour, 36 * time.Hour, 1},
	} {
		var requests int64
		for k, sum := range f.scan(c.level, at.Add(c.from), at.Add(c.until)) {
			if k.series.Model == "a" && k.series == call(at, "a").Series {
				requests += sum.Requests
			}
		}
		if requests != c.want {
			f.Errorf("%s has %d requests, want %d", c.name, requests, c.want)
		}
	}
}

// settled is a settlement with lines.
func settled(s string, lines ...cache.Line) cache.Settlement {
	set := whole(s)
	set.Lines = lines
	return set
}

func ledgerSettle(f *fixture) {
	at := f.noon()
	var want []cache.Line
	for n, disk := range []bool{false, true} {
		name := fmt.Sprintf("disk %v", disk)
		k := key(byte(10 * n))
		h := f.leads(explicit(k, 1))
		s := settled("one", call(at, name), call(at, name), call(at.Add(time.Hour), name))
		s.Disk = disk
		f.settle(h, s)
		want = append(want, s.Lines...)
		f.booked(name, want...)
		f.settle(h, s)
		other := settled("two", call(at, "refused"))
		other.Disk = disk
		f.fenced("settle", f.Store.Settle(f.Context(), h, other))
		f.fenced("settle", f.Store.Settle(f.Context(), cache.Hold{Key: k, Fence: h.Fence + 1000}, other))
		f.fenced("settle", f.Store.Settle(f.Context(), cache.Hold{Key: key(200), Fence: h.Fence}, other))
		f.booked(name+", sent again", want...)

		k = key(byte(10*n + 1))
		old := f.leads(derived(k, cache.Duplicates))
		f.pass(lease)
		h = f.leads(derived(k, cache.Duplicates))
		f.fenced("settle", f.Store.Settle(f.Context(), old, other))
		f.booked(name+", of a stale holder", want...)
		failed := settled("no", call(at, "failed"))
		failed.Result.State, failed.Disk = cache.Failed, disk
		f.settle(h, failed)
		want = append(want, failed.Lines...)
		f.booked(name+", failed", want...)

		h = f.leads(explicit(key(byte(10*n+2)), 1))
		gone := cache.Settlement{
			Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}, Disk: disk,
			Lines: []cache.Line{call(at, "released")},
		}
		f.settle(h, gone)
		f.settle(h, gone)
		want = append(want, gone.Lines...)
		f.booked(name+", released", want...)
	}
	f.restart()
	f.booked("after a restart", want...)
}

// ledgerLost settles with lines over a store that loses steps: once a
// settlement's effect was had, its lines are booked, and once only.
func ledgerLost(f *fixture) {
	at := f.noon()
	var want []cache.Line
	for n, disk := range []bool{false, true, false, true} {
		after := n >= 2
		lost := true
		lose := func(step string) bool { return step == "settle" && lost }
		faulty := &Faulty{Store: f.Store, Before: lose}
		if after {
			faulty = &Faulty{Store: f.Store, After: lose}
		}
		h := f.leads(explicit(key(byte(n)), 1))
		s := settled("one", call(at, fmt.Sprint("lost ", n)))
		s.Disk = disk
		for range 3 {
			if err := faulty.Settle(f.Context(), h, s); !errors.Is(err, cache.ErrAway) {
				f.Fatalf("settle: %v", err)
			}
			if after {
				f.booked("its acknowledgement was lost", append(want, s.Lines...)...)
			} else {
				f.booked("it was lost", want...)
			}
		}
		lost = false
		if err := faulty.Settle(f.Context(), h, s); err != nil {
			f.Fatal(err)
		}
		want = append(want, s.Lines...)
		f.booked("it was sent again", want...)
	}
}

func ledgerRestart(f *fixture) {
	at := f.noon()
	var want []cache.Line
	for n := range 6 {
		l := call(at.Add(time.Duration(n)*time.Minute), "booked")
		f.Store.Book(l)
		s := settled("one", call(at, "settled"))
		s.Disk = n%2 == 0
		f.settle(f.leads(explicit(key(byte(n)), 1)), s)
		want = append(append(want, l), s.Lines...)
		if n%3 == 2 {
			f.restart()
			f.booked("after a restart", want...)
		}
	}
	f.restart()
	f.restart()
	f.booked("at last", want...)
}

func ledgerClosed(f *fixture) {
	if err := f.Store.Close(); err != nil {
		f.Fatal(err)
	}
	if _, err := scan(f, f.Store, cache.Day, time.Unix(0, 0), f.now()); !errors.Is(err, cache.ErrAway) {
		f.Errorf("scan: %v, want ErrAway", err)
	}
}
