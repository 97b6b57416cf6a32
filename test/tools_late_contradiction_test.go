package test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// Somebody says that a write did not happen, its key runs again, and then the first
// run's answer comes after all: it was made twice, and the gateway is the one who
// knows. DESIGN.md has such an answer dropped and counted; a line in a log, which
// calls it a claim that was taken over, tells nobody who looks at the record.
func TestToolsALateAnswerThatSaysOtherwiseIsTold(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"policy": harness.Map{"timeouts": harness.Map{"first_byte": "300ms"}, "breaker": harness.Map{"enabled": false}}})
	gate := make(chan struct{})
	b.api.Script(up.Seq(up.Gate(gate), b.paid), b.paid)
	record := b.pay("k", order).Header.Get("Oncegate-Key")
	first := gjson.Get(ask(t, b.Gateway, "/api/records/"+record), "fence").Int()
	if a := b.resolve(record, `{"as":"not-executed","reason":"no trace of it"}`); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if a := b.pay("k", order); a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	before := b.Metrics()
	close(gate)
	harness.Eventually(t, harness.Patience, "the first answer comes", func() bool { return b.runs.N() == 2 && b.Metrics().Sum("oncegate_inflight") == 0 })
	// In the record's trail, in the audit, or in a count of its own.
	for _, path := range []string{"/api/records/" + record, "/api/audit"} {
		for _, list := range []string{"events", "audit"} {
			for _, e := range gjson.Get(ask(t, b.Gateway, path), list).Array() {
				if e.Get("fence").Int() == first && e.Get("status").Int() == 201 {
					return
				}
			}
		}
	}
	for name, n := range b.Metrics() {
		if n > before[name] && strings.Contains(name, "late") {
			return
		}
	}
	t.Errorf("the payment was made %d times, and nothing says so: %s", b.runs.N(), ask(t, b.Gateway, "/api/records/"+record))
}
