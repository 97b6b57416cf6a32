package cache

import "encoding/binary"

// Bill is what an answer cost, frozen when it was given: every repeat that
// shares the answer saved as much.
type Bill struct {
	Model string // whose price it is
	Known bool   // the answer said what it used; else all numbers are zero

	Input, Output              int64 // tokens, their parts below included
	Cached                     int64 // of Input: read from the provider's own prompt cache
	CacheWrite5m, CacheWrite1h int64 // of Input: written to it
	Reasoning                  int64 // of Output

	Priced   bool   // its cost is known: free is, too
	Unpriced bool   // something was used that there is no price for
	Cost     int64  // pico-dollars
	Source   string // where the price is from: upstream, config or table
	Rates    string // the unit prices, as JSON: dollars a million units; empty where there are none
}

// bits of an encoded bill
const (
	billKnown = 1 << iota
	billPriced
	billUnpriced
)

func (b *Bill) numbers() [7]*int64 {
	return [...]*int64{&b.Input, &b.Output, &b.Cached, &b.CacheWrite5m, &b.CacheWrite1h, &b.Reasoning, &b.Cost}
}

func appendBill(to []byte, b *Bill) []byte {
	var bits byte
	if b.Known {
		bits |= billKnown
	}
	if b.Priced {
		bits |= billPriced
	}
	if b.Unpriced {
		bits |= billUnpriced
	}
	to = append(to, bits)
	for _, n := range b.numbers() {
		to = binary.AppendUvarint(to, uint64(max(*n, 0)))
	}
	return appendBytes(appendBytes(appendBytes(to, b.Model), b.Source), b.Rates)
}

func decodeBill(from []byte) *Bill {
	d := decoder{rest: from}
	bits := d.byte()
	b := &Bill{Known: bits&billKnown != 0, Priced: bits&billPriced != 0, Unpriced: bits&billUnpriced != 0}
	for _, n := range b.numbers() {
		*n = d.int64()
	}
	b.Model, b.Source, b.Rates = string(d.bytes()), string(d.bytes()), string(d.bytes())
	if d.bad || len(d.rest) > 0 || bits&^(billKnown|billPriced|billUnpriced) != 0 {
		return nil
	}
	return b
}
