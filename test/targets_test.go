package test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// shownTargets is what /api/targets says, as far as it is asked here.
type shownTargets struct {
	Targets []struct {
		Target  string
		Breaker struct {
			State, Rule string
			HalfOpenIn  float64 `json:"half_open_in"`
			Streak      int
		}
		Budget struct{ Remaining int }
		Limit  struct {
			Size, Queued int
			InFlight     int `json:"in_flight"`
		}
		Holds []struct {
			All    bool
			EndsIn float64 `json:"ends_in"`
			Status int
		}
		RateLimits []struct {
			Name             string
			Limit, Remaining int
			Reset            float64
		} `json:"rate_limits"`
	}
}

func targetsOf(t *testing.T, g *harness.Gateway) (all shownTargets) {
	t.Helper()
	res, err := http.Get("http://" + g.Admin + "/api/targets")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil || res.StatusCode != 200 {
		t.Fatalf("/api/targets: %d %v", res.StatusCode, err)
	}
	return all
}

// wantRetryIn says that an error asks its client to come back in 1 to 7 s.
func wantRetryIn(t *testing.T, a *harness.Answer) {
	t.Helper()
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || n < 1 || n > 7 {
		t.Errorf("Retry-After: %q", a.Header.Get("Retry-After"))
	}
}

func TestB045AttemptsDoNotMultiply(t *testing.T) {
	t.Parallel()
	t.Run("one call", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(503, "down"))
		g := harness.Start(t, u.URL())
		problem{503, "down", "false", "failed", "attempts_exhausted", ""}.want(t, g.Chat(cc()))
		wantCalls(t, u, 3)
	})
	t.Run("ten at once", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(503, "down"))
		g := harness.Start(t, u.URL())
		var all []*harness.Pending
		for range 10 {
			all = append(all, g.Go(harness.Chat, cc()))
		}
		for _, p := range all {
			if a := p.Answer(); a.Status != 503 || a.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%d %v", a.Status, a.Header)
			}
		}
		wantCalls(t, u, 3)
	})
	t.Run("two hundred calls", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(503, "down"))
		g := harness.Start(t, u.URL())
		reasons := map[string]int{}
		var all []*harness.Pending
		for i := range 200 {
			all = append(all, g.Go(harness.Chat, said(fmt.Sprint(i))))
			<-time.After(10 * time.Millisecond)
		}
		for _, p := range all {
			a := p.Answer()
			reasons[a.Header.Get("Oncegate-Reason")]++
			if a.Status != 503 {
				t.Fatalf("%d", a.Status)
			}
		}
		// Without a breaker they'd be 200 and what the floor of the budget
		// allows in two seconds; with it twenty failures and a few probes.
		if n := u.N(); n < 20 || n > 60 || reasons["circuit_open"] < 100 {
			t.Errorf("%d calls, %v", n, reasons)
		}
		if m := g.Metrics(); m.Sum("oncegate_breaker_state") == 0 || !m.Has("oncegate_retry_budget_remaining") {
			t.Errorf("breaker %v", m.Sum("oncegate_breaker_state"))
		}
		if log := g.Log(); strings.Count(log, `"change":"breaker_open"`) == 0 || !strings.Contains(log, `"rule":"consecutive"`) || !strings.Contains(log, `"cause":"503"`) {
			t.Errorf("no line tells of the breaker:\n%s", log)
		}
	})
}

// Case 26 on the wire, and what can be read of it.
func TestCase26BreakerOnTheWire(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	down := true
	lift := make(chan struct{})
	u.Choose(func(c *up.Call) up.Step {
		select {
		case <-lift:
			down = false
		default:
		}
		if down {
			return up.Fail(503, "down")
		}
		return up.OK("ok")
	})
	g := harness.Start(t, u.URL(), harness.Config{"policy.attempts": 1})
	for i := range 20 {
		problem{503, "down", "false", "failed", "attempts_exhausted", ""}.want(t, g.Chat(said(fmt.Sprint(i))))
	}
	opened := time.Now()
	a := g.Chat(said("21"))
	problem{503, "upstream_unavailable", "true", "refused", "circuit_open", ""}.want(t, a)
	wantRetryIn(t, a)
	if a.Header.Get("Oncegate-Attempts") != "0" {
		t.Errorf("attempts: %q", a.Header.Get("Oncegate-Attempts"))
	}
	wantCalls(t, u, 20)
	all := targetsOf(t, g)
	found := false
	for _, s := range all.Targets {
		if s.Target != "up/m1" {
			continue
		}
		found = true
		if s.Breaker.State != "open" || s.Breaker.Rule != "consecutive" || s.Breaker.HalfOpenIn <= 0 || s.Breaker.HalfOpenIn > 1.2 || s.Budget.Remaining != 20 || len(s.Holds) != 0 {
			t.Errorf("%+v", s)
		}
	}
	if !found {
		t.Errorf("no up/m1 in %+v", all)
	}
	close(lift)
	harness.Eventually(t, 10*time.Second, "a probe goes", func() bool { return g.Chat(said("22")).Status == 200 })
	if d := time.Since(opened); d < 700*time.Millisecond {
		t.Errorf("open for %v", d)
	}
	for i := range 5 {
		wantText(t, g.Chat(said(fmt.Sprint("after ", i))), "ok", "executed", "")
	}
	if got := g.Metrics().Sum("oncegate_breaker_state"); got != 0 {
		t.Errorf("breaker state %v", got)
	}
}

// B050 on the wire: fifty at once while it is half-open.
func TestB050HalfOpenOnTheWire(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	slow := make(chan struct{})
	u.Choose(func(c *up.Call) up.Step {
		if c.Field("messages.0.content").String() == "probe" {
			return up.Seq(up.Gate(slow), up.Fail(404, "no such thing"))
		}
		return up.Fail(503, "down")
	})
	g := harness.Start(t, u.URL(), harness.Config{
		"policy.attempts": 1, "policy.breaker.probes": 1, "policy.breaker.consecutive": 5, "policy.breaker.cooldown": "100ms", "policy.breaker.cooldown_cap": "100ms"})
	for i := range 5 {
		g.Chat(said(fmt.Sprint(i)))
	}
	g.Chat(said("refused"))
	wantCalls(t, u, 5)
	harness.Eventually(t, 5*time.Second, "half open", func() bool { return g.Metrics().Sum("oncegate_breaker_state") == 1 })
	var all []*harness.Pending
	for i := range 50 {
		all = append(all, g.Go(harness.Chat, said("probe", fmt.Sprintf(`"seed":%d`, i))))
	}
	u.Call(6)
	harness.Eventually(t, 10*time.Second, "all but the probe are refused", func() bool {
		return g.Metrics().Sum("oncegate_requests_total", `outcome="refused"`) == 50
	})
	close(slow)
	answered := map[int]int{}
	for _, p := range all {
		a := p.Answer()
		if answered[a.Status]++; a.Status == 503 {
			problem{503, "upstream_unavailable", "true", "refused", "circuit_open", ""}.want(t, a)
			wantRetryIn(t, a)
		}
	}
	if answered[503] != 49 || answered[404] != 1 {
		t.Errorf("%v", answered)
	}
	wantCalls(t, u, 6)
	harness.Eventually(t, 5*time.Second, "a 404 closes it", func() bool { return g.Metrics().Sum("oncegate_breaker_state") == 0 })
}

// Case 28 on the wire: the failure answers repeats for a moment; after it one
// attempt each, while the mark stays.
func TestCase28OneAttemptAfterTheMemo(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Fail(500, "down"))
	g := harness.Start(t, u.URL(), harness.Config{"policy.breaker.enabled": false})
	problem{500, "down", "false", "failed", "attempts_exhausted", ""}.want(t, g.Chat(cc()))
	wantCalls(t, u, 3)
	problem{500, "down", "false", "failed", "failure_memo", ""}.want(t, g.Chat(cc()))
	wantCalls(t, u, 3)
	var a *harness.Answer
	harness.Eventually(t, 10*time.Second, "the memo's end", func() bool {
		a = g.Chat(cc())
		return a.Header.Get("Oncegate-Reason") != "failure_memo"
	})
	problem{500, "down", "false", "failed", "attempts_exhausted", ""}.want(t, a)
	if a.Header.Get("Oncegate-Attempts") != "1" {
		t.Errorf("attempts: %q", a.Header.Get("Oncegate-Attempts"))
	}
	wantCalls(t, u, 4)
	g.Chat(said("another call"))
	wantCalls(t, u, 7)
}

// An input that is too long for one target goes to the one with a larger
// window, not to the smaller one before it.
func TestContextLengthFallsBack(t *testing.T) {
	t.Parallel()
	long := `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`
	a, b, c := up.New(t, up.Status(400, long)), up.New(t, up.OK("small")), up.New(t, up.OK("large"))
	g := harness.Start(t, a.URL(), harness.Config{
		"providers": []any{harness.Provider("a", a.URL()), harness.Provider("b", b.URL()), harness.Provider("c", c.URL())},
		"models": []any{harness.Map{"name": "*", "targets": []any{
			harness.Map{"provider": "a", "context": 8000},
			harness.Map{"provider": "b", "weight": 0, "context": 8000},
			harness.Map{"provider": "c", "weight": 0, "context": 128000},
		}}},
	})
	wantText(t, g.Chat(cc()), "large", "executed", "")
	wantCalls(t, b, 0)
}

// With the limit used up as many calls wait for their turn, and the others are
// told to come back.
func TestOverloadedTarget(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(func(*up.Call) up.Step { return up.Seq(up.Gate(gate), up.OK("ok")) })
	g := harness.Start(t, u.URL(), harness.Config{"policy.concurrency": harness.Map{"max": 2}})
	var all []*harness.Pending
	for i := range 10 {
		all = append(all, g.Go(harness.Chat, said(fmt.Sprint(i))))
	}
	harness.Eventually(t, 10*time.Second, "all but four are refused", func() bool {
		return g.Metrics().Sum("oncegate_requests_total", `outcome="refused"`) == 6
	})
	for _, s := range targetsOf(t, g).Targets {
		if s.Target == "up/m1" && (s.Limit.Size != 2 || s.Limit.InFlight != 2 || s.Limit.Queued != 2) {
			t.Errorf("%+v", s.Limit)
		}
	}
	close(gate)
	answered := map[int]int{}
	for _, p := range all {
		a := p.Answer()
		if answered[a.Status]++; a.Status == 503 {
			problem{503, "overloaded", "true", "refused", "overloaded", ""}.want(t, a)
			if a.Header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After: %q", a.Header.Get("Retry-After"))
			}
		}
	}
	if answered[200] != 4 || answered[503] != 6 {
		t.Errorf("%v", answered)
	}
	wantCalls(t, u, 4)
}

// Case 29 on the wire: what an answer says of rate limits is shown, and makes
// the next call wait a little, never as long as it says.
func TestCase29UsedUpOnASuccess(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Status(200, up.Completion("one"), "X-RateLimit-Limit-Tokens: 1000", "X-RateLimit-Remaining-Tokens: 0", "X-RateLimit-Reset-Tokens: 1.2s"),
		up.OK("two"))
	g := harness.Start(t, u.URL())
	wantText(t, g.Chat(said("1")), "one", "executed", "")
	all := targetsOf(t, g)
	shown := false
	for _, s := range all.Targets {
		for _, l := range s.RateLimits {
			shown = shown || s.Target == "up/m1" && l.Name == "tokens" && l.Limit == 1000 && l.Remaining == 0 && l.Reset == 1.2
		}
	}
	if !shown {
		t.Errorf("%+v", all)
	}
	wantText(t, g.Chat(said("2")), "two", "executed", "")
	if d := u.Call(2).At.Sub(u.Call(1).At); d < 1100*time.Millisecond || d > 5*time.Second {
		t.Errorf("the second call came after %v", d)
	}
}
