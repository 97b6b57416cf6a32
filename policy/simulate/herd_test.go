package simulate

import (
	"testing"

	"oncegate/policy"
)

// Callers that fail together come back apart, where their waits are random.
func TestHerd(t *testing.T) {
	for _, p := range []Policy{immediate, fixed, exponential} {
		if _, _, most := herd(p, 1); most != herdSize {
			t.Errorf("%s: %d retries in 20 ms, not all %d", p.Name, most, herdSize)
		}
	}
	most := 0
	for seed := range uint64(seeds) {
		load, retries, n := herd(fullJitter, seed)
		offered := 0
		for _, b := range load {
			offered += b.Offered
		}
		if retries != 3*herdSize || offered != 4*herdSize {
			t.Errorf("seed %d: %d retries of %d attempts", seed, retries, offered)
		}
		most = max(most, n)
	}
	if most > 90 || most < 40 { // 40 is what a perfect spread of the first retries would make
		t.Errorf("%d retries in 20 ms at the worst", most)
	}
}

// Callers that had to wait for their turn are no retries.
func TestHerdAtAFullTarget(t *testing.T) {
	p := ours
	p.Config.Attempts = 1
	p.Config.Concurrency = policy.Concurrency{Start: 100, Min: 100, Max: 100}
	if _, retries, most := herd(p, 1); retries != 0 || most != 0 {
		t.Errorf("%d retries, %d in 20 ms", retries, most)
	}
}
