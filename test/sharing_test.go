package test

import (
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// following waits until n requests follow a call of another.
func following(t *testing.T, g *harness.Gateway, n int) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "followers of a call in flight", func() bool {
		return g.Metrics().Sum("oncegate_followers") >= float64(n)
	})
}

// settled waits until n upstream attempts were booked.
func settled(t *testing.T, g *harness.Gateway, n int) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "attempts that are booked", func() bool {
		return g.Metrics().Sum("oncegate_upstream_attempts_total") >= float64(n)
	})
}

// echo answers each call with its number among all calls.
func echo(c *up.Call) up.Step { return up.OK(number(c.N)) }

// echoAfter is echo, once gate lets it.
func echoAfter(gate <-chan struct{}) func(*up.Call) up.Step {
	return func(c *up.Call) up.Step { return up.Seq(up.Gate(gate), echo(c)) }
}

func number(n int) string { return "answer " + string(rune('0'+n/10)) + string(rune('0'+n%10)) }

// wantText says which answer a request should have got, and how.
func wantText(t *testing.T, a *harness.Answer, text, outcome, reason string) {
	t.Helper()
	if a.Status != 200 || a.Text() != text || a.Outcome() != outcome || a.Reason() != reason {
		t.Errorf("got %d %q %q %q, want %q %q %q: %.300s", a.Status, a.Text(), a.Outcome(), a.Reason(), text, outcome, reason, a.Body)
	}
	shared := outcome == "coalesced" || outcome == "replayed"
	if got := a.Header.Get("Idempotent-Replayed"); shared && got != "true" || !shared && got != "" {
		t.Errorf("Idempotent-Replayed: %q on an answer that was %s", got, outcome)
	}
	if got := a.Header.Get("Age"); (outcome == "replayed") != (got != "") {
		t.Errorf("Age: %q on an answer that was %s", got, outcome)
	}
	if a.Header.Get("Oncegate-Key") == "" && outcome != "bypassed" {
		t.Error("no Oncegate-Key")
	}
}
