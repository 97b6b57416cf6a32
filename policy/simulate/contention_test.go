//go:build !race

package simulate

import (
	"math"
	"testing"
	"time"
)

// The same model in other hands makes the same figures.
func TestContention(t *testing.T) {
	const base, most = 10 * time.Millisecond, 2 * time.Second
	for _, c := range []struct {
		name                   string
		policy                 Policy
		runs                   uint64
		writes, within         float64
		milliseconds, slowness float64
	}{
		{"no wait", Policy{Config: bare(waits(1, 1))}, 10, 2426, 0.01, 2027, 0.05},
		{"exponential", Policy{Config: bare(waits(base, most)), even: true}, 100, 1846, 0.02, 63565, 0.05},
		{"full jitter", Policy{Config: bare(waits(base, most))}, 100, 796, 0.01, 4915, 0.05},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var writes int
			var took time.Duration
			for seed := range c.runs {
				_, n, d := contention(100, c.policy, seed)
				writes += n
				took += d
			}
			n, ms := float64(writes)/float64(c.runs), took.Seconds()*1000/float64(c.runs)
			if math.Abs(n/c.writes-1) > c.within || math.Abs(ms/c.milliseconds-1) > c.slowness {
				t.Errorf("%.1f writes in %.0f ms", n, ms)
			}
		})
	}
}
