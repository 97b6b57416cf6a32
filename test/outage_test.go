package test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
	"oncegate/cache/report"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// Clients that vanish cost no connections to a store that is slow. While it is
// away it is asked for once a second, and when it is back a steady load is soon
// protected again.
func TestStoreAwayB079ConnectionsDoNotChurn(t *testing.T) { // not beside others: it is about times and counts
	const clients, times, pool = 500, 2, 64 // a pool has 10 connections a core, 64 at least
	r := redistest.Start(t)
	way := redistest.NewProxy(t, r.Addr)
	way.Delay(30 * time.Millisecond)
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Plain, harness.Env("GOMAXPROCS=2"),
		harness.Config{"store.url": "redis://" + way.Addr})
	for round := range times {
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() {
				conn := g.Dial()
				conn.Send(g.Request("POST", harness.Chat, said(fmt.Sprint(round, " ", i))))
				<-time.After(5 * time.Millisecond)
				_ = conn.Close()
			})
		}
		wg.Wait()
	}
	harness.Eventually(t, 10*time.Second, "nothing is in flight", func() bool { return g.Metrics().Sum("oncegate_inflight") == 0 })
	made := way.Accepted()

	// steady asks every 10 ms for so long, and says how often it was bypassed.
	steady := func(length time.Duration) (bypassed int64) {
		var n atomic.Int64
		var wg sync.WaitGroup
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for begun := time.Now(); time.Since(begun) < length; <-tick.C {
			wg.Go(func() {
				ans := g.Chat(said(fmt.Sprint("steady ", time.Now().UnixNano())))
				if ans.Status != 200 {
					t.Errorf("%d %s", ans.Status, ans.Body)
				}
				if ans.Outcome() == "bypassed" {
					n.Add(1)
				}
			})
		}
		wg.Wait()
		return n.Load()
	}
	r.Kill()
	steady(time.Second)
	before := way.Accepted()
	steady(3 * time.Second)
	if n := way.Accepted() - before; n > 4 {
		t.Errorf("%d connections were asked for in 3 s without a store", n)
	}
	r.Restart()
	back, before, logged := time.Now(), way.Accepted(), len(g.Log())
	for steady(500*time.Millisecond) > 0 {
	}
	took := time.Since(back) - 500*time.Millisecond
	t.Logf("protected %v after the store was back", took)
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	// 3 pools where nothing else runs; on a busy machine some steps time out, and
	// take the pool with them. A connection for each client would be 16.
	if n := made + way.Accepted() - before; n > 6*pool {
		t.Errorf("%d connections were made, the pool is of %d", n, pool)
	}
	g.Stop()
	if strings.Contains(g.Log()[logged:], "connection pool timeout") {
		t.Error("steps waited in vain for a connection after the restart")
	}
}

// The answer to a claim is lost, and the call runs unprotected. Once it has
// ended, its next try is answered by it, on any node.
func TestStoreAwayBypassedCallSettles(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{"derived": nil, "explicit": {"Idempotency-Key: k"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			way := redistest.NewProxy(t, server.Addr)
			gate := make(chan struct{})
			u := up.New(t, up.OK("before"), up.Seq(up.Gate(gate), up.OK("once")))
			a := harness.Start(t, u.URL(), harness.Config{"store.url": "redis://" + way.Addr, "store.lease": "15s"})
			b := harness.Start(t, u.URL(), harness.Config{"store.url": "redis://" + server.Addr, "store.lease": "15s"})
			wantText(t, a.Chat(said("before")), "before", "executed", "")

			var lost atomic.Int64
			way.Lose(func(reply []byte) bool { // a claim's begins with a number, the first of five
				return strings.HasPrefix(string(reply), "*5\r\n:") && lost.CompareAndSwap(0, 1)
			})
			first := a.Go(harness.Chat, cc(), lines...)
			u.Call(2)
			if lost.Load() != 1 {
				t.Fatal("no claim was lost")
			}
			second := b.Go(harness.Chat, cc(), lines...)
			following(t, b, 1)
			close(gate)
			wantText(t, first.Answer(), "once", "bypassed", "store_away")
			if ans := second.Answer(); ans.Text() != "once" || ans.Outcome() != "coalesced" {
				t.Errorf("on the other node: %d %s %s", ans.Status, ans.Outcome(), ans.Body)
			}
			for _, g := range []*harness.Gateway{a, b} {
				if ans := g.Chat(cc(), append(lines, marks[0])...); ans.Text() != "once" || ans.Outcome() != "replayed" {
					t.Errorf("again: %d %s %s", ans.Status, ans.Outcome(), ans.Body)
				}
			}
			wantCalls(t, u, 2)
		})
	}
}

// Where it is configured so, nothing runs without the store: calls are refused
// and the node is not ready, until the store is back.
func TestStoreAwayRefused(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	r := redistest.Start(t)
	g := harness.Start(t, u.URL(), harness.Config{"store.url": r.URL(), "store.on_outage.completions": "refuse"})
	wantText(t, g.Chat(said("before")), "hello", "executed", "")
	if a := g.Get("/readyz?verbose"); a.Status != 200 || !strings.Contains(a.Body, "\ndurability: relaxed\n") {
		t.Errorf("%d %q", a.Status, a.Body)
	}
	if n := g.Metrics().Sum("oncegate_store_relaxed"); n != 1 {
		t.Errorf("oncegate_store_relaxed is %v", n)
	}
	r.Kill()
	for i := range 4 {
		problem{503, "store_unavailable", "true", "refused", "store_away", ""}.want(t, g.Chat(said(fmt.Sprint("away ", i))))
	}
	if a := g.Get("/readyz?verbose"); a.Status != 503 || !strings.Contains(a.Body, "store is away") {
		t.Errorf("%d %q", a.Status, a.Body)
	}
	if a := g.Get("/livez"); a.Status != 200 {
		t.Errorf("alive: %d", a.Status)
	}
	r.Restart()
	harness.Eventually(t, 8*time.Second, "it is ready again", func() bool { return g.Get("/readyz").Status == 200 })
	wantText(t, g.Chat(said("back")), "hello", "executed", "")
	wantCalls(t, u, 2)
}

// What a node that was killed had under way is booked by the node that takes
// over, under the provider where it went, and so are the attempts before it.
func TestNodesCrashIsBookedByItsTarget(t *testing.T) {
	t.Parallel()
	u, second := up.New(t, up.Fail(503, "down"), up.OK("in the end")), up.New(t, up.Hang(30*time.Second))
	config := harness.Config{
		"providers":       []any{harness.Provider("up", u.URL()), harness.Provider("second", second.URL())},
		"models":          []any{harness.Model("*", "up", "second")},
		"policy.attempts": 1,
	}
	_, a, b := nodes(t, u, config)
	a.Go(harness.Chat, cc())
	second.Call(1)
	a.Kill9()
	wantText(t, b.Chat(cc()), "in the end", "executed", "")
	if n := b.Metrics().Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`, `result="crash"`); n != 1 {
		t.Errorf("%v attempts ambiguous by a crash", n)
	}
	idle(t, b)
	harness.Eventually(t, 10*time.Second, "both are booked", func() bool { return account(t, b, "").Total.Attempts.Billed == 1 })
	r := account(t, b, "provider")
	for provider, want := range map[string]report.Attempts{"up": {Billed: 1, Unbilled: 1}, "second": {Ambiguous: 1}} {
		if got := group(r, provider).Attempts; got != want {
			t.Errorf("%s: %+v, want %+v", provider, got, want)
		}
	}
}

// A client has its answer before the store has heard of it. What it asks then
// on another node is a call of its own; what was asked there before shares the
// first.
func TestNodesAskedBeforeTheRecord(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := redistest.NewProxy(t, server.Addr)
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	a := harness.Start(t, u.URL(), harness.Config{"store.url": "redis://" + way.Addr, "store.lease": "15s"})
	b := harness.Start(t, u.URL(), harness.Config{"store.url": "redis://" + server.Addr, "store.lease": "15s"})
	c := harness.Start(t, u.URL(), harness.Config{"store.url": "redis://" + server.Addr, "store.lease": "15s"})
	first := a.Go(harness.Chat, cc())
	u.Call(1)
	way.Hang(true) // before the leader is told that somebody follows, too
	before := b.Go(harness.Chat, cc())
	following(t, b, 1)
	close(gate)
	wantText(t, first.Answer(), number(1), "executed", "")
	after := c.Go(harness.Chat, cc())
	following(t, c, 1)
	way.Hang(false)
	wantText(t, before.Answer(), number(1), "coalesced", "twin")
	wantText(t, after.Answer(), number(2), "executed", "")
	wantCalls(t, u, 2)
}
