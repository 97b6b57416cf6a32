package config

import (
	"strings"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/prices"
)

// PolicyOf is the retry policy of a provider: its own, and the configured one
// where that is silent.
func (c *Config) PolicyOf(p Provider) policy.Config { return c.over(p.Policy) }

// PolicyOfTool is that of a tool, likewise.
func (c *Config) PolicyOfTool(t Tool) policy.Config { return c.over(t.Policy) }

func (c *Config) over(own Policy) policy.Config { return own.policy().Or(c.Policy.policy()) }

func (p *Policy) policy() policy.Config {
	b := p.Breaker
	return policy.Config{
		Attempts:      p.Attempts,
		TotalAttempts: p.TotalAttempts,
		Backoff:       policy.Backoff(p.Backoff),
		RetryAfterCap: p.RetryAfterCap,
		Budget:        policy.Budget{Ratio: p.Budget.Ratio, Floor: p.Budget.Floor},
		Breaker: policy.Breaker{
			Switch:      policy.Switch(b.Enabled),
			Consecutive: b.Consecutive,
			LowTraffic:  policy.LowTraffic(b.LowTraffic),
			FailureRate: b.FailureRate,
			MinCalls:    b.MinCalls,
			Window:      b.Window,
			Cooldown:    b.Cooldown,
			CooldownCap: b.CooldownCap,
			Probes:      b.Probes,
		},
		Concurrency: policy.Concurrency(p.Concurrency),
		Timeouts:    policy.Timeouts(p.Timeouts),
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
