package cache

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawSeries(t *rapid.T) (s Series) {
	for _, name := range s.names() {
		*name = rapid.OneOf(rapid.Just(""), rapid.String(), rapid.Just(strings.Repeat("x\x00", 200))).Draw(t, "name")
	}
	return s
}

func drawFigures(t *rapid.T) (f Figures) {
	for _, n := range f.numbers() {
		most := int64(math.MaxInt64)
		if n == &f.Saved.Picos || n == &f.Spent.Picos {
			most = picos - 1
		}
		*n = rapid.Int64Range(0, most).Draw(t, "figure")
	}
	return f
}

func TestLedgerCodecRoundTrip(t *testing.T) {
	type sum struct {
		minute int64
		s      Series
		f      Figures
	}
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		var want []sum
		for range rapid.IntRange(0, 5).Draw(t, "sums") {
			one := sum{rapid.Int64Min(0).Draw(t, "minute"), drawSeries(t), drawFigures(t)}
			want = append(want, one)
			all = AppendSum(all, one.minute, &one.s, &one.f)
			if s, err := DecodeSeries(AppendSeries(nil, &one.s)); err != nil || s != one.s {
				t.Fatalf("%+v became %+v, %v", one.s, s, err)
			}
			if f, err := DecodeFigures(AppendFigures(nil, &one.f)); err != nil || f != one.f {
				t.Fatalf("%+v became %+v, %v", one.f, f, err)
			}
		}
		var got []sum
		read := func(b []byte) error {
			got = nil
			return DecodeSums(b, func(minute int64, s *Series, f *Figures) { got = append(got, sum{minute, *s, *f}) })
		}
		if err := read(all); err != nil || len(got) != len(want) {
			t.Fatalf("%d sums became %d, %v", len(want), len(got), err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%+v became %+v", want[i], got[i])
			}
		}
		if len(all) == 0 {
			return
		}
		// Cut anywhere: what is whole is given, and nothing else.
		if err := read(all[:rapid.IntRange(0, len(all)-1).Draw(t, "cut")]); len(got) >= len(want) || err != nil && !errors.Is(err, ErrCodec) {
			t.Fatalf("cut, %d sums became %d, %v", len(want), len(got), err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("cut, %+v became %+v", want[i], got[i])
			}
		}
	})
}

func TestLedgerCodecRefuses(t *testing.T) {
	s := Series{Model: "m", Reason: "r"}
	f := Figures{Requests: 1, Spent: Money{1, picos - 1}}
	series, figures := AppendSeries(nil, &s), AppendFigures(nil, &f)
	for n := range series {
		if _, err := DecodeSeries(series[:n]); !errors.Is(err, ErrCodec) {
			t.Errorf("a series cut at %d: %v", n, err)
		}
	}
	for n := range figures {
		if _, err := DecodeFigures(figures[:n]); !errors.Is(err, ErrCodec) {
			t.Errorf("figures cut at %d: %v", n, err)
		}
	}
	if _, err := DecodeSeries(append(bytes.Clone(series), 0)); !errors.Is(err, ErrCodec) {
		t.Errorf("a series with a byte behind: %v", err)
	}
	if _, err := DecodeFigures(append(bytes.Clone(figures), 0)); !errors.Is(err, ErrCodec) {
		t.Errorf("figures with a byte behind: %v", err)
	}
	for _, bad := range []Figures{{Requests: -1}, {Prevented: math.MinInt64}, {Spent: Money{Picos: picos}}, {Saved: Money{Dollars: -1}}} {
		if got, err := DecodeFigures(AppendFigures(nil, &bad)); !errors.Is(err, ErrCodec) {
			t.Errorf("%+v became %+v, %v", bad, got, err)
		}
	}
	if _, err := DecodeSeries([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}); !errors.Is(err, ErrCodec) {
		t.Errorf("a huge length: %v", err)
	}
}

func FuzzDecodeSums(f *testing.F) {
	s := Series{Model: "m", Provider: "p", User: "u"}
	sum := Figures{Requests: 1, Spent: Money{1, 2}}
	f.Add(AppendSum(nil, 5, &s, &sum))
	f.Add(AppendSum(AppendSum(nil, 5, &s, &sum), 6, &Series{}, &Figures{}))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		n := 0
		err := DecodeSums(b, func(minute int64, s *Series, sum *Figures) {
			n++
			for _, v := range sum.numbers() {
				if *v < 0 {
					t.Fatalf("%+v has a negative figure", sum)
				}
			}
			again = AppendSum(again, minute, s, sum)
		})
		if err != nil && !errors.Is(err, ErrCodec) {
			t.Fatal(err)
		}
		if len(again) > len(b) { // a number may be longer than it needs to be, and no shorter
			t.Fatalf("%d bytes gave %d", len(b), len(again))
		}
		if err := DecodeSums(again, func(int64, *Series, *Figures) { n-- }); err != nil || n != 0 {
			t.Fatalf("read again: %v, %d sums fewer", err, n)
		}
	})
}
