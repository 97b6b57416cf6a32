package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"oncegate/policy"
)

// Policy is a way to try again, under a name.
type Policy struct {
	Name   string
	Config policy.Config // a field that is zero means its default

	even bool // waits are their ceilings: no jitter
}

// rand is where calls under the policy take their randomness from.
func (p Policy) rand(seeded *rand.Rand) func() float64 {
	if p.even {
		return func() float64 { return math.Nextafter(1, 0) }
	}
	return seeded.Float64
}

const unbounded = 1 << 30

// bare is a policy with three retries, these waits, and nothing to bound them.
func bare(b policy.Backoff) policy.Config {
	return policy.Config{
		Attempts: 4, TotalAttempts: 4,
		Backoff:     b,
		Budget:      policy.Budget{Ratio: unbounded, Floor: unbounded},
		Breaker:     policy.Breaker{Switch: policy.Off},
		Concurrency: policy.Concurrency{Start: unbounded, Min: unbounded, Max: unbounded},
	}
}

// waits double from base up to most.
func waits(base, most time.Duration) policy.Backoff {
	return policy.Backoff{Base: base, ThrottleBase: base, Cap: most}
}

var (
	immediate   = Policy{Name: "3 immediate retries", Config: bare(waits(1, 1))}
	fixed       = Policy{Name: "3 retries, 1 s apart", Config: bare(waits(time.Second, time.Second)), even: true}
	exponential = Policy{Name: "3 retries, exponential", Config: bare(policy.Backoff{}), even: true}
	fullJitter  = Policy{Name: "3 retries, full jitter", Config: bare(policy.Backoff{})}
)

// What each part of the policy adds to full jitter.
var (
	tenSeconds = with("full jitter, budget over 10 s", fullJitter, func(c *policy.Config) { c.Budget = policy.Budget{OneSecond: policy.Off} })
	oneSecond  = with("full jitter, budget", fullJitter, func(c *policy.Config) { c.Budget = policy.Budget{} })
	byRate     = with("full jitter, budget, rate breaker", oneSecond, func(c *policy.Config) {
		c.Breaker = policy.Breaker{Consecutive: math.MaxInt, LowTraffic: policy.LowTraffic{Consecutive: math.MaxInt}}
	})
)

func with(name string, p Policy, change func(*policy.Config)) Policy {
	p.Name = name
	change(&p.Config)
	return p
}

// target is an upstream that nobody called yet.
func target(c policy.Config) *policy.Target {
	return &policy.Target{Name: "upstream", Config: c, Credentials: []*policy.Credential{new(policy.Credential)}}
}
