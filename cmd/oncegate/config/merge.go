package config

import (
	"cmp"
	"strings"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/prices"
)

// PolicyOf is the retry policy of a provider: its own, and the configured one
// where that is silent.
func (c *Config) PolicyOf(p Provider) policy.Config {
	own, all := p.Policy, c.Policy
	return policy.Config{
		Attempts:      cmp.Or(own.Attempts, all.Attempts),
		TotalAttempts: cmp.Or(own.TotalAttempts, all.TotalAttempts),
		Backoff: policy.Backoff{
			Base:         cmp.Or(own.Backoff.Base, all.Backoff.Base),
			ThrottleBase: cmp.Or(own.Backoff.ThrottleBase, all.Backoff.ThrottleBase),
			Cap:          cmp.Or(own.Backoff.Cap, all.Backoff.Cap),
		},
		RetryAfterCap: cmp.Or(own.RetryAfterCap, all.RetryAfterCap),
		Timeouts: policy.Timeouts{
			Connect:   cmp.Or(own.Timeouts.Connect, all.Timeouts.Connect),
			FirstByte: cmp.Or(own.Timeouts.FirstByte, all.Timeouts.FirstByte),
			Idle:      cmp.Or(own.Timeouts.Idle, all.Timeouts.Idle),
			Total:     cmp.Or(own.Timeouts.Total, all.Timeouts.Total),
		},
	}
}

// Book is the configured prices over the built-in table.
func (c *Config) Book() *prices.Book {
	own := make(map[string]prices.Own, len(c.Prices))
	for name, p := range c.Prices {
		own[name] = prices.Own{Input: p.Input, Output: p.Output, Cached: p.CachedInput, CacheWrite5m: p.CacheWrite5m, CacheWrite1h: p.CacheWrite1h}
	}
	return prices.NewBook(own)
}

// Directory is where the local store keeps its files; empty for another store.
func (s Store) Directory() string {
	dir, _ := strings.CutPrefix(s.URL, "local:")
	if dir == s.URL {
		return ""
	}
	return dir
}

// ModeOf is a checked mode; nil: the text is empty, and another one counts.
func ModeOf(text string) *cache.Mode {
	if m, ok := cache.ParseMode(text); ok {
		return &m
	}
	return nil
}
