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
		Timeouts: Timeouts{
			Connect:   cmp.Or(c.Timeouts.Connect, d.Timeouts.Connect),
			FirstByte: cmp.Or(c.Timeouts.FirstByte, d.Timeouts.FirstByte),
			Idle:      cmp.Or(c.Timeouts.Idle, d.Timeouts.Idle),
			Total:     cmp.Or(c.Timeouts.Total, d.Timeouts.Total),
		},
	}
}
