package cachetest

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the cases' zones, wherever they run

	"pgregory.net/rapid"

	"oncegate/cache"
)

// ledgerDays holds the buckets of days against days that were looked up: in
// zones that are not whole hours from UTC, and on days of 23 and 25 hours,
// one without a midnight.
func ledgerDays(f *fixture) {
	for zone, days := range map[string][]string{
		"Asia/Kolkata":        {"2026-03-07T00:00:00+05:30", "2026-03-08T00:00:00+05:30", "2026-03-09T00:00:00+05:30"},
		"America/New_York":    {"2026-03-07T00:00:00-05:00", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", "2026-10-31T00:00:00-04:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", "2026-11-03T00:00:00-05:00"},
		"America/Sao_Paulo":   {"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		"Australia/Lord_Howe": {"2026-04-04T00:00:00+11:00", "2026-04-05T00:00:00+11:00", "2026-04-06T00:00:00+10:30"},
	} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			f.Fatal(err)
		}
		f.reopen(loc)
		want := map[int64]int64{}
		for i, day := range days {
			begin, err := time.Parse(time.RFC3339, day)
			if err != nil {
				f.Fatal(err)
			}
			n := int64(i + 1)
			l := call(begin, zone)
			l.Figures = cache.Figures{Requests: n}
			before := l
			before.At, before.Requests = begin.Add(-time.Minute), 100*n
			f.Store.Book(l, before)
			want[begin.Unix()] += n
			if i > 0 {
				last, _ := time.Parse(time.RFC3339, days[i-1])
				if begin.Sub(last) <= 26*time.Hour { // or there are days between that are not listed
					want[last.Unix()] += 100 * n
					continue
				}
			}
			want[begin.In(loc).AddDate(0, 0, -1).Unix()] += 100 * n
		}
		got := map[int64]int64{}
		for k, sum := range f.scan(cache.Day, time.Date(2018, 1, 1, 0, 0, 0, 0, loc), time.Date(2027, 1, 1, 0, 0, 0, 0, loc)) {
			got[k.begin] += sum.Requests
		}
		if !maps.Equal(got, want) {
			f.Errorf("%s: the days have %v, want %v", zone, got, want)
		}
		for day, n := range want { // each can be asked for
			got := f.scan(cache.Day, time.Unix(day, 0), time.Unix(day+1, 0)).total().Requests
			if got != n {
				f.Errorf("%s: the day of %v has %d, want %d", zone, time.Unix(day, 0).In(loc), got, n)
			}
		}
	}
}

// ledgerOther fills a bucket with what clients name freely.
func ledgerOther(f *fixture) {
	at := f.noon()
	user := func(n int, outcome string) cache.Line {
		l := call(at, "m")
		l.User, l.Outcome = fmt.Sprint("user ", n), outcome
		return l
	}
	var lines []cache.Line
	for n := range cache.MostSeries {
		lines = append(lines, user(n, "executed"))
	}
	f.Store.Book(lines...)
	for name, level := range levels {
		if n := len(f.all(level)); n != cache.MostSeries {
			f.Errorf("by %s there are %d series, want all %d", name, n, cache.MostSeries)
		}
	}
	check := func(when string, others int64) {
		f.Helper()
		var want cache.Figures
		for _, l := range lines {
			want.Add(&l.Figures)
		}
		for name, level := range levels {
			got := f.all(level)
			if total := got.total(); total != want {
				f.Errorf("%s, by %s: the total is %+v, want %+v", when, name, total, want)
			}
			var told int
			var other int64
			begin := level.Begin(at, time.UTC).Unix()
			for k, sum := range got {
				switch {
				case k.begin != begin:
				case k.series.User == cache.Other:
					other += sum.Requests
					if k.series.Model != "m" || k.series.Key != "research" || k.series.Provider != "mock" || k.series.Operation != "chat" || k.series.Outcome != "executed" && k.series.Outcome != "replayed" {
						f.Errorf("%s, by %s: %+v lost what is configured", when, name, k.series)
					}
				default:
					told++
				}
			}
			if told != cache.MostSeries || other != others {
				f.Errorf("%s, by %s: %d series are told apart, want %d; others have %d requests, want %d", when, name, told, cache.MostSeries, other, others)
			}
		}
	}
	book := func(more ...cache.Line) {
		lines = append(lines, more...)
		f.Store.Book(more...)
	}
	book(user(1, "executed"), user(cache.MostSeries-1, "executed")) // known ones have their place
	check("full", 0)
	var more []cache.Line
	for n := range 50 {
		more = append(more, user(cache.MostSeries+n, []string{"executed", "replayed"}[n%2]))
	}
	book(more...)
	check("beyond", 50)
	s := settled("one", user(7, "executed"), user(9000, "executed"), user(9001, "replayed"))
	lines = append(lines, s.Lines...)
	f.settle(f.leads(explicit(key(1), 1)), s)
	check("settled", 52)
	f.restart()
	book(user(8, "executed"), user(9002, "executed"))
	check("after a restart", 53)
	// Another bucket has room.
	next := user(9003, "executed")
	next.At = at.Add(24 * time.Hour)
	book(next)
	check("the next day", 53)
	for name, level := range levels {
		begin := level.Begin(next.At, time.UTC)
		if got := f.scan(level, begin, begin.Add(time.Second)); len(got) != 1 || got[bucket{begin.Unix(), next.Series}] != next.Figures {
			f.Errorf("the next day, by %s: %+v", name, got)
		}
	}
	// Models that clients make up have their bound too, and those that were there
	// are told apart all the same.
	made := func(n int, user string) cache.Line {
		l := call(at, fmt.Sprint("made up ", n))
		l.User = user
		return l
	}
	more = nil
	for n := range 2 * (cache.MostNamed - cache.MostSeries) {
		more = append(more, made(n, fmt.Sprint("user ", n)))
	}
	book(more...)
	last := []cache.Line{user(9004, "executed"), made(0, "user 9005"), made(1<<20, ""), made(1<<20, "")}
	book(last...)
	for name, level := range levels {
		begin, all := level.Begin(at, time.UTC), 0
		var m, first, others int64
		for k, sum := range f.all(level) {
			if k.begin != begin.Unix() {
				continue
			}
			all++
			switch k.series.Model {
			case "m":
				m += sum.Requests
			case "made up 0":
				first += sum.Requests
			case cache.Other:
				others += sum.Requests
				if k.series != cache.OtherSeries(k.series) {
					f.Errorf("by %s: others are %+v", name, k.series)
				}
			}
		}
		// Two of the room for models have gone to m, by its two outcomes.
		if room := int64(cache.MostNamed - cache.MostSeries - 2); m != int64(len(lines)-len(more)-len(last)-1+1) || first > 2 || others < int64(len(more))-room || all > cache.MostNamed+1 {
			f.Errorf("by %s, of %d series: m has %d requests, the first one made up %d, others %d", name, all, m, first, others)
		}
	}
	var want cache.Figures
	for _, l := range lines {
		want.Add(&l.Figures)
	}
	if total := f.all(cache.Day).total(); total != want {
		f.Errorf("the total is %+v, want %+v", total, want)
	}
}

// ledgerBig sums what no int64 of pico-dollars and no float64 holds.
func ledgerBig(f *fixture) {
	at := f.noon()
	l := call(at, "big")
	l.Figures = cache.Figures{
		Requests: 1, BilledInput: cache.MostFigure, BilledOutput: cache.MostFigure - 1,
		Spent: cache.Picodollars(math.MaxInt64), Saved: cache.Money{Dollars: cache.MostFigure, Picos: 999_999_999_999},
	}
	const n = 1<<14 + 3 // the tokens are beyond 2^53, and odd
	var lines []cache.Line
	for range n {
		lines = append(lines, l)
	}
	f.Store.Book(lines[:n/2]...)
	f.booked("half", lines[:n/2]...)
	f.Store.Book(lines[n/2:]...)
	f.booked("all", lines...)
	if got := f.all(cache.Day).total().Spent.String(); got != spentOf(n) {
		f.Errorf("spent %s", got)
	}
}

// spentOf is n times the most int64 pico-dollars, by another way.
func spentOf(n int64) string {
	var m cache.Money
	for bit := int64(1) << 40; bit > 0; bit >>= 1 {
		m.Add(m)
		if n&bit != 0 {
			m.Add(cache.Picodollars(math.MaxInt64))
		}
	}
	return m.String()
}

// ledgerRefuses is about lines that can't be: they are left out, and nothing else is.
func ledgerRefuses(f *fixture) {
	at := f.noon()
	good := call(at, "good")
	lines := []cache.Line{good}
	for _, spoil := range []func(*cache.Figures){
		func(f *cache.Figures) { f.Requests = -1 },
		func(f *cache.Figures) { f.BilledInput = math.MinInt64 },
		func(f *cache.Figures) { f.BilledOutput = cache.MostFigure + 1 },
		func(f *cache.Figures) { f.Saved.Dollars = -1 },
		func(f *cache.Figures) { f.Spent.Picos = 1_000_000_000_000 },
		func(f *cache.Figures) { f.Spent.Picos = -1 },
	} {
		bad := call(at, "bad")
		spoil(&bad.Figures)
		lines = append(lines, bad, good)
	}
	long := call(at, strings.Repeat("é", cache.MostName)) // its name is cut
	lines = append(lines, call(time.Unix(-60, 0), "bad"), long)
	f.Store.Book(lines...)
	s := settled("one", lines...)
	f.settle(f.leads(explicit(key(1), 1)), s)
	var want []cache.Line
	for range 14 {
		want = append(want, good)
	}
	long.Model = strings.Repeat("é", cache.MostName/2)
	want = append(want, long, long)
	f.booked("beside bad ones", want...)
}

// ledgerRetention ends minutes and quarters. Days stay.
func ledgerRetention(f *fixture) {
	now := f.now()
	count := map[string]int{}
	for _, age := range []time.Duration{
		0, cache.KeepMinutes - time.Hour, cache.KeepMinutes + time.Hour,
		cache.KeepQuarters - time.Hour, cache.KeepQuarters + time.Hour, 3 * cache.KeepQuarters,
	} {
		f.Store.Book(call(now.Add(-age), "m"))
		count["day"]++
		if age < cache.KeepQuarters {
			count["quarter"]++
		}
		if age < cache.KeepMinutes {
			count["minute"]++
		}
	}
	for range 3 { // what is swept is swept by then
		f.pass(time.Minute)
	}
	for name, level := range levels {
		if n := f.all(level).total().Requests; n != int64(count[name]) {
			f.Errorf("by %s there are %d, want %d", name, n, count[name])
		}
	}
}

// ledgerTogether books, settles and scans at once: each line is in every scan
// that came after it, and once.
func ledgerTogether(f *fixture) {
	const callers, each = 8, 60
	at := f.noon()
	var wg sync.WaitGroup
	done := make(chan struct{})
	for caller := range callers {
		wg.Go(func() {
			for n := range each {
				l := call(at.Add(time.Duration(n)*time.Minute), fmt.Sprint("m", caller))
				if n%3 > 0 {
					f.Store.Book(l)
				} else {
					c := explicit(cache.Key{byte(caller), byte(n), 77}, 1)
					g, err := f.Store.Claim(f.Context(), c)
					if err == nil {
						s := settled("one", l)
						s.Disk = n%2 == 0
						err = f.Store.Settle(f.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, s)
					}
					if err != nil {
						f.Error(err)
						return
					}
				}
				if n%20 == 7 { // its own lines are there
					got, err := scan(f, f.Store, cache.Day, at.Add(-24*time.Hour), at.Add(24*time.Hour))
					if err != nil {
						f.Error(err)
						return
					}
					var mine int64
					for k, sum := range got {
						if k.series == l.Series {
							mine += sum.Requests
						}
					}
					if mine != int64(n+1) {
						f.Errorf("of %d lines a scan has %d", n+1, mine)
					}
				}
			}
		})
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		for last := int64(0); ; {
			got, err := scan(f, f.Store, cache.Minute, at, at.Add(24*time.Hour))
			if err != nil {
				f.Error(err)
				return
			}
			n := got.total().Requests
			if n < last || n > callers*each {
				f.Errorf("a scan has %d lines, the one before it %d", n, last)
			}
			last = n
			select {
			case <-done:
				return
			default:
			}
		}
	})
	wg.Wait()
	close(done)
	reader.Wait()
	var want []cache.Line
	for caller := range callers {
		for n := range each {
			want = append(want, call(at.Add(time.Duration(n)*time.Minute), fmt.Sprint("m", caller)))
		}
	}
	f.booked("at the end", want...)
	f.restart()
	f.booked("after a restart", want...)
}

// ledgerSums books whatever rapid draws, by whatever way: at each level the
// ledger has the sums of it.
func ledgerSums(f *fixture) {
	start := f.noon().Truncate(24 * time.Hour)
	run := 0
	rapid.Check(f, func(t *rapid.T) { // not f.T: a bubble has no deadline
		run++ // each has days of its own
		base := start.Add(time.Duration(3*run) * 24 * time.Hour)
		word := rapid.SampledFrom([]string{"", "a", "b", "a/b", "é", cache.Other})
		count := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 9), rapid.Int64Range(0, cache.MostFigure))
		money := rapid.Custom(func(t *rapid.T) cache.Money {
			return cache.Money{Dollars: count.Draw(t, "dollars"), Picos: rapid.Int64Range(0, 999_999_999_999).Draw(t, "picos")}
		})
		line := rapid.Custom(func(t *rapid.T) cache.Line {
			return cache.Line{
				At: base.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)-1).Draw(t, "at"))),
				Series: cache.Series{
					Model: word.Draw(t, "model"), Provider: word.Draw(t, "provider"), Operation: word.Draw(t, "operation"),
					User: word.Draw(t, "user"), Key: word.Draw(t, "key"), Tool: word.Draw(t, "tool"),
					Outcome: word.Draw(t, "outcome"), Reason: word.Draw(t, "reason"),
				},
				Figures: cache.Figures{
					Requests: count.Draw(t, "requests"), Billed: count.Draw(t, "billed"), Unbilled: count.Draw(t, "unbilled"),
					Ambiguous: count.Draw(t, "ambiguous"), SavedRequests: count.Draw(t, "saved"), SavedInput: count.Draw(t, "saved input"),
					SavedOutput: count.Draw(t, "saved output"), Saved: money.Draw(t, "saved money"), BilledInput: count.Draw(t, "input"),
					BilledOutput: count.Draw(t, "output"), Spent: money.Draw(t, "spent"), Unpriced: count.Draw(t, "unpriced"),
					Prevented: count.Draw(t, "prevented"),
				},
			}
		})
		want := map[cache.Level]sums{cache.Minute: {}, cache.Quarter: {}, cache.Day: {}}
		var total cache.Figures
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			lines := rapid.SliceOfN(line, 0, 8).Draw(t, "lines")
			switch rapid.IntRange(0, 11).Draw(t, "by") {
			case 0:
				f.restart()
				f.Store.Book(lines...)
			case 1, 2, 3, 4:
				s := settled("one", lines...)
				s.Disk = rapid.Bool().Draw(t, "disk")
				c := explicit(cache.Key{}, 1)
				copy(c.Key[:], c.Nonce[:])
				g, err := f.Store.Claim(f.Context(), c)
				if err == nil {
					err = f.Store.Settle(f.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, s)
				}
				if err != nil {
					t.Fatal(err)
				}
			case 5, 6:
				for i := range lines {
					f.Store.Book(lines[i])
				}
			default:
				f.Store.Book(lines...)
			}
			for i := range lines {
				for level := range want {
					want[level].add(level, time.UTC, lines[i])
				}
				total.Add(&lines[i].Figures)
			}
		}
		for name, level := range levels {
			got := f.scan(level, base, base.Add(48*time.Hour))
			if !maps.Equal(got, want[level]) {
				t.Fatalf("by %s: the ledger has\n%+v, want\n%+v", name, got, want[level])
			}
			if got.total() != total {
				t.Fatalf("by %s: the total is %+v, want %+v", name, got.total(), total)
			}
		}
	})
}
