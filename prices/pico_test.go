package prices

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

func TestDecimal(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0.0": 0, "0e5": 0, "1": 1e12, "0.42": 420_000_000_000, "1e-12": 1, "1E-12": 1, "1.5e+3": 1_500_000_000_000_000,
		"0.0000000000005": 1, "0.00000000000049999999999999999999": 0, "1e-9999": 0, "0.00014000000000000001": 140_000_000,
		"9223372.036854775807": 1<<63 - 1, "00012": 12e12, "0.1000000000000000000000000000000000000001": 100_000_000_000,
		"123456.7890123456789": 123_456_789_012_345_679,
	} {
		if got, ok := Decimal(text, 12); !ok || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "-1", "-0", "+1", ".5", "1.", "1.e3", "1e", "1e+", "1e1.5", "0x10", "NaN", "Infinity", "1 ", " 1", "1_000", "1,5",
		"1e300", "1e9999", "1e99999999999", "9223372.036854775808", "9223372.0368547758075", "92233720368547758080", "1.2.3", "\"1\"", "null",
	} {
		if got, ok := Decimal(text, 12); ok {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

// Against exact fractions.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "1.5", "0.00014000000000000001", "9223372.036854775807", "1e-7", "12e3", "-1", "1e300", "999999999999999999999.9"} {
		f.Add(s, 12)
	}
	f.Fuzz(func(t *testing.T, text string, digits int) {
		if len(text) > 60 || digits < 0 || digits > 18 {
			return
		}
		got, ok := Decimal(text, digits)
		if !json.Valid([]byte(text)) || strings.ContainsAny(text, " \t\r\n") {
			return // leading zeros, say: nothing to compare with
		}
		if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 {
			return // a large power: not worth the time
		}
		exact, isNumber := new(big.Rat).SetString(text)
		if !isNumber {
			if ok {
				t.Fatalf("%q was read as %d", text, got)
			}
			return
		}
		exact.Mul(exact, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)))
		exact.Add(exact, big.NewRat(1, 2))
		want := new(big.Int).Div(exact.Num(), exact.Denom())
		fits := want.IsInt64() && !strings.HasPrefix(text, "-")
		if ok != fits || ok && got != want.Int64() {
			t.Fatalf("%q, %d digits: %d, %v, want %v, %v", text, digits, got, ok, want, fits)
		}
	})
}

// An amount is written exactly.
func TestPico(t *testing.T) {
	for _, n := range []int64{0, 1, -1, 9, 10, PerDollar - 1, PerDollar, PerDollar + 1, 100 * PerDollar, 1_500_000_000_000, -2_504_000_000, 1<<63 - 1, -1 << 63} {
		text := Pico(n).String()
		exact, ok := new(big.Rat).SetString(text)
		if want := big.NewRat(n, PerDollar); !ok || exact.Cmp(want) != 0 {
			t.Errorf("%d is written as %s", n, text)
		}
		if strings.Contains(text, ".") && strings.HasSuffix(text, "0") || strings.HasSuffix(text, ".") {
			t.Errorf("%d is written with noughts at its end: %s", n, text)
		}
	}
}

// Whatever an upstream says, a price is the exact sum or none.
func FuzzCost(f *testing.F) {
	f.Add(int64(1000), int64(100), int64(50), int64(10), int64(500), int64(20), int64(3))
	f.Fuzz(func(t *testing.T, input, cached, write5m, write1h, output, reasoning, audio int64) {
		u := Usage{Known: true}
		for to, n := range map[*int64]int64{
			&u.Input: input, &u.Cached: cached, &u.CacheWrite5m: write5m, &u.CacheWrite1h: write1h,
			&u.Output: output, &u.Reasoning: reasoning, &u.InputAudio: audio,
		} {
			*to = n & (MaxCount - 1)
		}
		r := Rates{Input: Per(3), Cached: Per(5), CacheWrite5m: Per(7_000_000), CacheWrite1h: Per(11), Output: Per(maxRate.Million()), Reasoning: Per(13), InputAudio: Per(17)}
		got, why := r.cost(&u, true)
		rest := u.Input - u.Cached - u.CacheWrite5m - u.CacheWrite1h
		mixed := rest != u.Input && u.InputAudio > 0
		sum := new(big.Int)
		for _, p := range [][2]int64{
			{rest - u.InputAudio, 3}, {u.InputAudio, 17}, {u.Cached, 5}, {u.CacheWrite5m, 7_000_000}, {u.CacheWrite1h, 11},
			{u.Output - u.Reasoning, int64(maxRate.Million())}, {u.Reasoning, 13},
		} {
			if p[0] < 0 {
				mixed = true
			}
			sum.Add(sum, new(big.Int).Mul(big.NewInt(p[0]), big.NewInt(p[1])))
		}
		sum.Add(sum, big.NewInt(500_000)).Div(sum, big.NewInt(1_000_000))
		switch {
		case mixed:
			if why != NoPart {
				t.Fatalf("%+v: %v, want no price", u, why)
			}
		case !sum.IsInt64():
			if why != TooMuch {
				t.Fatalf("%+v: %v %v, want too much", u, got, why)
			}
		case why != Priced || int64(got) != sum.Int64():
			t.Fatalf("%+v: %v (%v), want %v", u, got, why, sum)
		}
	})
}
