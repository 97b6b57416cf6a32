package redis

import (
	"maps"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// account is what Scan gives of a level: by begin and series.
type account map[entry]cache.Figures

type entry struct {
	begin  int64
	series cache.Series
}

func scan(t testing.TB, s *Store, l cache.Level) account {
	t.Helper()
	got, err := tryScan(t, s, l)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func tryScan(t testing.TB, s *Store, l cache.Level) (account, error) {
	got := make(account)
	err := s.Scan(t.Context(), l, time.Time{}, time.Unix(1<<36, 0), func(begin time.Time, series cache.Series, f *cache.Figures) {
		e := entry{begin.Unix(), series}
		if _, twice := got[e]; twice {
			t.Errorf("%v is given twice", e)
		}
		got[e] = *f
	})
	return got, err
}

func (a account) add(l cache.Level, zone *time.Location, lines ...cache.Line) {
	for _, line := range lines {
		e := entry{l.Begin(line.At, zone).Unix(), line.Series}
		f := a[e]
		f.Add(&line.Figures)
		a[e] = f
	}
}

func (a account) same(t interface{ Errorf(string, ...any) }, what string, want account) {
	if maps.Equal(a, want) {
		return
	}
	for e, f := range want {
		if a[e] != f {
			t.Errorf("%s: %v is %+v, want %+v", what, e, a[e], f)
		}
	}
	for e, f := range a {
		if _, ok := want[e]; !ok {
			t.Errorf("%s: %v is %+v, and should not be", what, e, f)
		}
	}
}

func line(at time.Time, model string, n int64) cache.Line {
	return cache.Line{At: at, Series: cache.Series{Model: model, Outcome: "executed"},
		Figures: cache.Figures{Requests: 1, Billed: 1, BilledInput: n, Spent: cache.Money{Dollars: n, Picos: 999_999_999_999}}}
}

func settled(t testing.TB, s *Store, k cache.Key, lines ...cache.Line) {
	t.Helper()
	c := claim(0)
	c.Key = k
	h := mustClaim(t, s, c, cache.Lead)
	set := answer("a")
	set.Lines = lines
	for range 2 {
		if err := s.Settle(t.Context(), h, set); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLedgerBooks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	zone := time.FixedZone("", 5*3600+1800)
	a, b := mustOpen(t, "redis://"+server.Addr, Options{Zone: zone}), mustOpen(t, "redis://"+server.Addr, Options{Zone: zone})
	now := time.Now()
	want := [3]account{{}, {}, {}}
	book := func(l cache.Line) cache.Line {
		for level := range cache.Day + 1 {
			want[level].add(level, zone, l)
		}
		return l
	}
	for n := range 64 {
		settled(t, a, cache.Key{byte(n), 1}, book(line(now, "m", 1<<40)), book(line(now.Add(-20*time.Hour), "n", 1)))
		b.Book(book(line(now.Add(-time.Duration(n)*time.Minute), "m", 3)))
	}
	if _, err := tryScan(t, b, cache.Day); err != nil {
		t.Fatal(err)
	}
	for level := range cache.Day + 1 {
		scan(t, a, level).same(t, "level", want[level])
	}
	a.Book(book(line(now, "last", 1)))
	a.Close()
	scan(t, b, cache.Minute).same(t, "after a close", want[cache.Minute])
}
