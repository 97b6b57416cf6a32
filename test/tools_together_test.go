package test

import (
	"fmt"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// busy is the answer to a duplicate that waited as long as it may.
var busy = problem{409, "idempotency_in_flight", "true", "refused", "in_flight", ""}

// fifty asks fifty times at once for the n-th payment, and says how they were
// answered; while holds the API's answer back.
func (b *bank) fifty(key string, n int) (all []*harness.Pending, release func()) {
	b.t.Helper()
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	for range 50 {
		all = append(all, b.goPay(key, order))
	}
	b.api.Call(n)
	return all, func() { close(gate) }
}

// B063: fifty at once are one payment, again and again.
func TestB063FiftyAtOnce(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for n := 1; n <= rounds(t, 10); n++ {
		all, release := b.fifty(fmt.Sprint("round-", n), n)
		following(t, b.Gateway, 49)
		release()
		how := map[string]int{}
		for _, p := range all {
			a := p.Answer()
			how[a.Outcome()]++
			if a.Status != 201 || a.Body != receipt(n) {
				t.Fatalf("round %d: %d %s", n, a.Status, a.Body)
			}
		}
		if how["executed"] != 1 || how["coalesced"] != 49 {
			t.Fatalf("round %d: %v", n, how)
		}
		b.wantRuns(n)
		harness.Eventually(t, harness.Patience, "the last round's are gone", func() bool { return followers(b.Gateway) == 0 })
	}
}

// Who does not want to wait is told at once.
func TestToolsPreferNoWait(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	first := b.goPay("k", order, "Prefer: wait=0")
	b.api.Call(1)
	for range 49 {
		a := b.pay("k", order, "Prefer: wait=0")
		busy.wantTool(t, a)
		if a.Took > harness.Patience {
			t.Errorf("409 after %v", a.Took)
		}
	}
	close(gate)
	wantReceipt(t, first.Answer(), 1, "executed", "")
	wantReceipt(t, b.pay("k", order, "Prefer: wait=0"), 1, "replayed", "key")
	b.wantRuns(1)
}

// Nor does anybody wait longer than the tool's wait; nobody can make it longer.
func TestToolsWait(t *testing.T) {
	t.Parallel()
	const wait = 500 * time.Millisecond
	b := openBank(t, harness.Map{"wait": wait.String()})
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	first := b.goPay("k", order)
	b.api.Call(1)
	for _, lines := range [][]string{nil, {"Prefer: wait=20"}} {
		a := b.pay("k", order, lines...)
		busy.wantTool(t, a)
		if a.Took < wait-20*time.Millisecond || a.Took > 10*wait {
			t.Errorf("%v: 409 after %v, the tool's wait is %v", lines, a.Took, wait)
		}
	}
	close(gate)
	wantReceipt(t, first.Answer(), 1, "executed", "")
	b.wantRuns(1)
}

// B066: other keys are not held up.
func TestB066OtherKeysDoNotWait(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid), b.paid)
	slow := b.goPay("slow", order)
	b.api.Call(1)
	wantReceipt(t, b.pay("quick", order), 1, "executed", "")
	close(gate)
	wantReceipt(t, slow.Answer(), 2, "executed", "")
}

// A client's own deadline ends its waiting, not the payment.
func TestToolsClientDeadline(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	first := b.goPay("k", order)
	b.api.Call(1)
	late := problem{504, "upstream_timeout", "true", "failed", "deadline", ""}
	a := b.pay("k", order, "Oncegate-Timeout: 300ms")
	late.wantTool(t, a)
	if a.Took < 280*time.Millisecond || a.Took > harness.Patience {
		t.Errorf("504 after %v", a.Took)
	}
	own := b.goPay("own", order, "Oncegate-Timeout: 300ms") // it leads
	b.api.Call(2)
	late.wantTool(t, own.Answer())
	// One without a key can't be joined: another try would be another payment.
	alone := b.goPay("", order, "Oncegate-Timeout: 300ms")
	b.api.Call(3)
	problem{504, "upstream_timeout", "false", "failed", "deadline", ""}.wantTool(t, alone.Answer())
	if b.api.Call(1).Left(100*time.Millisecond) || b.api.Call(2).Left(100*time.Millisecond) {
		t.Error("the API was let go")
	}
	close(gate)
	first.Answer()
	for _, key := range []string{"k", "own"} {
		harness.Eventually(t, harness.Patience, "it is paid", func() bool {
			a = b.pay(key, order)
			return a.Outcome() == "replayed"
		})
		wantShared(t, a, "replayed", "key")
		if a.Status != 201 {
			t.Errorf("%s: %d %s", key, a.Status, a.Body)
		}
	}
	harness.Eventually(t, harness.Patience, "all three are paid", func() bool { return b.runs.N() == 3 })
}
