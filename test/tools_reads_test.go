package test

import (
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// search is a POST that reads.
var search = harness.Map{"reads": []any{"POST /v1/search"}, "key": "required"}

// Reads are tried again whatever befell them, and never kept.
func TestToolsReads(t *testing.T) {
	t.Parallel()
	b := openBank(t, search)
	for _, c := range []struct{ method, path, body string }{
		{"GET", pay + "/7?expand=all", ""}, {"GET", pay, `{"filter":1}`}, {"HEAD", pay + "/7", ""}, {"OPTIONS", pay, ""},
		{"POST", "/tools/pay/v1/search", `{"q":"rent"}`}, {"POST", "/tools/pay/v1/search?page=2", `{"q":"rent"}`},
	} {
		for name, fault := range map[string]up.Step{
			"closed": up.Cut, "reset": up.RST, "503": up.Fail(503, "busy"), "500": up.Fail(500, "broken"), "429": up.Fail(429, "slow_down"),
		} {
			found := up.Status(200, `{"found":1}`, "X-Found: 1")
			b.api.Script(fault, b.runsThen(found))
			before := b.api.N()
			for range 2 {
				a := b.Do(c.method, c.path, c.body, "Idempotency-Key: k")
				wantOutcome(t, a, 200, "executed", "")
				if want := map[bool]string{true: "", false: `{"found":1}`}[c.method == "HEAD"]; a.Body != want || a.Header.Get("X-Found") != "1" {
					t.Errorf("%q %v", a.Body, a.Header)
				}
				if a.Header.Get("Idempotent-Replayed") != "" || a.Header.Get("Age") != "" {
					t.Errorf("a read was shared: %v", a.Header)
				}
			}
			wantCalls(t, b.api, before+3)
			if got := b.api.Call(before + 3); got.Method != c.method || got.Target != c.path[len("/tools/pay"):] || string(got.Body) != c.body || got.Get("Idempotency-Key") != "" {
				t.Errorf("the API was sent %s %s %s", got.Method, got.Target, got.Body)
			}
			if t.Failed() {
				t.Fatalf("that was %s %s, %s", c.method, c.path, name)
			}
		}
	}
	// What is not in the list is a write, and needs its key.
	problem{400, "idempotency_key_required", "false", "refused", "key_required", ""}.wantTool(t, b.Post("/tools/pay/v1/search/7", `{}`))
	problem{400, "idempotency_key_required", "false", "refused", "key_required", ""}.wantTool(t, b.Do("PUT", "/tools/pay/v1/search", `{}`))
}

// Equal reads at once are several reads.
func TestToolsReadsAreNotShared(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	gate := make(chan struct{})
	b.api.Script(b.runsThen(up.Gate(gate), up.Status(200, "[]")))
	answers := make(chan *harness.Answer)
	for range 3 {
		go func() { answers <- b.Try("GET", pay, "", "Idempotency-Key: k", "Oncegate-Dedupe: always") }()
	}
	b.api.Call(3)
	close(gate)
	for range 3 {
		if a := <-answers; a.Err != nil || a.Status != 200 || a.Outcome() != "executed" {
			t.Errorf("%d %q %v", a.Status, a.Outcome(), a.Err)
		}
	}
}

// A read that no attempt gets through fails as it failed, and is not a doubt.
func TestToolsReadThatFails(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"policy": harness.Map{"timeouts": harness.Map{"first_byte": "1s"}}})
	b.api.Script(up.Fail(503, "busy"))
	a := b.Get(pay)
	if a.Status != 503 || a.Body != up.Problem("busy") || a.Outcome() != "failed" || a.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("%d %s %v", a.Status, a.Body, a.Header)
	}
	b.api.Script(up.Cut)
	problem{502, "upstream_error", "false", "failed", "attempts_exhausted", ""}.wantTool(t, b.Get(pay+"/cut"))
	gate := make(chan struct{})
	defer close(gate)
	b.api.Script(up.Gate(gate))
	problem{504, "upstream_timeout", "false", "failed", "attempts_exhausted", ""}.wantTool(t, b.Get(pay+"/hangs"))
	wantCalls(t, b.api, 9)
	b.api.Script(up.Fail(404, "no_such_payment"))
	if a := b.Get(pay + "/9"); a.Status != 404 || a.Body != up.Problem("no_such_payment") || a.Outcome() != "executed" {
		t.Errorf("%d %s %q", a.Status, a.Body, a.Outcome())
	}
	if n := b.Metrics().Sum("oncegate_unknown_outcomes"); n != 0 {
		t.Errorf("%v unknown outcomes of reads", n)
	}
}

// A read that its client left is let go, and not tried again.
func TestToolsReadIsLetGo(t *testing.T) {
	t.Parallel()
	b := openBank(t, search)
	gate := make(chan struct{})
	defer close(gate)
	b.api.Script(up.Gate(gate))
	p := b.Go("/tools/pay/v1/search", `{}`)
	b.api.Call(1)
	p.Leave()
	if !b.api.Call(1).Left(harness.Patience) {
		t.Error("the API was not let go")
	}
	problem{504, "upstream_timeout", "false", "failed", "deadline", ""}.wantTool(t, b.Get(pay, "Oncegate-Timeout: 300ms"))
	if !b.api.Call(2).Left(harness.Patience) {
		t.Error("the API was not let go after the client's deadline")
	}
	idle(t, b.Gateway)
	wantCalls(t, b.api, 2)
}

// A read in events is live too.
func TestToolsReadInEvents(t *testing.T) {
	t.Parallel()
	b := openBank(t, search)
	gate := make(chan struct{})
	b.api.Script(b.runsThen(up.Open(), up.Events("one"), up.Gate(gate), up.Events("two")))
	s := b.Open("/tools/pay/v1/search", `{}`)
	if got := s.Next(); got != "one" {
		t.Errorf("%q", got)
	}
	close(gate)
	if rest := s.Rest(); len(rest) != 1 || rest[0] != "two" || !s.Clean() {
		t.Errorf("%q, %v", rest, s.End())
	}
}
