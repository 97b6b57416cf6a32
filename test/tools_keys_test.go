package test

import (
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// Bare or quoted, a key is the same key.
func TestToolsKeySpellings(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	long := strings.Repeat("k", 255)
	wantReceipt(t, b.pay(long, order), 1, "executed", "")
	wantReceipt(t, b.pay(long, order), 1, "replayed", "key")
	wantReceipt(t, b.pay(`"k"`, order), 2, "executed", "")
	for _, spelling := range []string{"k", `"k"`, `"k";a=1`} {
		wantReceipt(t, b.pay(spelling, order), 2, "replayed", "key")
	}
	wantReceipt(t, b.pay("K", order), 3, "executed", "")
	wantReceipt(t, b.pay("{k}", order), 4, "executed", "")
	b.wantRuns(4)
}

// For frameworks that can set no header, the key is in the body.
func TestToolsKeyFromTheBody(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"key": "required", "key_from": []any{"/idempotency_key", "/meta/call~1id"}})
	const one, two = `{"idempotency_key":"in-body","amount":10}`, `{"meta":{"call/id":"deeper"},"amount":10}`
	wantReceipt(t, b.pay("", one), 1, "executed", "")
	wantReceipt(t, b.pay("", one), 1, "replayed", "key")
	reused.wantTool(t, b.pay("", `{"idempotency_key":"in-body","amount":11}`))
	wantReceipt(t, b.pay("", two), 2, "executed", "")
	wantReceipt(t, b.pay("", two), 2, "replayed", "key")
	// The header comes first.
	wantReceipt(t, b.pay("header", one), 3, "executed", "")
	wantReceipt(t, b.pay("header", one), 3, "replayed", "key")
	// The API gets its body as it came.
	if got := string(b.api.Call(1).Body); got != one {
		t.Errorf("the API was sent %s", got)
	}
	b.wantRuns(3)
}

// Without a key a write is sent once, and retried only where nothing was sent.
func TestToolsUnkeyed(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"not_executed": []any{503}})
	b.api.Script(b.lost)
	a := b.pay("", order)
	problem{424, "idempotency_outcome_unknown", "false", "unknown", "", ""}.wantTool(t, a)
	if got := a.Header.Get("Oncegate-Attempts"); got != "1" {
		t.Errorf("%s attempts", got)
	}
	if !recordKey.MatchString(a.Header.Get("Oncegate-Key")) {
		t.Errorf("it can't be looked up: Oncegate-Key %q", a.Header.Get("Oncegate-Key"))
	}
	b.wantRuns(1)
	// Nor is it retried where the API says that it did nothing.
	for _, status := range []int{429, 503} {
		b.api.Script(up.Fail(status, "busy"), b.paid)
		if a := b.pay("", order); a.Status != status || a.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%d: %d %v", status, a.Status, a.Header)
		}
	}
	b.wantRuns(1)
	wantCalls(t, b.api, 3)
}

// An answer without protection is recorded nowhere, but for its account.
func TestToolsUnkeyedIsNeverShared(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	all := []*harness.Pending{b.goPay("", order), b.goPay("", order, "Oncegate-Retry: 1"), b.goPay("", order, "Oncegate-Dedupe: always")}
	b.api.Call(3)
	close(gate)
	for _, p := range all {
		if a := p.Answer(); a.Status != 201 || a.Outcome() != "executed" || a.Reason() != "unkeyed" {
			t.Errorf("%d %q %q", a.Status, a.Outcome(), a.Reason())
		}
	}
	b.wantRuns(3)
}
