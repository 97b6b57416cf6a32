//go:build !race

// The race detector makes virtual time fifteen times as slow, and has nothing
// to find: one goroutine runs at a time. test/run.sh runs these without it.

package simulate

import (
	"math"
	"slices"
	"testing"
	"time"
)

// The policies that have nothing to bound them do to the upstream what another
// simulation of this model said they do, so the model bites; and each bound
// helps as much as it said, or more.
func TestOutageKnownPolicies(t *testing.T) {
	never := math.NaN()
	for _, c := range []struct {
		traffic   traffic
		policy    Policy
		peak      float64
		within    float64 // a share of it
		recovered float64
		off       float64 // from it, at most
	}{
		{reject, immediate, 4000, 0.01, 0, 0},
		{reject, fixed, 5719, 0.02, never, 0},
		{reject, exponential, 4999, 0.01, never, 0},
		{reject, fullJitter, 5847, 0.01, never, 0},
		{reject, tenSeconds, 1804, 0.11, 0, 0},
		{reject, oneSecond, 1203, 0.01, 0, 0},
		{reject, byRate, 1203, 0.01, 5, 4}, // it trips in the last half second; so much hangs on when
		{stall, immediate, 9953, 0.01, never, 0},
		{stall, fixed, 5985, 0.01, never, 0},
		{stall, exponential, 4986, 0.01, never, 0},
		{stall, fullJitter, 6410, 0.01, never, 0},
		{stall, tenSeconds, 1761, 0.01, 45, 6}, // 45 with ten buckets in the budget; an eleventh makes its bound hold for all ten seconds
		{stall, oneSecond, 1211, 0.02, 45, 6},
		{stall, byRate, 1201, 0.01, 6, 5},
	} {
		name := "reject, "
		if c.traffic.outage.stall {
			name = "stall, "
		}
		t.Run(name+c.policy.Name, func(t *testing.T) {
			t.Parallel()
			if math.IsNaN(c.recovered) {
				c.traffic.until = 60 * time.Second // as it is half a minute after, it stays
			}
			load := c.traffic.under(c.policy, 1)
			if got := float64(peak(load)); math.Abs(got-c.peak) > c.within*c.peak {
				t.Errorf("%v a second at the worst, not %v", got, c.peak)
			}
			got := c.traffic.recovered(load)
			if math.IsNaN(got) != math.IsNaN(c.recovered) || math.Abs(got-c.recovered) > c.off {
				t.Errorf("recovered after %v s, not %v", got, c.recovered)
			}
		})
	}
}

// An outage under this policy brings no more load than there was, and is over
// when it is over.
func TestOutageUnderOurs(t *testing.T) {
	for name, tt := range map[string]struct {
		traffic           traffic
		most, middle, max float64
	}{
		"reject": {reject, 1050, 4, 4},
		"stall":  {stall, 1050, 2, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.traffic.until = tt.traffic.outage.to + 15*time.Second
			var recovered []float64
			for seed := range uint64(seeds) {
				load := tt.traffic.under(ours, seed)
				if n := peak(load); float64(n) > tt.most {
					t.Errorf("seed %d: %d a second", seed, n)
				}
				r := tt.traffic.recovered(load)
				if math.IsNaN(r) {
					t.Fatalf("seed %d: did not recover", seed)
				}
				recovered = append(recovered, r)
			}
			slices.Sort(recovered)
			if middle := (recovered[seeds/2-1] + recovered[seeds/2]) / 2; middle > tt.middle || recovered[seeds-1] > tt.max {
				t.Errorf("recovered after %v s: median %v", recovered, middle)
			}
		})
	}
}

// The budget alone keeps its bounds in every ten seconds, and in every one.
func TestOutageWithinTheBudget(t *testing.T) {
	for name, tr := range map[string]traffic{"reject": reject, "stall": stall} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr.until = tr.outage.to + 5*time.Second
			for seed := range uint64(seeds) {
				load := tr.under(oneSecond, seed)
				if n := peak(load); n > 1220 {
					t.Errorf("seed %d: %d a second", seed, n)
				}
				load = load[:tr.outage.to/time.Second]
				for i := range load {
					var calls, attempts int
					for _, b := range load[max(0, i-9) : i+1] {
						calls += b.Calls
						attempts += b.Offered
					}
					if 10*attempts > 11*calls || 10*load[i].Offered > 12*load[i].Calls {
						t.Errorf("seed %d, second %d: %d attempts, of %d calls of ten seconds %d", seed, i, load[i].Offered, calls, attempts)
					}
				}
			}
		})
	}
}

func TestOutageOfTenMinutes(t *testing.T) {
	for name, tt := range map[string]struct {
		policy Policy
		most   float64
	}{"budget alone": {oneSecond, 1.102}, "ours": {ours, 0.01}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			load := long.under(tt.policy, 1)
			if a := long.amplified(load); a > tt.most {
				t.Errorf("%v attempts a call", a)
			}
			calls := 0
			for _, b := range load {
				calls += b.Calls
			}
			if calls != 600_000 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}
