package prices

import (
	"math"
	"math/bits"
	"time"
)

// Cost is what one answer cost.
type Cost struct {
	// Pico is the price, where Why is Priced; else 0, and nothing is known.
	Pico Pico
	// Why says whether there is a price, and if not, why not.
	Why Why
	// Source says where the price comes from.
	Source Source
	// Rates are the unit prices it was made with, to be kept with it; nil
	// where it is unpriced or the upstream's own. They must not be changed, and
	// the same prices are the same pointer for as long as the Book is used.
	Rates *Rates
}

// Priced says whether the price is known. Free is priced: at 0.
func (c Cost) Priced() bool { return c.Why == Priced }

// Unpriced says that something was used, and that nobody knows its price. An
// answer of unknown usage is not that: nobody knows what was used.
func (c Cost) Unpriced() bool { return c.Why != Priced && c.Why != NoUsage }

// Why says why an answer has no price.
type Why uint8

const (
	NoUsage Why = iota // the upstream did not say what it used, or nothing that could be believed
	Priced             // it has a price, which may be 0
	NoPrice            // no price for this model at this upstream
	NoPart             // a price, but none for a part of what was used
	NoTier             // a service tier that the built-in table has no prices for
	TooMuch            // more than a Pico holds
)

// String is a word for logs and pages.
func (w Why) String() string {
	return [...]string{"no_usage", "priced", "no_price", "no_price_of_a_part", "service_tier", "too_much"}[w]
}

// Source says where a price comes from.
type Source uint8

const (
	Nowhere Source = iota
	Stated         // the upstream's own word
	Config         // the config's prices
	Table          // the built-in table
)

// String is a word for logs and pages.
func (s Source) String() string { return [...]string{"", "upstream", "config", "table"}[s] }

// Price is how one model's answers are priced at one upstream.
type Price struct {
	source Source
	free   bool    // whatever is used
	always []step  // without a condition, by the input they begin above
	when   []dated // later ones first
}

// Cost prices an answer that was given at a moment: the upstream's own word
// where it has one, else the sum of all parts at their rates, rounded half up
// to a pico-dollar, once. What is free is so though nobody counted. A nil p has
// no prices. It takes nothing from the heap.
func (p *Price) Cost(u *Usage, at time.Time) Cost {
	switch {
	case u.Stated:
		return Cost{Pico: u.Cost, Why: Priced, Source: Stated}
	case p != nil && p.free:
		return Cost{Why: Priced, Source: p.source, Rates: p.Rates(u.Input, at)}
	case !u.Known:
		return Cost{Why: NoUsage}
	case p == nil:
		return Cost{Why: NoPrice}
	case u.Tier != Standard && p.source == Table:
		return Cost{Why: NoTier}
	}
	r := p.Rates(u.Input, at)
	pico, why := r.cost(u, p.source == Table)
	if why != Priced {
		return Cost{Why: why}
	}
	return Cost{Pico: pico, Why: Priced, Source: p.source, Rates: r}
}

// cost sums up the parts. strict is for rates that are known to be those of
// text: audio without a rate of its own costs something else then.
func (r *Rates) cost(u *Usage, strict bool) (Pico, Why) {
	var s sum
	input := u.Input - u.Cached - u.CacheWrite5m - u.CacheWrite1h
	output := u.Output

	cached := u.Input != input
	switch {
	case strict && u.InputAudio > 0 && !r.InputAudio.Set(),
		strict && u.OutputAudio > 0 && !r.OutputAudio.Set(),
		u.CacheWrite1h > 0 && r.CacheWrite5m.Set() && !r.CacheWrite1h.Set(),
		// Nobody tells which of the cached tokens were audio or images.
		cached && u.InputAudio > 0 && r.InputAudio.Set(),
		cached && u.InputImage > 0 && r.InputImage.Set():
		return 0, NoPart
	}
	s.part(&input, u.InputAudio, r.InputAudio)
	s.part(&input, u.InputImage, r.InputImage)
	s.part(&output, u.OutputAudio, r.OutputAudio)
	s.part(&output, u.OutputImage, r.OutputImage)
	s.part(&output, u.Reasoning, r.Reasoning)

	s.add(input, r.Input)
	s.add(u.Cached, r.Cached.or(r.Input))
	s.add(u.CacheWrite5m, r.CacheWrite5m.or(r.Input))
	s.add(u.CacheWrite1h, r.CacheWrite1h.or(r.Input))
	s.add(output, r.Output)
	s.add(u.AudioMillis, r.AudioMillis)
	s.add(u.Searches, r.Searches)
	if r.Requests.Set() {
		s.add(1, r.Requests)
	}
	if s.missing {
		return 0, NoPart
	}
	return s.pico()
}

func (r Rate) or(other Rate) Rate {
	if r.Set() {
		return r
	}
	return other
}

// sum is a sum of counts times rates, in 128 bits: thirteen products of a
// count below 2^41 and a rate below 2^60 don't fill them.
type sum struct {
	hi, lo  uint64
	missing bool // something has no price
}

func (s *sum) add(n int64, r Rate) {
	if n == 0 {
		return
	}
	if n < 0 || !r.Set() {
		s.missing = true
		return
	}
	hi, lo := bits.Mul64(uint64(n), uint64(r.Million()))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi, _ = bits.Add64(s.hi, hi, carry)
}

// part adds a part that has a price of its own, and takes it out of its whole.
func (s *sum) part(whole *int64, n int64, r Rate) {
	if r.Set() {
		*whole -= n
		s.add(n, r)
	}
}

func (s *sum) pico() (Pico, Why) {
	const million = 1_000_000
	lo, carry := bits.Add64(s.lo, million/2, 0)
	hi := s.hi + carry
	if hi >= million {
		return 0, TooMuch
	}
	n, _ := bits.Div64(hi, lo, million)
	if n > math.MaxInt64 {
		return 0, TooMuch
	}
	return Pico(n), Priced
}
