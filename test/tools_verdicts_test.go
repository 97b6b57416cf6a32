package test

import (
	"fmt"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// Nothing happened, and the caller may mend it and use the same key (B066).
func TestB066RefusalsReleaseTheKey(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for i, status := range []int{401, 403, 407, 411, 413, 414, 415, 417, 421, 426, 428, 431, 501, 505, 511} {
		b.api.Script(up.Fail(status, "mend_it"), b.paid)
		key, before := fmt.Sprint("k", status), b.api.N()
		a := b.pay(key, order)
		if a.Status != status || a.Body != up.Problem("mend_it") || a.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d: %d %s %v", status, a.Status, a.Body, a.Header)
		}
		wantReceipt(t, b.pay(key, `{"mended":true}`), i+1, "executed", "")
		wantReceipt(t, b.pay(key, `{"mended":true}`), i+1, "replayed", "key")
		wantCalls(t, b.api, before+2)
		if t.Failed() {
			t.Fatalf("that was %d", status)
		}
	}
}

// Those who wait with the one that is refused are refused with it, not sent on
// their own.
func TestToolsFollowersOfARefusal(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), up.Fail(401, "who_are_you")), b.paid)
	all := []*harness.Pending{b.goPay("k", order)}
	b.api.Call(1)
	for range 5 {
		all = append(all, b.goPay("k", order))
	}
	following(t, b.Gateway, 5)
	close(gate)
	for _, p := range all {
		if a := p.Answer(); a.Status != 401 || a.Body != up.Problem("who_are_you") || a.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	wantCalls(t, b.api, 1)
	wantReceipt(t, b.pay("k", order), 1, "executed", "")
}

// Other refusals are the answer to this write: mended, it is another one.
func TestToolsRefusalsThatAreReplayed(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for _, status := range []int{400, 402, 404, 405, 406, 409, 410, 412, 416, 422, 423, 424, 451, 499} {
		key, before := fmt.Sprint("k", status), b.api.N()
		b.api.Script(up.Fail(status, "no"), b.paid)
		for _, outcome := range []string{"executed", "replayed"} {
			a := b.pay(key, order)
			if a.Status != status || a.Body != up.Problem("no") || a.Outcome() != outcome || a.Header.Get("X-Should-Retry") != "false" {
				t.Errorf("%s: %d %s %v", outcome, a.Status, a.Body, a.Header)
			}
			if got := a.Header.Get("Idempotent-Replayed"); (outcome == "replayed") != (got == "true") {
				t.Errorf("Idempotent-Replayed: %q", got)
			}
		}
		reused.wantTool(t, b.pay(key, `{"mended":true}`))
		wantCalls(t, b.api, before+1)
		if t.Failed() {
			t.Fatalf("that was %d", status)
		}
	}
	b.wantRuns(0)
}

// The API did nothing, and says so: tried again, and in the end passed on.
func TestToolsNotExecutedIsRetried(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"not_executed": []any{500, 503}})
	for i, status := range []int{425, 429, 500, 503} {
		key, before := fmt.Sprint("k", status), b.api.N()
		b.api.Script(up.Fail(status, "busy"), up.Fail(status, "busy"), b.paid)
		a := b.pay(key, order)
		wantReceipt(t, a, i*2+1, "executed", "")
		if got := a.Header.Get("Oncegate-Attempts"); got != "3" {
			t.Errorf("%d: %s attempts", status, got)
		}
		wantCalls(t, b.api, before+3)

		b.api.Script(up.Fail(status, "busy"), up.Fail(status, "busy"), up.Fail(status, "busy"), b.paid)
		key += "-never"
		a = b.pay(key, order)
		if a.Status != status || a.Body != up.Problem("busy") || a.Outcome() != "failed" || a.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d: %d %s %v", status, a.Status, a.Body, a.Header)
		}
		wantCalls(t, b.api, before+6)
		// Released: at once, and for another write too.
		wantReceipt(t, b.pay(key, `{"amount":11}`), i*2+2, "executed", "")
		if t.Failed() {
			t.Fatalf("that was %d", status)
		}
	}
	// What the list does not have is as doubtful as ever.
	b.api.Script(b.runsThen(up.Fail(502, "broken")))
	unknown.wantTool(t, b.pay("k502", order))
}

// While it waits to be tried again a write is nobody else's, however short the
// lease is.
func TestToolsWaitsLongerThanItsLease(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil, harness.Config{"store.lease": "1s"})
	b.api.Script(up.Fail(429, "slow_down", "Retry-After: 4"), b.paid)
	first := b.goPay("k", order)
	settled(t, b.Gateway, 1)
	begun := time.Now()
	harness.Eventually(t, harness.Patience, "the lease would be over", func() bool { return time.Since(begun) > 1500*time.Millisecond })
	second := b.goPay("k", order)
	following(t, b.Gateway, 1)
	wantReceipt(t, first.Answer(), 1, "executed", "")
	wantReceipt(t, second.Answer(), 1, "coalesced", "key")
	wantCalls(t, b.api, 2)
}

// The write ran, and its answer broke off: it is never run again.
func TestToolsResponseLost(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for i, step := range []up.Step{
		up.Seq(up.Head(201, "Content-Length: 100"), up.Bytes("half"), up.Cut),
		up.Seq(up.Head(201, "Content-Length: 100"), up.Cut),
		up.Seq(up.Head(200, "Content-Type: text/plain"), up.Bytes("half"), up.RST),
		up.Seq(up.Head(200, "Content-Type: text/plain"), up.Raw("zz\r\n"), up.Cut),
	} {
		b.api.Script(b.runsThen(step))
		for _, outcome := range []string{"executed", "replayed", "replayed"} {
			a := b.pay(fmt.Sprint("k", i), order)
			problem{502, "response_lost", "false", outcome, "", ""}.wantTool(t, a)
			if outcome == "executed" && a.Reason() != "response_lost" {
				t.Errorf("reason %q", a.Reason())
			}
		}
		b.wantRuns(i + 1)
	}
	wantCalls(t, b.api, 4)
}

// B067: a write that was too large for us leaves no lock behind, nor does one
// that was too large for its API.
func TestB067TooLargeLeavesNoLock(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil, harness.Config{"server.max_body": "1KiB"})
	large := fmt.Sprintf(`{"note":"%01024d"}`, 0)
	problem{413, "request_too_large", "false", "refused", "too_large", ""}.wantTool(t, b.pay("k", large))
	wantUnseen(t, b.api, 0)
	wantReceipt(t, b.pay("k", order), 1, "executed", "")
	if n := b.Metrics().Sum("oncegate_inflight"); n != 0 {
		t.Errorf("%v in flight", n)
	}
}
