package cache

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestMoneyText(t *testing.T) {
	for _, c := range []struct {
		money Money
		want  string
	}{
		{Money{}, "0"},
		{Picodollars(1), "0.000000000001"},
		{Picodollars(42_000_000), "0.000042"},
		{Picodollars(890_000_000), "0.00089"},
		{Money{Dollars: 12, Picos: 500_000_000_000}, "12.5"},
		{Money{Dollars: 7}, "7"},
		{Picodollars(math.MaxInt64), "9223372.036854775807"},
		{Money{Dollars: math.MaxInt64, Picos: picos - 1}, "9223372036854775807.999999999999"},
		{Picodollars(-1), "0"},
		{Picodollars(math.MinInt64), "0"},
	} {
		if got := c.money.String(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.money, got, c.want)
		}
		if got, err := ParseMoney(c.want); err != nil || got != c.money {
			t.Errorf("%q is %+v, %v, want %+v", c.want, got, err, c.money)
		}
		b, err := json.Marshal(map[string]Money{"spent": c.money})
		if err != nil || string(b) != `{"spent":"`+c.want+`"}` {
			t.Errorf("as JSON it is %s, %v", b, err)
		}
		var back map[string]Money
		if err := json.Unmarshal(b, &back); err != nil || back["spent"] != c.money {
			t.Errorf("and back %+v, %v", back, err)
		}
	}
}

func TestParseMoneyRefuses(t *testing.T) {
	for _, s := range []string{
		"", ".", "1.", ".5", "-1", "-0", "+1", "1e3", "0x1", "1_000", "1,5", " 1", "1 ", "$1", "1.-5", "1.+5", "1.5.5", "NaN",
		"1.0000000000001", "9223372036854775808", "٣",
	} {
		if m, err := ParseMoney(s); err == nil {
			t.Errorf("%q was read as %v", s, m)
		}
	}
	if m, err := ParseMoney("1.50"); err != nil || m != (Money{1, picos / 2}) {
		t.Errorf("1.50 is %+v, %v", m, err)
	}
}

// TestMoneyAdds holds sums and comparisons against big integers.
func TestMoneyAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sum, last Money
		want := new(big.Int)
		for _, n := range rapid.SliceOf(rapid.Int64Min(0)).Draw(t, "amounts") {
			m := Picodollars(n)
			if got := m.big(); got.Cmp(big.NewInt(n)) != 0 {
				t.Fatalf("%d is %v", n, got)
			}
			if got, want := m.Cmp(last), m.big().Cmp(last.big()); got != want {
				t.Fatalf("%v against %v: %d, want %d", m, last, got, want)
			}
			last = m
			sum.Add(m)
			want.Add(want, big.NewInt(n))
		}
		if sum.big().Cmp(want) != 0 || sum.Picos < 0 || sum.Picos >= picos {
			t.Fatalf("the sum is %+v, want %v picos", sum, want)
		}
		if back, err := ParseMoney(sum.String()); err != nil || back != sum {
			t.Fatalf("%v was read as %v, %v", sum, back, err)
		}
	})
}

func FuzzParseMoney(f *testing.F) {
	for _, s := range []string{"0", "12.5", "0.000000000001", "9223372036854775807.999999999999", "1.-5", "00.10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMoney(s)
		if err != nil {
			return
		}
		if m.Dollars < 0 || m.Picos < 0 || m.Picos >= picos {
			t.Fatalf("%q was read as %+v", s, m)
		}
		if r, ok := new(big.Rat).SetString(s); !ok || r.Mul(r, big.NewRat(picos, 1)).Cmp(new(big.Rat).SetInt(m.big())) != 0 {
			t.Fatalf("%q was read as %v", s, m)
		}
		if again, err := ParseMoney(m.String()); err != nil || again != m {
			t.Fatalf("%v was read as %v, %v", m, again, err)
		}
	})
}
