package test

import (
	"strings"
	"testing"
	"time"

	"oncegate/test/up"
)

// B068: the client gives up, the payment goes on, and whoever asks again gets
// its answer; after a restart too.
func TestB068ClientGivesUpAfterTheWrite(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	p := b.goPay("k", order)
	b.api.Call(1)
	p.Leave()
	if b.api.Call(1).Left(300 * time.Millisecond) {
		t.Error("the API was let go")
	}
	close(gate)
	settled(t, b.Gateway, 1)
	b.replays("k", order, 1)
	for _, stop := range []func(){b.Stop, b.Kill9} {
		stop()
		b.Restart()
		wantReceipt(t, b.pay("k", order), 1, "replayed", "key")
	}
	b.wantRuns(1)
}

// A client may come back while the payment is still being made.
func TestToolsClientComesBack(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	p := b.goPay("k", order)
	b.api.Call(1)
	p.Leave()
	again := b.goPay("k", order)
	following(t, b.Gateway, 1)
	close(gate)
	wantReceipt(t, again.Answer(), 1, "coalesced", "key")
	wantCalls(t, b.api, 1)
}

// An unkeyed payment runs to its end as well: nobody can say that it did not
// happen.
func TestToolsUnkeyedRunsToItsEnd(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	p := b.goPay("", order)
	b.api.Call(1)
	p.Leave()
	if b.api.Call(1).Left(300 * time.Millisecond) {
		t.Error("the API was let go")
	}
	close(gate)
	settled(t, b.Gateway, 1)
	idle(t, b.Gateway)
	if billed := b.account("tool").Total.Attempts.Billed; billed != 1 {
		t.Errorf("%d executions in the account, want 1", billed)
	}
}

// B067: an answer that can't be written to its client is recorded all the same.
func TestB067AnswerThatCantBeWritten(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	answer := strings.Repeat("x", 4<<20) // more than sockets buffer
	b.api.Script(b.runsThen(up.Status(200, answer, "Content-Type: text/plain")))
	raw := b.Dial()
	raw.Send(b.Request("POST", pay, order, "Idempotency-Key: k"))
	if head, err := raw.In.ReadString('\n'); err != nil || !strings.Contains(head, " 200 ") {
		t.Fatalf("%q %v", head, err)
	}
	_ = raw.SetLinger(0)
	_ = raw.Close()
	a := b.pay("k", order)
	if a.Status != 200 || a.Body != answer || a.Outcome() != "replayed" {
		t.Errorf("%d, %d bytes, %q", a.Status, len(a.Body), a.Outcome())
	}
	idle(t, b.Gateway)
	b.wantRuns(1)
}
