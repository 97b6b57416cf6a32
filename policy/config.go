package policy

import (
	"cmp"
	"time"
)

// Defaults gives every field of a Config its default.
func Defaults() Config {
	return Config{
		Attempts:      3,
		TotalAttempts: 5,
		Backoff: Backoff{
			Base:         500 * time.Millisecond,
			ThrottleBase: time.Second,
			Cap:          30 * time.Second,
		},
		RetryAfterCap: 60 * time.Second,
		Budget:        Budget{Ratio: 0.1, Floor: 10},
		Breaker: Breaker{
			Consecutive: 20,
			LowTraffic:  LowTraffic{Consecutive: 5, Over: 2 * time.Second},
			FailureRate: 0.5,
			MinCalls:    20,
			Window:      10 * time.Second,
			Cooldown:    time.Second,
			CooldownCap: 15 * time.Second,
			Probes:      3,
		},
		Concurrency: Concurrency{Start: 4096, Min: 16, Max: 4096},
		Timeouts: Timeouts{
			Connect:   5 * time.Second,
			FirstByte: 120 * time.Second,
			Idle:      5 * time.Minute,
			Total:     10 * time.Minute,
		},
	}
}

// Or gives c with the fields that it leaves zero taken from d: a provider's
// own policy over the configured one, and that over Defaults.
func (c Config) Or(d Config) Config {
	return Config{
		Attempts:      cmp.Or(c.Attempts, d.Attempts),
		TotalAttempts: cmp.Or(c.TotalAttempts, d.TotalAttempts),
		Backoff: Backoff{
			Base:         cmp.Or(c.Backoff.Base, d.Backoff.Base),
			ThrottleBase: cmp.Or(c.Backoff.ThrottleBase, d.Backoff.ThrottleBase),
			Cap:          cmp.Or(c.Backoff.Cap, d.Backoff.Cap),
		},
		RetryAfterCap: cmp.Or(c.RetryAfterCap, d.RetryAfterCap),
		Budget: Budget{
			Ratio:     cmp.Or(c.Budget.Ratio, d.Budget.Ratio),
			Floor:     cmp.Or(c.Budget.Floor, d.Budget.Floor),
			OneSecond: cmp.Or(c.Budget.OneSecond, d.Budget.OneSecond),
		},
		Breaker: Breaker{
			Switch:      cmp.Or(c.Breaker.Switch, d.Breaker.Switch),
			Consecutive: cmp.Or(c.Breaker.Consecutive, d.Breaker.Consecutive),
			LowTraffic: LowTraffic{
				Consecutive: cmp.Or(c.Breaker.LowTraffic.Consecutive, d.Breaker.LowTraffic.Consecutive),
				Over:        cmp.Or(c.Breaker.LowTraffic.Over, d.Breaker.LowTraffic.Over),
			},
			FailureRate: cmp.Or(c.Breaker.FailureRate, d.Breaker.FailureRate),
			MinCalls:    cmp.Or(c.Breaker.MinCalls, d.Breaker.MinCalls),
			Window:      cmp.Or(c.Breaker.Window, d.Breaker.Window),
			Cooldown:    cmp.Or(c.Breaker.Cooldown, d.Breaker.Cooldown),
			CooldownCap: cmp.Or(c.Breaker.CooldownCap, d.Breaker.CooldownCap),
			Probes:      cmp.Or(c.Breaker.Probes, d.Breaker.Probes),
		},
		Concurrency: Concurrency{
			Start: cmp.Or(c.Concurrency.Start, d.Concurrency.Start),
			Min:   cmp.Or(c.Concurrency.Min, d.Concurrency.Min),
			Max:   cmp.Or(c.Concurrency.Max, d.Concurrency.Max),
		},
		Timeouts: Timeouts{
			Connect:   cmp.Or(c.Timeouts.Connect, d.Timeouts.Connect),
			FirstByte: cmp.Or(c.Timeouts.FirstByte, d.Timeouts.FirstByte),
			Idle:      cmp.Or(c.Timeouts.Idle, d.Timeouts.Idle),
			Total:     cmp.Or(c.Timeouts.Total, d.Timeouts.Total),
		},
	}
}
