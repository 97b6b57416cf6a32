package test

import (
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// B071: a model that plans anew mints a new call id and other words; the
// fields that mean the operation stay.
func TestB071ReplannedCall(t *testing.T) {
	t.Parallel()
	api := up.New(t)
	b := openBankAt(t, api, nil, harness.Keys(), harness.Config{"tools": []any{
		harness.Tool("refund", api.URL(), harness.Map{"key_fields": []any{"/order", "/amount"}, "window": "1h"}),
		harness.Tool("each", api.URL(), nil),
	}})
	const path = "/tools/refund/refunds"
	alice, bob := harness.Bearer(harness.K1), harness.Bearer(harness.K2)
	first := `{"order":7,"amount":5,"tool_call_id":"call_1","note":"as you asked"}`
	again := `{"note":"refunding order 7","tool_call_id":"call_2","amount":5,"order":7}`
	wantReceipt(t, b.Post(path, first, alice, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), 1, "executed", "")
	wantReceipt(t, b.Post(path, again, alice), 1, "replayed", "key")
	wantReceipt(t, b.Post(path, again, bob), 2, "executed", "")
	wantReceipt(t, b.Post(path, `{"order":7,"amount":6}`, alice), 3, "executed", "")
	wantReceipt(t, b.Post(path, `{"order":9007199254740993,"amount":5}`, alice), 4, "executed", "")
	wantReceipt(t, b.Post(path, `{"order":9007199254740992,"amount":5}`, alice), 5, "executed", "")
	wantReceipt(t, b.Post(path, `{"order":"7","amount":5}`, alice), 6, "executed", "")
	// A key of the client's own says more than the fields do.
	wantReceipt(t, b.Post(path, first, alice, "Idempotency-Key: k"), 7, "executed", "")
	reused.wantTool(t, b.Post(path, again, alice, "Idempotency-Key: k"))
	// Where every call is new, every call is new.
	wantReceipt(t, b.Post("/tools/each/refunds", first, alice), 8, "executed", "unkeyed")
	wantReceipt(t, b.Post("/tools/each/refunds", first, alice), 9, "executed", "unkeyed")
	wantCalls(t, api, 9)
}

// The window begins when the record settles; a doubt outlasts it.
func TestToolsKeyFieldsWindow(t *testing.T) {
	t.Parallel()
	const window = time.Second
	b := openBank(t, harness.Map{"key_fields": []any{"/order"}, "window": window.String()})
	gate := make(chan struct{})
	b.api.Choose(func(c *up.Call) up.Step {
		switch c.Field("order").Int() {
		case 1:
			return b.lost
		case 2:
			return up.Seq(up.Gate(gate), b.paid)
		}
		return b.paid
	})
	unknown.wantTool(t, b.pay("", `{"order":1}`))
	first := b.goPay("", `{"order":2}`)
	b.api.Call(2)
	begun := time.Now()
	harness.Eventually(t, harness.Patience, "longer than the window", func() bool { return time.Since(begun) > window+200*time.Millisecond })
	follower := b.goPay("", `{"order":2,"note":"again"}`)
	following(t, b.Gateway, 1)
	settled := time.Now()
	close(gate)
	wantReceipt(t, first.Answer(), 2, "executed", "")
	wantReceipt(t, follower.Answer(), 2, "coalesced", "key")
	var a *harness.Answer
	harness.Eventually(t, harness.Patience, "the window ends", func() bool {
		a = b.pay("", `{"order":2}`)
		return a.Outcome() != "replayed"
	})
	wantReceipt(t, a, 3, "executed", "")
	if d := time.Since(settled); d < window {
		t.Errorf("the window was over after %v", d)
	}
	unknown.wantTool(t, b.pay("", `{"order":1,"note":"again"}`))
	b.wantRuns(3)
}
