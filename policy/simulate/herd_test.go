package simulate

import "testing"

// Callers that fail together come back apart, where their waits are random.
func TestHerd(t *testing.T) {
	for _, p := range []Policy{immediate, fixed, exponential} {
		if n := peak(herd(p, 1)[1:]); n != herdSize {
			t.Errorf("%s: %d retries in 20 ms, not all %d", p.Name, n, herdSize)
		}
	}
	most := 0
	for seed := range uint64(seeds) {
		load := herd(fullJitter, seed)
		retries := -herdSize
		for _, b := range load {
			retries += b.Offered
		}
		if retries != 3*herdSize {
			t.Errorf("seed %d: %d retries", seed, retries)
		}
		most = max(most, peak(load[1:]))
	}
	if most > 90 || most < 40 { // 40 is what a perfect spread of the first retries would make
		t.Errorf("%d retries in 20 ms at the worst", most)
	}
}
