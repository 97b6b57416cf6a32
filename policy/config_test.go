package policy

import (
	"testing"
	"time"
)

func TestConfigOr(t *testing.T) {
	if got := (Config{}).Or(Defaults()); got != Defaults() {
		t.Errorf("nothing set: %+v", got)
	}
	own := Config{
		Attempts: 1, TotalAttempts: 2,
		Backoff:       Backoff{Base: 3, ThrottleBase: 4, Cap: 5},
		RetryAfterCap: 6,
		Budget:        Budget{Ratio: 11, Floor: 12, OneSecond: Off},
		Breaker: Breaker{
			Switch: Off, Consecutive: 13, LowTraffic: LowTraffic{Consecutive: 14, Over: 15}, FailureRate: 16,
			MinCalls: 17, Window: 18, Cooldown: 19, CooldownCap: 20, Probes: 21,
		},
		Concurrency: Concurrency{Start: 22, Min: 23, Max: 24},
		Timeouts:    Timeouts{Connect: 7, FirstByte: 8, Idle: 9, Total: 10},
	}
	if got := own.Or(Defaults()); got != own {
		t.Errorf("all set: %+v", got)
	}
	want := Defaults()
	want.Backoff.Base = time.Millisecond
	if got := (Config{Backoff: Backoff{Base: time.Millisecond}}).Or(Defaults()); got != want {
		t.Errorf("one set: %+v", got)
	}
}
