package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// B069: what may have happened is told so, remembered, and never run again.
func TestB069AmbiguousOutcomeIsRemembered(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"policy": harness.Map{"timeouts": harness.Map{"first_byte": "2s", "idle": "2s"}}})
	gate := make(chan struct{})
	defer close(gate)
	type ending struct {
		name   string
		step   up.Step
		status int // the API's own; 0: there was none
	}
	endings := []ending{
		{"closed", up.Cut, 0}, {"reset", up.RST, 0}, {"hung", up.Gate(gate), 0}, {"not HTTP", up.Seq(up.Raw("what?\r\n\r\n"), up.Cut), 0},
		{"half a head", up.Seq(up.Raw("HTTP/1.1 201 Crea"), up.Cut), 0}, {"100 only", up.Seq(up.Raw("HTTP/1.1 100 Continue\r\n\r\n"), up.Cut), 0},
		{"early hints only", up.Seq(up.Raw("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), up.RST), 0},
		{"a switch of protocols", up.Seq(up.Raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), up.Gate(gate)), 0},
		{"a broken 500", up.Seq(up.Head(500, "Content-Length: 100"), up.Bytes("half"), up.Cut), 500},
	}
	for _, status := range []int{408, 500, 502, 503, 504, 507, 520, 524, 529} {
		endings = append(endings, ending{fmt.Sprint(status), up.Fail(status, "broken"), status})
	}
	endings = append(endings, ending{"a page", up.Status(502, "<html>bad gateway</html>", "Content-Type: text/html"), 502},
		ending{"told when", up.Fail(503, "busy", "Retry-After: 1", "X-Should-Retry: true"), 503})
	for i, e := range endings {
		key := fmt.Sprint("k", i)
		b.api.Script(b.runsThen(e.step))
		for range 4 {
			a := b.pay(key, order)
			unknown.wantTool(t, a)
			if !names(a, a.Header.Get("Oncegate-Key")) || e.status != 0 && !names(a, e.status) {
				t.Errorf("the body lacks the record or the API's status %d: %s", e.status, a.Body)
			}
			if a.Header.Get("Retry-After") != "" {
				t.Errorf("Retry-After: %q on what should not be retried", a.Header.Get("Retry-After"))
			}
		}
		b.wantRuns(i + 1)
		wantCalls(t, b.api, i+1)
		// Another write under the key is still another write.
		reused.wantTool(t, b.pay(key, `{"amount":11}`))
		if t.Failed() {
			t.Fatalf("that was %q", e.name)
		}
	}
	if got := b.Metrics().Sum("oncegate_unknown_outcomes", `tool="pay"`); got != float64(len(endings)) {
		t.Errorf("%v unknown outcomes, want %d", got, len(endings))
	}
}

// A doubt outlives the process.
func TestToolsUnknownAfterARestart(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(b.lost)
	first := b.pay("k", order)
	unknown.wantTool(t, first)
	for _, stop := range []func(){b.Kill9, b.Stop} {
		stop()
		b.Restart()
		again := b.pay("k", order)
		unknown.wantTool(t, again)
		if one, two := first.Header.Get("Oncegate-Key"), again.Header.Get("Oncegate-Key"); one != two {
			t.Errorf("two records: %s and %s", one, two)
		}
	}
	b.wantRuns(1)
}

// A time-out ends the caller's waiting, not the call: its late answer settles
// the record.
func TestToolsLateAnswer(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	for _, key := range []string{"k", ""} {
		t.Run("key "+key, func(t *testing.T) {
			t.Parallel()
			b := openBank(t, harness.Map{"policy": harness.Map{"timeouts": harness.Map{"first_byte": patience.String()}}})
			gate := make(chan struct{})
			b.api.Script(up.Seq(up.Gate(gate), b.paid))
			a := b.pay(key, order)
			problem{424, "idempotency_outcome_unknown", "false", "unknown", "", ""}.wantTool(t, a)
			if a.Took < patience-50*time.Millisecond || a.Took > 10*patience {
				t.Errorf("424 after %v, the time-out is %v", a.Took, patience)
			}
			if key != "" {
				for range 3 {
					again := b.pay(key, order)
					unknown.wantTool(t, again)
					if again.Took > patience-50*time.Millisecond {
						t.Errorf("it was told again after %v", again.Took)
					}
				}
			}
			if b.api.Call(1).Left(200 * time.Millisecond) {
				t.Error("the API was let go")
			}
			close(gate)
			if key != "" {
				b.replays(key, order, 1)
			}
			harness.Eventually(t, harness.Patience, "no doubt is left", func() bool {
				return b.Metrics().Sum("oncegate_unknown_outcomes", `tool="pay"`) == 0
			})
			wantCalls(t, b.api, 1)
		})
	}
}

// The same for a late answer in events, one too large to keep, and one that
// breaks off.
func TestToolsLateAnswerInAnotherForm(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"policy": harness.Map{"timeouts": harness.Map{"first_byte": "300ms"}}}, harness.Config{"store.max_body": "256KiB"})
	events, large, broken := make(chan struct{}), make(chan struct{}), make(chan struct{})
	body := strings.Repeat("0123456789abcdef", 64<<10)
	b.api.Script(b.runsThen(up.Gate(events), up.SSE("one", "two")), b.runsThen(up.Gate(large), up.Status(200, body, "Content-Type: text/plain")),
		b.runsThen(up.Gate(broken), up.Head(201, "Content-Length: 100"), up.Bytes("half"), up.Cut))
	for _, key := range []string{"events", "large", "broken"} {
		unknown.wantTool(t, b.pay(key, order))
	}
	close(events)
	close(large)
	close(broken)
	var a *harness.Answer
	for _, key := range []string{"events", "large", "broken"} {
		harness.Eventually(t, harness.Patience, "it is heard", func() bool {
			a = b.pay(key, order)
			return a.Status != 424
		})
		switch key {
		case "large":
			wantGone(t, a, 200, body)
			continue
		case "broken":
			problem{502, "response_lost", "false", "replayed", "", ""}.wantTool(t, a)
			continue
		}
		wantShared(t, a, "replayed", "key")
		if got := harness.Data(a.Body); len(got) != 2 || a.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%q %v", got, a.Header)
		}
	}
	b.wantRuns(3)
}

// A late refusal frees the key; a late 500 says as little as an early one.
func TestToolsLateRefusal(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"policy": harness.Map{"timeouts": harness.Map{"first_byte": "1s"}}})
	gate := make(chan struct{})
	for key, late := range map[string]up.Step{"refused": up.Fail(401, "who_are_you"), "broken": up.Fail(500, "broken")} {
		b.api.Script(up.Seq(up.Gate(gate), late))
		unknown.wantTool(t, b.pay(key, order))
	}
	b.api.Script(b.paid)
	close(gate)
	var a *harness.Answer
	harness.Eventually(t, harness.Patience, "the refusal is heard", func() bool {
		a = b.pay("refused", order)
		return a.Status != 424
	})
	wantReceipt(t, a, 1, "executed", "")
	idle(t, b.Gateway)
	unknown.wantTool(t, b.pay("broken", order))
	wantCalls(t, b.api, 3)
}

// A late answer of a run that another one followed changes nothing.
func TestToolsLateAnswerAfterAnotherRun(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"policy": harness.Map{"timeouts": harness.Map{"first_byte": "1s"}}})
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid), b.paid)
	unknown.wantTool(t, b.pay("k", order))
	wantReceipt(t, b.pay("k", order, "Oncegate-Retry-Unknown: 1"), 1, "executed", "")
	close(gate)
	idle(t, b.Gateway)
	harness.Eventually(t, harness.Patience, "the first one runs too", func() bool { return b.runs.N() == 2 })
	for range 3 {
		wantReceipt(t, b.pay("k", order), 1, "replayed", "key")
	}
}

// Run again knowingly, and nothing came of it: the first run is as much in
// doubt as it was.
func TestToolsAnotherRunThatDidNothing(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"not_executed": []any{503}, "policy": harness.Map{"attempts": 2}})
	for i, did := range []up.Step{up.Fail(503, "busy"), up.Fail(429, "slow_down"), up.Fail(401, "who_are_you")} {
		key := fmt.Sprint("k", i)
		b.api.Script(b.lost, did)
		unknown.wantTool(t, b.pay(key, order))
		if a := b.pay(key, order, "Oncegate-Retry-Unknown: 1"); a.Status != 503 && a.Status != 429 && a.Status != 401 && a.Status != 424 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		b.api.Script(b.paid)
		unknown.wantTool(t, b.pay(key, order))
		reused.wantTool(t, b.pay(key, `{"amount":11}`, "Oncegate-Retry-Unknown: 1"))
		b.wantRuns(2*i + 1)
		wantReceipt(t, b.pay(key, order, "Oncegate-Retry-Unknown: 1"), 2*i+2, "executed", "")
	}
}

// Those who wait with the first one are told what it is told.
func TestToolsFollowersOfAnUnknown(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(b.runsThen(up.Gate(gate), up.RST))
	all := []*harness.Pending{b.goPay("k", order)}
	b.api.Call(1)
	for range 5 {
		all = append(all, b.goPay("k", order))
	}
	following(t, b.Gateway, 5)
	close(gate)
	for _, p := range all {
		unknown.wantTool(t, p.Answer())
	}
	unknown.wantTool(t, b.pay("k", order))
	b.wantRuns(1)
}

// Run again knowingly, by one of those who ask at once.
func TestToolsRetryUnknownOnce(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(b.lost)
	unknown.wantTool(t, b.pay("k", order))
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid))
	var all []*harness.Pending
	for range 10 {
		all = append(all, b.goPay("k", order, "Oncegate-Retry-Unknown: 1"))
	}
	following(t, b.Gateway, 9)
	close(gate)
	how := map[string]int{}
	for _, p := range all {
		a := p.Answer()
		how[a.Outcome()]++
		if a.Status != 201 || a.Body != receipt(2) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if how["executed"] != 1 || how["coalesced"] != 9 {
		t.Errorf("%v", how)
	}
	b.wantRuns(2)
}
