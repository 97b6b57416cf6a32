package test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// honours is an API that runs once for each key in its header Idempotency-Key,
// and answers by then: the n-th call with the n-th step, which may say nothing.
// Once they are all used it says what it did.
func (b *bank) honours(then ...up.Step) {
	var mu sync.Mutex
	done := map[string]int{}
	calls := 0
	b.api.Choose(func(c *up.Call) up.Step {
		return func(x *up.Exchange) {
			mu.Lock()
			key := c.Get("Idempotency-Key")
			if key != "" && done[key] == 0 {
				done[key] = b.runs.Do()
			}
			n := calls
			calls++
			run := done[key]
			mu.Unlock()
			if n < len(then) {
				then[n](x)
				return
			}
			up.Status(201, receipt(run))(x)
		}
	})
}

// upstreamKeys are the keys that the API was sent from its n-th call on.
func (b *bank) upstreamKeys(n int) []string {
	var keys []string
	for _, c := range b.api.Calls()[n-1:] {
		keys = append(keys, strings.Join(c.Values("Idempotency-Key"), "|"))
	}
	return keys
}

// B074: an API that knows keys is asked again, each time with the same one,
// which is ours.
func TestB074OneUpstreamKeyForAllAttempts(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"upstream_key_header": "Idempotency-Key"}, harness.Keys())
	alice, bob := harness.Bearer(harness.K1), harness.Bearer(harness.K2)
	seen := map[string]bool{}
	for i, end := range []up.Step{
		up.Cut, up.RST, up.Fail(500, "broken"), up.Fail(502, "broken"), up.Fail(503, "busy"), up.Fail(504, "late"), up.Fail(408, "late"),
		up.Fail(409, "in_progress"), up.Seq(up.Head(201, "Content-Length: 100"), up.Bytes("half"), up.Cut),
	} {
		who := []string{alice, bob}[i%2]
		key := []string{"abc-client-key", "abc-client-key", "k2", "k2", "k3", "k3", "k4", "k4", "k5"}[i]
		before := b.api.N()
		b.honours(end)
		a := b.pay(key, order, who)
		wantReceipt(t, a, i+1, "executed", "")
		if got := a.Header.Get("Oncegate-Attempts"); got != "2" {
			t.Errorf("%s attempts", got)
		}
		wantReceipt(t, b.pay(key, order, who), i+1, "replayed", "key")
		wantCalls(t, b.api, before+2)
		b.wantRuns(i + 1)
		keys := b.upstreamKeys(before + 1)
		if keys[0] != keys[1] || keys[0] == "" || len(keys[0]) > 45 {
			t.Errorf("the API was sent the keys %q", keys)
		}
		if seen[keys[0]] {
			t.Errorf("the upstream key %q was another operation's", keys[0])
		}
		seen[keys[0]] = true
		if t.Failed() {
			t.Fatalf("that was case %d", i)
		}
	}
	for _, c := range b.api.Calls() {
		if strings.Contains(string(c.Head), "abc-client-key") {
			t.Errorf("the client's key went on: %s", c.Head)
		}
	}
}

// Where the attempts were not enough, the caller's repeat asks again.
func TestToolsUpstreamKeyAsksAgain(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"upstream_key_header": "Idempotency-Key", "upstream_key_window": "1h"})
	b.honours(up.Cut, up.Cut, up.Cut, up.Fail(500, "broken"))
	unknown.wantTool(t, b.pay("k", order))
	wantCalls(t, b.api, 3)
	wantReceipt(t, b.pay("k", order), 1, "executed", "")
	wantReceipt(t, b.pay("k", order), 1, "replayed", "key")
	b.wantRuns(1)
	keys := b.upstreamKeys(1)
	for _, k := range keys {
		if k != keys[0] || k == "" {
			t.Errorf("the API was sent the keys %q", keys)
			break
		}
	}
}

// An attempt that was given up waiting for goes on beside the next one, and its
// answer, when it comes, changes nothing.
func TestToolsUpstreamKeyAfterATimeOut(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"upstream_key_header": "Idempotency-Key", "policy": harness.Map{"timeouts": harness.Map{"first_byte": "1s"}}})
	gate := make(chan struct{})
	b.honours(up.Seq(up.Gate(gate), up.Status(201, receipt(99))))
	a := b.pay("k", order)
	wantReceipt(t, a, 1, "executed", "")
	if got := a.Header.Get("Oncegate-Attempts"); got == "1" {
		t.Error("it took one attempt: the case did not happen")
	}
	close(gate)
	idle(t, b.Gateway)
	wantReceipt(t, b.pay("k", order), 1, "replayed", "key")
	keys := b.upstreamKeys(1)
	if len(keys) < 2 || keys[0] != keys[1] {
		t.Errorf("the API was sent the keys %q", keys)
	}
	b.wantRuns(1)
}

// Nor is it shown where it is one that is relayed live.
func TestToolsUpstreamKeyLateEvents(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"upstream_key_header": "Idempotency-Key", "policy": harness.Map{"timeouts": harness.Map{"first_byte": "1s"}}})
	late, next, told := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.honours(up.Seq(up.Gate(late), up.SSE("late"), func(*up.Exchange) { close(told) }),
		up.Seq(up.Head(201, "Content-Type: application/json"), up.Gate(next), up.Pause(50*time.Millisecond), up.Bytes(receipt(1))))
	p := b.goPay("k", order)
	b.api.Call(2)
	close(late)
	<-told
	close(next)
	wantReceipt(t, p.Answer(), 1, "executed", "")
	wantReceipt(t, b.pay("k", order), 1, "replayed", "key")
	b.wantRuns(1)
}

// What a later attempt is refused with says nothing of the one that was lost.
func TestToolsUpstreamKeyDoubtStays(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"upstream_key_header": "Idempotency-Key", "not_executed": []any{503}})
	for i, status := range []int{401, 429, 503} {
		b.honours(up.Cut, up.Fail(status, "no"), up.Fail(status, "no"))
		key := []string{"k1", "k2", "k3"}[i]
		a := b.pay(key, order)
		unknown.wantTool(t, a)
		if !names(a, status) {
			t.Errorf("the API's %d is not named: %s", status, a.Body)
		}
		reused.wantTool(t, b.pay(key, `{"amount":11}`))
		b.honours() // it knows no key of before, and answers the next call
		b.wantRuns(i + 1)
	}
}

// Once the API has forgotten our key, asking would be running it again.
func TestToolsUpstreamKeyWindow(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"upstream_key_header": "Idempotency-Key", "upstream_key_window": "1ms", "policy": harness.Map{"attempts": 1}})
	b.honours(up.Cut)
	for range 3 {
		unknown.wantTool(t, b.pay("k", order))
	}
	wantCalls(t, b.api, 1)
	// Knowingly it is another operation, for the API too.
	wantShared(t, b.pay("k", order, "Oncegate-Retry-Unknown: 1"), "executed", "")
	wantCalls(t, b.api, 2)
}

// An API that knows no keys is sent none.
func TestToolsClientKeyNeverTravels(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	lines := []string{"X-Idempotency-Key: theirs", "Prefer: wait=5", "Oncegate-User: u1", "Oncegate-Timeout: 20s", "x-stainless-retry-count: 1", "X-Mine: 1", "User-Agent: agent/1"}
	wantReceipt(t, b.pay("client-key", order, lines...), 1, "executed", "")
	c := b.api.Call(1)
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key", "Prefer", "Oncegate-User", "Oncegate-Timeout", "X-Stainless-Retry-Count", "X-Forwarded-For"} {
		if got := c.Values(name); len(got) != 0 {
			t.Errorf("%s: %q went on", name, got)
		}
	}
	if strings.Contains(string(c.Head), "client-key") {
		t.Errorf("the client's key went on: %s", c.Head)
	}
	for name, want := range map[string]string{"X-Mine": "1", "User-Agent": "agent/1", "Content-Type": "application/json"} {
		if got := c.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
