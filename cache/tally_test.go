package cache

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

func tallyLine(n int) Line {
	return Line{
		At:      time.Unix(1_800_000_000, 0),
		Series:  Series{Model: fmt.Sprint("m", n), Provider: "p", Outcome: "executed"},
		Figures: Figures{Requests: 1, BilledInput: int64(n), Spent: Picodollars(picos - 1)},
	}
}

func TestTally(t *testing.T) {
	var tally Tally
	tally.Each(func(int64, *Series, *Figures) { t.Error("an empty one has a sum") })
	for range 3 {
		for n := range 4 {
			l := tallyLine(n)
			l.At = l.At.Add(time.Duration(n/2) * time.Minute)
			if err := tally.Add(&l); err != nil {
				t.Fatal(err)
			}
		}
	}
	if tally.Len() != 4 {
		t.Errorf("it has %d sums", tally.Len())
	}
	tally.Each(func(minute int64, s *Series, sum *Figures) {
		var n int64
		fmt.Sscanf(s.Model, "m%d", &n)
		want := Figures{Requests: 3, BilledInput: 3 * n, Spent: Money{2, picos - 3}}
		if *sum != want || minute != 30_000_000+n/2 {
			t.Errorf("%s of %d has %+v", s.Model, minute, sum)
		}
	})
	l := tallyLine(1)
	if n := testing.AllocsPerRun(100, func() { tally.Add(&l) }); n != 0 {
		t.Errorf("a line of a known series has %v allocations", n)
	}
}

func TestTallyRefuses(t *testing.T) {
	var tally Tally
	bad := tallyLine(1)
	bad.Billed = -1
	if err := tally.Add(&bad); !errors.Is(err, ErrLine) || tally.Len() != 0 {
		t.Errorf("a negative figure: %v, %d sums", err, tally.Len())
	}
	l := tallyLine(1)
	if err := tally.AddTo(l.Minute(), &l.Series, &Figures{Requests: 1, Spent: Money{Dollars: math.MaxInt64}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range []Figures{
		{Requests: math.MaxInt64, Billed: 1}, {Requests: 1, Spent: Money{Dollars: 1}}, {BilledInput: 5, Requests: math.MaxInt64},
	} {
		if err := tally.AddTo(l.Minute(), &l.Series, &f); !errors.Is(err, ErrLine) {
			t.Errorf("a sum that overflows: %v", err)
		}
	}
	if err := tally.AddTo(l.Minute(), &l.Series, &Figures{Spent: Money{Picos: picos - 1}}); err != nil {
		t.Error(err)
	}
	// A dollar of two parts is one too many.
	if err := tally.AddTo(l.Minute(), &l.Series, &Figures{Spent: Money{Picos: 1}}); !errors.Is(err, ErrLine) {
		t.Errorf("a dollar too many: %v", err)
	}
	tally.Each(func(_ int64, _ *Series, sum *Figures) {
		if *sum != (Figures{Requests: 1, Spent: Money{math.MaxInt64, picos - 1}}) {
			t.Errorf("it has %+v", sum)
		}
	})
}

// TestTallyIsBounded: what clients name freely can't take all the memory
// where nothing can be written for long.
func TestTallyIsBounded(t *testing.T) {
	var tally Tally
	const more = 2 * (MostNamed - MostSeries)
	for n := range mostTallied + more {
		l := tallyLine(n)
		if err := tally.Add(&l); err != nil {
			t.Fatal(err)
		}
	}
	known := tallyLine(7)
	tally.Add(&known)
	if tally.Len() != mostTallied+MostNamed-MostSeries+1 {
		t.Errorf("it has %d sums", tally.Len())
	}
	var requests int64
	tally.Each(func(_ int64, s *Series, sum *Figures) {
		requests += sum.Requests
		if *s == OtherSeries(*s) && (sum.Requests != more-(MostNamed-MostSeries) || s.Provider != "p") {
			t.Errorf("others are %+v: %+v", s, sum)
		}
	})
	if requests != mostTallied+more+1 {
		t.Errorf("it has %d requests", requests)
	}
}
