package test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// unreachable is the answer where no attempt reached the API.
var unreachable = problem{502, "upstream_error", "false", "failed", "unreachable", ""}

// Nothing was sent, so it is tried again, with a key and without.
func TestToolsRefusedConnections(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"k", ""} {
		t.Run(strconv.Quote(key), func(t *testing.T) {
			t.Parallel()
			api, open := up.Closed(t)
			b := openBankAt(t, api, harness.Map{"policy": harness.Map{"attempts": 30}}, harness.Config{"policy.total_attempts": 30})
			p := b.goPay(key, order)
			settled(t, b.Gateway, 2)
			open()
			a := p.Answer()
			reason := ""
			if key == "" {
				reason = "unkeyed"
			}
			wantReceipt(t, a, 1, "executed", reason)
			attempts, _ := strconv.Atoi(a.Header.Get("Oncegate-Attempts"))
			if booked := b.Metrics().Sum("oncegate_upstream_attempts_total"); attempts < 3 || booked != float64(attempts) {
				t.Errorf("%d attempts, %v booked", attempts, booked)
			}
			wantCalls(t, api, 1)
		})
	}
}

// Where no attempt gets through the key is free, and no repeat is put off.
func TestToolsUnreachableReleases(t *testing.T) {
	t.Parallel()
	api, open := up.Closed(t)
	b := openBankAt(t, api, harness.Map{"policy": harness.Map{"attempts": 2}}, harness.Config{"policy.backoff.base": "10ms"})
	for n := 1; n <= 2; n++ {
		a := b.pay("k", order)
		unreachable.wantTool(t, a)
		if booked := b.Metrics().Sum("oncegate_upstream_attempts_total", `billing="unbilled"`); booked != float64(2*n) {
			t.Errorf("%v attempts booked as unbilled, want %d", booked, 2*n)
		}
	}
	// Not even another write under the key is refused: it was never used.
	unreachable.wantTool(t, b.pay("k", `{"amount":11}`))
	open()
	wantReceipt(t, b.pay("k", order), 1, "executed", "")
	wantReceipt(t, b.pay("k", order), 1, "replayed", "key")
	wantCalls(t, api, 1)
}

// The same for a name that is not found, mended in the configuration.
func TestToolsNameNotFound(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	tools := func(url string) harness.Config { return harness.Config{"tools": []any{harness.Tool("pay", url, nil)}} }
	b.Stop()
	// A label of 64 characters: no resolver has it, and none is asked.
	b.Reconfigure(tools(fmt.Sprintf("http://%s.example", strings.Repeat("x", 64))))
	b.Restart()
	unreachable.wantTool(t, b.pay("k", order))
	b.Stop()
	b.Reconfigure(tools(b.api.URL()))
	b.Restart()
	wantReceipt(t, b.pay("k", order), 1, "executed", "")
	b.wantRuns(1)
}
