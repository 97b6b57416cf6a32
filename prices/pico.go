package prices

import (
	"math"
	"strconv"
)

// Pico is an amount in pico-dollars: 10^-12 of a US dollar. An int64 holds
// nine million dollars: enough for one answer, not for a year's sum.
type Pico int64

// PerDollar is how many pico-dollars make a dollar.
const PerDollar = 1_000_000_000_000

// String is the amount in dollars, exact: 0.002504, 3.
func (p Pico) String() string {
	var b [24]byte
	return string(p.Append(b[:0]))
}

// Append appends what String gives.
func (p Pico) Append(b []byte) []byte {
	u := uint64(p)
	if p < 0 {
		b, u = append(b, '-'), -u
	}
	b = strconv.AppendUint(b, u/PerDollar, 10)
	if u %= PerDollar; u == 0 {
		return b
	}
	b = append(b, '.')
	for digit := uint64(PerDollar / 10); u > 0; digit /= 10 {
		b = append(b, byte('0'+u/digit))
		u %= digit
	}
	return b
}

// Decimal reads a number as JSON writes it, times 10^digits, rounded half up
// to a whole one. It refuses what is negative, no number, or above an int64.
//
// It works on the digits themselves: through a float64 prices would lose
// their last ones.
func Decimal(text string, digits int) (int64, bool) {
	var (
		n          uint64
		dropped    = -1 // the first digit that n has no room for
		some, frac bool
		shift      = digits
		i          int
	)
	for ; i < len(text); i++ {
		c := text[i]
		if c == '.' && !frac {
			if !some {
				return 0, false
			}
			frac, some = true, false
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		some = true
		switch {
		case dropped < 0 && n <= math.MaxInt64/10:
			n = n*10 + uint64(c-'0')
			if frac {
				shift--
			}
		case dropped < 0:
			dropped = int(c - '0')
			if !frac {
				shift++
			}
		case !frac:
			shift++
		}
	}
	if !some {
		return 0, false
	}
	if i < len(text) {
		if text[i] != 'e' && text[i] != 'E' {
			return 0, false
		}
		e, err := strconv.Atoi(text[i+1:])
		if err != nil || e < -9999 || e > 9999 {
			return 0, false
		}
		shift += e
	}
	if n == 0 {
		return 0, true
	}
	for ; shift > 0; shift-- {
		if dropped >= 0 || n > math.MaxInt64/10 {
			return 0, false
		}
		n *= 10
	}
	if shift < 0 {
		for ; shift < -1 && n > 0; shift++ {
			n /= 10
		}
		dropped = int(n % 10)
		n /= 10
	}
	if dropped >= 5 {
		n++
	}
	return int64(n), n <= math.MaxInt64
}
