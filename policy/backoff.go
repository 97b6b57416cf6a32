package policy

import "time"

// Ceiling bounds the wait before the n-th retry, n from 1:
// min(Cap, base*2^(n-1)).
func (b Backoff) Ceiling(n int, throttled bool) time.Duration {
	c := b.Base
	if throttled {
		c = b.ThrottleBase
	}
	for ; n > 1 && c < b.Cap; n-- {
		if c > b.Cap/2 { // doubling would pass the cap, or overflow
			return b.Cap
		}
		c *= 2
	}
	return min(c, b.Cap)
}

// Delay draws the wait before the n-th retry: uniform in [0, Ceiling), for
// rnd uniform in [0, 1). Full jitter makes the fewest calls of the known
// variants where many callers failed together.
func (b Backoff) Delay(n int, throttled bool, rnd float64) time.Duration {
	return uniform(b.Ceiling(n, throttled), rnd)
}

// spread is what is added to a wait of d that others were told too, so that
// they don't come back in step: uniform in [0, max(250 ms, d/10)).
func spread(d time.Duration, rnd float64) time.Duration {
	return uniform(spreadBelow(d), rnd)
}

func spreadBelow(d time.Duration) time.Duration { return max(250*time.Millisecond, d/10) }

func uniform(below time.Duration, rnd float64) time.Duration {
	if below <= 0 {
		return 0
	}
	// The product of a float just under 1 may round up to below itself.
	return min(time.Duration(rnd*float64(below)), below-1)
}
