package test

import (
	"fmt"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// B084: five payments in flight at SIGTERM are made, recorded, and replayed by
// the next process.
func TestB084SIGTERMWithKeyedWrites(t *testing.T) {
	t.Parallel()
	const writes = 5
	b := openBank(t, nil, harness.Config{"server.shutdown_grace": "15s"})
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	var all []*harness.Pending
	for i := range writes {
		all = append(all, b.goPay(fmt.Sprint("k", i), order))
		b.api.Call(i + 1)
	}
	all[0].Leave() // and one of them for nobody
	b.Term()
	harness.Eventually(t, harness.Patience, "the drain begins", func() bool {
		a := b.Try("GET", "/readyz", "")
		return a.Err != nil || a.Status == 503
	})
	if a := b.Try("POST", pay, order, "Idempotency-Key: late"); a.Err == nil {
		problem{503, "draining", "true", "refused", "draining", ""}.wantTool(t, a)
	}
	for n := 1; n <= writes; n++ {
		if b.api.Call(n).Left(50 * time.Millisecond) {
			t.Errorf("call %d was dropped", n)
		}
	}
	close(gate)
	bodies := map[int]string{}
	for i, p := range all[1:] {
		a := p.Answer()
		wantShared(t, a, "executed", "")
		bodies[i+1] = a.Body
	}
	if code := b.Exit(harness.Patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
	b.Restart()
	for i := range writes {
		a := b.pay(fmt.Sprint("k", i), order)
		wantShared(t, a, "replayed", "key")
		if a.Status != 201 || i > 0 && a.Body != bodies[i] {
			t.Errorf("k%d: %d %s, before it was %s", i, a.Status, a.Body, bodies[i])
		}
	}
	b.wantRuns(writes)
	if billed := b.account("tool").Total.Attempts.Billed; billed != writes {
		t.Errorf("%d executions in the account, want %d", billed, writes)
	}
}

// What is not done at the end of the grace is unknown, and not run again.
func TestB084KeyedWriteBeyondTheGrace(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil, harness.Config{"server.shutdown_grace": "500ms"})
	b.api.Script(b.runsThen(up.Hang(time.Minute)), b.paid)
	p := b.goPay("k", order)
	b.api.Call(1)
	b.Term()
	unknown.wantTool(t, p.Answer())
	if code := b.Exit(harness.Patience); code != 0 && code != 1 {
		t.Errorf("exit status %d", code)
	}
	b.Restart()
	unknown.wantTool(t, b.pay("k", order))
	b.wantRuns(1)
}
