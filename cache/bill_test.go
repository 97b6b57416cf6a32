package cache

import (
	"bytes"
	"math"
	"reflect"
	"testing"
)

func bills() []*Bill {
	return []*Bill{
		{},
		{Model: "vendor/unknown-x", Known: true, Input: 1_000_000, Unpriced: true},
		{Model: "free", Known: true, Input: 5, Output: 7, Priced: true, Source: "config"},
		{
			Model: "gpt-4.1", Known: true, Input: 2000, Output: 300, Cached: 1900, CacheWrite5m: 3, CacheWrite1h: 4, Reasoning: 5,
			Priced: true, Cost: 890_000_000, Source: "table", Rates: `{"input":2}`,
		},
		{Known: true, Input: math.MaxInt64, Output: math.MaxInt64, Cost: math.MaxInt64},
	}
}

func TestBillRoundTrip(t *testing.T) {
	for _, b := range bills() {
		frames := []Frame{{Kind: HeadFrame, Head: &Head{Status: 200}}, {Kind: BillFrame, Bill: b}}
		got, err := DecodeFrames(EncodeFrames(frames))
		if err != nil || !reflect.DeepEqual(got, frames) {
			t.Errorf("%+v became %+v, %v", b, got, err)
		}
		whole := appendBill(nil, b)
		for n := range whole {
			if decodeBill(whole[:n]) != nil {
				t.Errorf("cut at %d of %d it is a bill", n, len(whole))
			}
		}
		if decodeBill(append(bytes.Clone(whole), 0)) != nil {
			t.Error("with a byte behind it is a bill")
		}
		later := bytes.Clone(whole)
		later[0] |= 1 << 6
		if decodeBill(later) != nil {
			t.Error("with a bit that nobody knows it is a bill")
		}
	}
	negative := decodeBill(appendBill(nil, &Bill{Known: true, Input: -5, Cost: -1, Output: 3}))
	if negative == nil || negative.Input != 0 || negative.Cost != 0 || negative.Output != 3 {
		t.Errorf("a bill with negative numbers became %+v", negative)
	}
	if huge := append([]byte{billKnown}, bytes.Repeat([]byte{0xff}, 9)...); decodeBill(append(huge, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)) != nil {
		t.Error("a number beyond an int64 is a bill")
	}
}

func FuzzDecodeBill(f *testing.F) {
	for _, b := range bills() {
		f.Add(appendBill(nil, b))
	}
	f.Fuzz(func(t *testing.T, from []byte) {
		b := decodeBill(from)
		if b == nil {
			return
		}
		for _, n := range b.numbers() {
			if *n < 0 {
				t.Fatalf("%+v has a negative number", b)
			}
		}
		if again := decodeBill(appendBill(nil, b)); !reflect.DeepEqual(again, b) {
			t.Fatalf("%+v became %+v", b, again)
		}
	})
}
