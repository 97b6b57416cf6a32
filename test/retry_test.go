package test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

func TestB040SpentQuotaIsFinal(t *testing.T) {
	t.Parallel()
	body := `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Status(429, body, "Retry-After: 1"), up.OK("not reached"))
		g := harness.Start(t, u.URL())
		a := g.Chat(cc())
		problem{429, "insufficient_quota", "false", "failed", "quota_spent", ""}.want(t, a)
		if a.Body != body || a.Took > time.Second {
			t.Errorf("after %v: %s", a.Took, a.Body)
		}
		wantCalls(t, u, 1)
	})
	t.Run("ten at once", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t, up.Seq(up.Gate(gate), up.Status(429, body, "Retry-After: 1")))
		g := harness.Start(t, u.URL())
		all := []*harness.Pending{g.Go(harness.Chat, cc())}
		u.Call(1)
		for range 9 {
			all = append(all, g.Go(harness.Chat, cc()))
		}
		following(t, g, 9)
		close(gate)
		for _, p := range all {
			if a := p.Answer(); a.Status != 429 || a.Body != body {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		}
		wantCalls(t, u, 1)
	})
	t.Run("a rate limit is not", func(t *testing.T) {
		t.Parallel()
		// The words of a spent quota in the message alone are no sign of one.
		u := up.New(t, up.Status(429, `{"error":{"message":"insufficient_quota soon","type":"requests","code":"rate_limit_exceeded"}}`), up.OK("ok"))
		g := harness.Start(t, u.URL())
		wantText(t, g.Chat(cc()), "ok", "executed", "")
		wantCalls(t, u, 2)
	})
}

func TestB042AWaitThatCannotFit(t *testing.T) {
	t.Parallel()
	t.Run("told to wait longer than the client does", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(429, "rate_limit_exceeded", "Retry-After: 4"), up.OK("too late"))
		g := harness.Start(t, u.URL())
		a := g.Chat(cc(), "Oncegate-Timeout: 3s")
		problem{429, "rate_limit_exceeded", "false", "failed", "retry_after_exceeds_deadline", ""}.want(t, a)
		if a.Header.Get("Retry-After") != "4" || a.Took > time.Second {
			t.Errorf("after %v, Retry-After %q", a.Took, a.Header.Get("Retry-After"))
		}
		wantCalls(t, u, 1)
	})
	t.Run("503 for ever", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(503, "busy"))
		g := harness.Start(t, u.URL(), harness.Config{"policy.attempts": 50, "policy.total_attempts": 50, "policy.backoff.base": "500ms"})
		a := g.Chat(cc(), "Oncegate-Timeout: 3s")
		problem{503, "busy", "", "failed", "", ""}.want(t, a)
		if a.Took > 3200*time.Millisecond {
			t.Errorf("it took %v", a.Took)
		}
	})
}

func TestB043AttemptTimeoutIsNotTheCallers(t *testing.T) {
	t.Parallel()
	t.Run("then a good one", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Hang(20*time.Second), up.SSE(up.Chunk("ok"), up.Finish(), up.Done))
		g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.first_byte": "1s"})
		s := g.Open(harness.Chat, cc(stream), "Oncegate-Timeout: 10s")
		wantStream(t, s, up.Chunk("ok"), up.Finish(), up.Done)
		wantCalls(t, u, 2)
		if !u.Call(1).Left(time.Second) {
			t.Error("the attempt that timed out was not let go")
		}
		m := g.Metrics()
		if n := m.Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`); n != 1 {
			t.Errorf("%v attempts ambiguous, want 1", n)
		}
		if n := m.Sum("oncegate_retries_total", `cause="timeout"`); n != 1 {
			t.Errorf("%v retries for a time-out, want 1", n)
		}
	})
	t.Run("an answer that is not streamed has until the total", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Seq(up.Pause(1500*time.Millisecond), up.OK("slow")))
		g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.first_byte": "300ms"})
		wantText(t, g.Chat(cc()), "slow", "executed", "")
		wantCalls(t, u, 1)
	})
}

func TestB044ClientMistakesAreNotRetried(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL())
	for _, body := range []string{`{"model":`, `{"messages":[]}`, `{"model":["m1"],"messages":[]}`, `{"model":null}`, `{"model":""}`, ``, `[]`, `"m1"`, `7`, `{"model":"m1"}}`} {
		problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}.want(t, g.Chat(body))
	}
	wantUnseen(t, u, 0)
	for i, status := range []int{400, 404, 422} {
		u.Script(up.Fail(status, "context_length_exceeded"))
		problem{status, "context_length_exceeded", "false", "executed", "", ""}.want(t, g.Chat(said(fmt.Sprint(status))))
		wantCalls(t, u, i+1)
	}
	// What the gateway doesn't need to understand is the upstream's to judge.
	u.Script(up.Fail(400, "empty_array"))
	problem{400, "empty_array", "false", "executed", "", ""}.want(t, g.Chat(`{"model":"m1","messages":[]}`))
	wantCalls(t, u, 4)
}

func TestB046BodiesOfRetriedAnswersAreClosed(t *testing.T) {
	t.Parallel()
	const answered, refused = 150, 50
	big := `{"error":{"message":"` + strings.Repeat("x", 64<<10) + `","type":"requests","code":"rate_limit_exceeded"}}`
	u := up.New(t)
	var mu sync.Mutex
	seen := map[string]int{}
	u.Choose(func(c *up.Call) up.Step {
		mu.Lock()
		seen[string(c.Body)]++
		n := seen[string(c.Body)]
		mu.Unlock()
		if n < 3 || strings.Contains(string(c.Body), "never") {
			return up.Status(429, big)
		}
		return up.OK("ok")
	})
	g := harness.Start(t, u.URL(), harness.Config{"policy.backoff.throttle_base": "10ms", "policy.budget.floor": 1000})
	before := g.Metrics()["go_goroutines"]
	if before == 0 {
		t.Error("no go_goroutines among the metrics")
	}
	work := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range work {
				body, want := said(fmt.Sprint("request ", i)), 200
				if i >= answered {
					body, want = said(fmt.Sprint("never ", i)), 429
				}
				if a := g.Chat(body); a.Status != want {
					t.Errorf("request %d: %d", i, a.Status)
				}
			}
		})
	}
	for i := range answered + refused {
		work <- i
	}
	close(work)
	wg.Wait()
	wantCalls(t, u, 3*(answered+refused))
	if n := u.Accepts(); n >= 50 {
		t.Errorf("%d connections were made for %d calls of 8 at a time", n, u.N())
	}
	if n := u.Open(); n >= 50 {
		t.Errorf("%d connections are still open", n)
	}
	harness.Eventually(t, 5*time.Second, "the goroutines end", func() bool {
		// Each idle connection has two at the gateway's client side and one at its server side.
		idle := float64(2*u.Open() + 2*8)
		return g.Metrics()["go_goroutines"] <= before+20+idle
	})
}

func TestB047DeadKeepAliveConnection(t *testing.T) {
	t.Parallel()
	t.Run("closed as the next request is written", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.ThenDead(up.OK("one")), up.OK("two"))
		g := harness.Start(t, u.URL())
		wantText(t, g.Chat(said("first")), "one", "executed", "")
		wantText(t, g.Chat(said("second")), "two", "executed", "")
		wantCalls(t, u, 2)
		if n := u.Accepts(); n != 2 {
			t.Errorf("%d connections: the case is one that is used again and found dead", n)
		}
	})
	t.Run("closed after the request was read", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.OK("one"), up.Cut)
		g := harness.Start(t, u.URL())
		wantText(t, g.Chat(said("first")), "one", "executed", "")
		problem{502, "upstream_error", "false", "failed", "", ""}.want(t, g.Chat(said("second")))
		wantCalls(t, u, 3)
		m := g.Metrics()
		if n := m.Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`); n != 2 {
			t.Errorf("%v attempts ambiguous, want 2", n)
		}
		if n := m.Sum("oncegate_transport_replays_total"); n != 0 || !m.Has("oncegate_transport_replays_total") {
			t.Errorf("%v transport replays", n)
		}
	})
}

func TestB048LostAnswerAndTheBill(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Pause(200*time.Millisecond), up.RST), up.OK("good"))
	g := harness.Start(t, u.URL())
	a := g.Chat(cc())
	wantText(t, a, "good", "executed", "")
	if a.Header.Get("Oncegate-Attempts") != "2" {
		t.Errorf("Oncegate-Attempts: %q", a.Header.Get("Oncegate-Attempts"))
	}
	wantCalls(t, u, 2)
	m := g.Metrics()
	for billing, want := range map[string]float64{"billed": 1, "ambiguous": 1, "unbilled": 0} {
		if n := m.Sum("oncegate_upstream_attempts_total", fmt.Sprintf("billing=%q", billing)); n != want {
			t.Errorf("%v attempts %s, want %v", n, billing, want)
		}
	}
	if n := m.Sum("oncegate_saved_requests_total"); n != 0 {
		t.Errorf("a retry of ours counts as saved: %v", n)
	}
}

// A wait is never shorter than told, and all who go there keep it.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Fail(429, "rate_limit_exceeded", "Retry-After: 1", "Retry-After: 2"), up.OK("ok"))
	g := harness.Start(t, u.URL())
	first := g.Go(harness.Chat, said("first"))
	u.Call(1)
	settled(t, g, 1)
	other := g.Go(harness.Chat, said("other")) // waits out the hold of its target too
	for _, p := range []*harness.Pending{first, other} {
		wantText(t, p.Answer(), "ok", "executed", "")
	}
	for n := 2; n <= 3; n++ {
		if d := u.Call(n).At.Sub(u.Call(1).At); d < 2*time.Second || d > 4*time.Second {
			t.Errorf("call %d came after %v, told were 2 s", n, d)
		}
	}
	wantCalls(t, u, 3)
}

// Another credential that is free is tried at once; a dead one is put aside.
func TestCredentialsAreRotated(t *testing.T) {
	t.Parallel()
	provider := func(u *up.Server) harness.Config {
		p := harness.Provider("up", u.URL())
		p["api_keys"] = []any{"sk-one-aaaaaaaa", "sk-two-bbbbbbbb"}
		return harness.Config{"providers": []any{p}}
	}
	t.Run("429", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		var mu sync.Mutex
		first := ""
		u.Choose(func(c *up.Call) up.Step {
			mu.Lock()
			defer mu.Unlock()
			if first == "" {
				first = c.Get("Authorization")
			}
			if c.Get("Authorization") == first {
				return up.Fail(429, "rate_limit_exceeded", "Retry-After: 4")
			}
			return up.OK("from the other")
		})
		g := harness.Start(t, u.URL(), provider(u))
		a := g.Chat(said("x"))
		wantText(t, a, "from the other", "executed", "")
		if a.Took > time.Second || u.Call(1).Get("Authorization") == u.Call(2).Get("Authorization") {
			t.Errorf("after %v, with %q and %q", a.Took, u.Call(1).Get("Authorization"), u.Call(2).Get("Authorization"))
		}
		wantText(t, g.Chat(said("y")), "from the other", "executed", "") // the held one is not asked
		wantCalls(t, u, 3)
	})
	t.Run("401", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		u.Choose(func(c *up.Call) up.Step {
			if c.Get("Authorization") == "Bearer sk-one-aaaaaaaa" {
				return up.Fail(401, "invalid_api_key")
			}
			return up.OK("ok")
		})
		g := harness.Start(t, u.URL(), provider(u))
		for i := range 4 {
			wantText(t, g.Chat(said(fmt.Sprint(i))), "ok", "executed", "")
		}
		if n := u.N(); n > 5 {
			t.Errorf("%d calls: the dead key is asked again and again", n)
		}
	})
}

// A fallback of its own kind answers where the first target can't.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step  up.Step
		calls int // at the first
	}{
		"529":                {up.Fail(529, "overloaded_error"), 1},
		"503":                {up.Fail(503, "busy"), 2},
		"spent quota":        {up.Fail(429, "insufficient_quota"), 1},
		"a long Retry-After": {up.Fail(429, "rate_limit_exceeded", "Retry-After: 30"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := up.New(t, c.step), up.New(t, up.OK("second"))
			g := harness.Start(t, first.URL(), harness.Config{
				"providers": []any{harness.Provider("one", first.URL()), harness.Provider("two", second.URL())},
				"models":    []any{harness.Model("*", "one", "two")},
			})
			a := g.Chat(cc())
			wantText(t, a, "second", "executed", "")
			if got := a.Header.Get("Oncegate-Target"); got != "two/m1" {
				t.Errorf("Oncegate-Target: %q", got)
			}
			wantCalls(t, first, c.calls)
			wantCalls(t, second, 1)
		})
	}
	t.Run("not for the client's mistakes", func(t *testing.T) {
		t.Parallel()
		first, second := up.New(t, up.Fail(400, "context_length_exceeded")), up.New(t)
		g := harness.Start(t, first.URL(), harness.Config{
			"providers": []any{harness.Provider("one", first.URL()), harness.Provider("two", second.URL())},
			"models":    []any{harness.Model("*", "one", "two")},
		})
		problem{400, "context_length_exceeded", "false", "executed", "", ""}.want(t, g.Chat(cc()))
		wantCalls(t, first, 1)
		wantUnseen(t, second, 0)
	})
}

// The upstream's own word on retrying counts.
func TestUpstreamsShouldRetry(t *testing.T) {
	t.Parallel()
	t.Run("false", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(500, "final", "x-should-retry: false"))
		g := harness.Start(t, u.URL())
		problem{500, "final", "false", "failed", "", ""}.want(t, g.Chat(cc()))
		wantCalls(t, u, 1)
	})
	t.Run("true", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(409, "conflict", "x-should-retry: true"), up.OK("ok"))
		g := harness.Start(t, u.URL())
		wantText(t, g.Chat(cc()), "ok", "executed", "")
		wantCalls(t, u, 2)
	})
	t.Run("409 without it", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(409, "conflict"))
		g := harness.Start(t, u.URL())
		a := g.Chat(cc())
		if a.Status != 409 || a.Field("error.code").String() != "conflict" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		wantCalls(t, u, 1)
	})
}

// Every request one outcome, every attempt one billing.
func TestCounts(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		switch c.Field("messages.0.content").String() {
		case "bad":
			return up.Fail(400, "because")
		case "down":
			return up.Fail(500, "down")
		case "busy":
			return up.Fail(503, "busy")
		}
		if strings.HasSuffix(c.Target, "/embeddings") {
			return up.Status(200, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"m1","usage":{"prompt_tokens":1,"total_tokens":1}}`)
		}
		return up.OK("ok")
	})
	g := harness.Start(t, u.URL())
	g.Chat(said("fine"))                                   // executed, billed
	g.Chat(said("fine"), marks[0])                         // replayed
	g.Chat(said("bad"))                                    // executed, unbilled
	g.Chat(said("down"))                                   // failed, 3 ambiguous
	g.Chat(said("busy"))                                   // failed, 3 unbilled
	g.Chat(`{`)                                            // refused
	g.Chat(said("fine"), "Idempotency-Key: a b")           // refused
	g.Post("/v1/embeddings", `{"model":"m1","input":"x"}`) // executed, billed
	g.Get("/v1/models")
	g.Get("/nope")
	m := g.Metrics()
	chat := `operation="chat"`
	if !m.Has("oncegate_requests_total") {
		t.Fatal("no oncegate_requests_total")
	}
	if m.Sum("oncegate_requests_total", chat) == 0 {
		chat = `operation="chat_completions"`
	}
	for outcome, want := range map[string]float64{"executed": 2, "replayed": 1, "failed": 2, "refused": 2, "coalesced": 0, "bypassed": 0, "unknown": 0} {
		if got := m.Sum("oncegate_requests_total", chat, fmt.Sprintf("outcome=%q", outcome)); got != want {
			t.Errorf("%v requests %s, want %v", got, outcome, want)
		}
	}
	if got := m.Sum("oncegate_requests_total"); got != 8 {
		t.Errorf("%v requests counted, want 8: models and unknown paths are none", got)
	}
	if got, want := m.Sum("oncegate_upstream_attempts_total"), float64(u.N()); got != want {
		t.Errorf("%v attempts counted, the upstream saw %v", got, want)
	}
	for billing, want := range map[string]float64{"billed": 2, "unbilled": 4, "ambiguous": 3} {
		if got := m.Sum("oncegate_upstream_attempts_total", fmt.Sprintf("billing=%q", billing)); got != want {
			t.Errorf("%v attempts %s, want %v", got, billing, want)
		}
	}
	if got := m.Sum("oncegate_inflight"); got != 0 {
		t.Errorf("%v in flight", got)
	}
	// No key and no user is a label.
	res, err := http.Get("http://" + g.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, _ := io.ReadAll(res.Body)
	for _, word := range []string{"principal", "user=", "key="} {
		if strings.Contains(string(page), word) {
			t.Errorf("the metrics have %q", word)
		}
	}
}
