//go:build !race

package simulate

import (
	"math"
	"testing"
)

// However many answers get lost on the way, each call is paid for once; where
// nobody remembers answers, each loss is.
func TestBilling(t *testing.T) {
	for _, r := range []repeat{marked, unmarked} {
		total, far := 0, 0
		for seed := range uint64(seeds) {
			load, b := r.ask(seed)
			if b.billed != billedCalls {
				t.Errorf("%d, seed %d: %d billed", r, seed, b.billed)
			}
			if off := math.Abs(float64(b.avoided) - 5000); off > 276 { // four standard deviations
				t.Errorf("%d, seed %d: %d duplicates avoided", r, seed, b.avoided)
			} else if off > 150 {
				far++
			}
			total += b.avoided
			offered := 0
			for _, bin := range load {
				offered += bin.Offered
			}
			if offered != b.billed {
				t.Errorf("%d, seed %d: %d attempts", r, seed, offered)
			}
		}
		if mean := total / seeds; mean < 4950 || mean > 5050 || far > 3 {
			t.Errorf("%d: %d duplicates avoided, on average; %d seeds far from it", r, mean, far)
		}
	}
	for seed := range uint64(3) {
		if _, b := unshared.ask(seed); b.billed < 105_000 || b.billed > 105_500 || b.avoided != 0 {
			t.Errorf("unshared, seed %d: %+v", seed, b)
		}
	}
}
