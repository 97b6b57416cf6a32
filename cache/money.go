package cache

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// picos is how many pico-dollars a dollar has.
const picos = 1_000_000_000_000

// Money is an amount in US dollars, exact to a pico-dollar. Dollars and picos
// are apart, so that no sum of int64 pico-dollars overflows (that would be at
// nine million dollars). It is never negative.
type Money struct {
	Dollars int64
	Picos   int64 // 0 to 10^12 - 1
}

// Picodollars makes money of an amount in pico-dollars. A negative one is none.
func Picodollars(n int64) Money {
	n = max(n, 0)
	return Money{n / picos, n % picos}
}

// Add adds an amount.
func (m *Money) Add(n Money) {
	m.Dollars += n.Dollars
	if m.Picos += n.Picos; m.Picos >= picos {
		m.Dollars++
		m.Picos -= picos
	}
}

// Cmp compares two amounts: -1, 0 or 1.
func (m Money) Cmp(n Money) int {
	return new(big.Int).Sub(m.big(), n.big()).Sign()
}

func (m Money) big() *big.Int {
	b := new(big.Int).Mul(big.NewInt(m.Dollars), big.NewInt(picos))
	return b.Add(b, big.NewInt(m.Picos))
}

// Float is the amount as a float64, for where nothing exact is wanted.
func (m Money) Float() float64 { return float64(m.Dollars) + float64(m.Picos)/picos }

// String is the amount as an exact decimal, without zeros at its end: 12.5, 0.000042, 0.
func (m Money) String() string {
	if m.Picos == 0 {
		return strconv.FormatInt(m.Dollars, 10)
	}
	digits := strconv.FormatInt(m.Picos+picos, 10)[1:]
	return strconv.FormatInt(m.Dollars, 10) + "." + strings.TrimRight(digits, "0")
}

// ParseMoney reads what String writes.
func ParseMoney(s string) (Money, error) {
	whole, part, dot := strings.Cut(s, ".")
	d, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || len(part) > 12 || dot && part == "" {
		return Money{}, errors.New("an amount is dollars with at most 12 decimals, like 0.000042")
	}
	if part == "" {
		return Money{Dollars: int64(d)}, nil
	}
	p, err := strconv.ParseUint(part+strings.Repeat("0", 12-len(part)), 10, 63)
	if err != nil {
		return Money{}, errors.New("an amount is dollars with at most 12 decimals, like 0.000042")
	}
	return Money{Dollars: int64(d), Picos: int64(p)}, nil
}

// MarshalText and UnmarshalText have JSON hold the amount as a decimal string.
func (m Money) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

func (m *Money) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMoney(string(b))
	return err
}

// Rat is the amount in dollars.
func (m Money) Rat() *big.Rat { return new(big.Rat).SetFrac(m.big(), big.NewInt(picos)) }

// RoundMoney makes money of dollars, to the nearest pico-dollar. What no Money
// can hold is the largest one.
func RoundMoney(dollars *big.Rat) Money {
	n := new(big.Rat).Mul(dollars, new(big.Rat).SetInt64(picos))
	n.Add(n, big.NewRat(1, 2))
	whole, part := new(big.Int).DivMod(new(big.Int).Div(n.Num(), n.Denom()), big.NewInt(picos), new(big.Int))
	switch {
	case whole.Sign() < 0:
		return Money{}
	case !whole.IsInt64():
		return Money{math.MaxInt64, picos - 1}
	}
	return Money{whole.Int64(), part.Int64()}
}
