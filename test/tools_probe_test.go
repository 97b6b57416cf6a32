package test

import (
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// probed is a bank whose API loses the answer to the first payment, and can be
// asked for it. found says what it tells; ran whether the payment was made.
func probed(t *testing.T, probe harness.Map, ran bool, found func() up.Step) *bank {
	t.Helper()
	b := openBank(t, harness.Map{"probe": probe})
	var lost atomic.Bool
	b.api.Choose(func(c *up.Call) up.Step {
		switch {
		case c.Method == "GET":
			return found()
		case lost.Swap(true):
			return b.paid
		case ran:
			return b.lost
		}
		return up.Cut
	})
	return b
}

// probes are the calls that asked.
func (b *bank) probes() (calls []*up.Call) {
	for _, c := range b.api.Calls() {
		if c.Method == "GET" {
			calls = append(calls, c)
		}
	}
	return calls
}

// Who can be asked is asked, and its answer is the write's.
func TestToolsProbeFinds(t *testing.T) {
	t.Parallel()
	const ref, found = "r 1&x=é/7", `{"data":[{"id":"pay_1","ref":"r1"}]}`
	body := `{"amount":10,"ref":"` + ref + `"}`
	var there atomic.Bool
	b := probed(t, harness.Map{"get": "/v1/payments?limit=1&ref={/ref}", "executed": "/data/0"}, true, func() up.Step {
		if there.Load() {
			return up.Status(200, found)
		}
		return up.Status(200, `{"data":[]}`)
	})
	unknown.wantTool(t, b.pay("k", body))
	harness.Eventually(t, harness.Patience, "it is asked again", func() bool { return len(b.probes()) >= 2 })
	unknown.wantTool(t, b.pay("k", body))
	there.Store(true)
	var a *harness.Answer
	harness.Eventually(t, harness.Patience, "it is found", func() bool {
		a = b.pay("k", body)
		return a.Status != 424
	})
	wantShared(t, a, "replayed", "key")
	if a.Status != 200 || a.Body != found {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	c := b.probes()[0]
	path, query, _ := strings.Cut(c.Target, "?")
	asked, err := url.ParseQuery(query)
	if err != nil || path != "/v1/payments" || asked.Get("ref") != ref || asked.Get("limit") != "1" || len(asked) != 2 {
		t.Errorf("it was asked for %s", c.Target)
	}
	if c.Get("Authorization") != "Bearer "+harness.PK {
		t.Errorf("it was asked with the credential %q", c.Get("Authorization"))
	}
	if n := b.Metrics().Sum("oncegate_unknown_outcomes", `tool="pay"`); n != 0 {
		t.Errorf("%v unknown outcomes", n)
	}
	asks := len(b.probes())
	wantShared(t, b.pay("k", body), "replayed", "key")
	if n := len(b.probes()); n != asks {
		t.Errorf("it is still asked: %d times, then %d", asks, n)
	}
	b.wantRuns(1)
}

// Absence is not believed unless the tool says from when on it may be.
func TestToolsProbeFindsNothing(t *testing.T) {
	t.Parallel()
	answers := map[string]up.Step{"empty": up.Status(200, `{"data":[]}`), "404": up.Fail(404, "none"), "null": up.Status(200, `{"data":[null]}`)}
	for name, nothing := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := probed(t, harness.Map{"get": "/v1/payments?ref={/ref}", "executed": "/data/0"}, true, func() up.Step { return nothing })
			const body = `{"ref":"r1"}`
			unknown.wantTool(t, b.pay("k", body))
			harness.Eventually(t, harness.Patience, "it is asked three times", func() bool { return len(b.probes()) >= 3 })
			unknown.wantTool(t, b.pay("k", body))
			b.wantRuns(1)
		})
	}
}

// Past absent_after it is: the key is free, and runs once.
func TestToolsProbeBelievesAbsence(t *testing.T) {
	t.Parallel()
	const after = time.Second
	b := probed(t, harness.Map{"get": "/v1/payments?ref={/ref}", "executed": "/data/0", "absent_after": after.String()}, false,
		func() up.Step { return up.Status(200, `{"data":[]}`) })
	const body = `{"ref":"r1"}`
	sent := time.Now()
	unknown.wantTool(t, b.pay("k", body))
	var a *harness.Answer
	harness.Eventually(t, 2*harness.Patience, "its absence is believed", func() bool {
		a = b.pay("k", body)
		return a.Status != 424
	})
	if d := time.Since(sent); d < after {
		t.Errorf("it was believed after %v", d)
	}
	wantReceipt(t, a, 1, "executed", "")
	wantReceipt(t, b.pay("k", body), 1, "replayed", "key")
	b.wantRuns(1)
}

// A probe that fails says nothing, even past absent_after; nor does one that
// finds an empty value where something should be.
func TestToolsProbeThatFails(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]up.Step{
		"500": up.Fail(500, "broken"), "no entries": up.Status(200, `{"data":[ ]}`), "no members": up.Status(200, `{"data":{}}`),
		"no text": up.Status(200, `{"data":""}`), "none": up.Status(200, `{"data":-0.0}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := probed(t, harness.Map{"get": "/v1/payments?ref={/ref}", "executed": "/data", "absent_after": "1ms"}, true,
				func() up.Step { return answer })
			unknown.wantTool(t, b.pay("k", `{"ref":"r1"}`))
			harness.Eventually(t, harness.Patience, "it is asked twice", func() bool { return len(b.probes()) >= 2 })
			unknown.wantTool(t, b.pay("k", `{"ref":"r1"}`))
			b.wantRuns(1)
		})
	}
}

// It is asked after a restart too: what it needs of the body is kept.
func TestToolsProbeAfterARestart(t *testing.T) {
	t.Parallel()
	var there atomic.Bool
	b := probed(t, harness.Map{"get": "/v1/payments?ref={/ref}", "executed": "/data/0"}, true, func() up.Step {
		if there.Load() {
			return up.Status(200, `{"data":[{"id":"pay_1"}]}`)
		}
		return up.Status(200, `{"data":[]}`)
	})
	unknown.wantTool(t, b.pay("k", `{"ref":"r1"}`))
	b.Kill9()
	there.Store(true)
	b.Restart()
	harness.Eventually(t, harness.Patience, "it is found", func() bool { return b.pay("k", `{"ref":"r1"}`).Status == 200 })
	b.wantRuns(1)
}

// By our own key, where the API knows it.
func TestToolsProbeByUpstreamKey(t *testing.T) {
	t.Parallel()
	b := openBank(t, harness.Map{"upstream_key_header": "X-Request-Key", "upstream_key_window": "1ms", "policy": harness.Map{"attempts": 1},
		"probe": harness.Map{"get": "/v1/keys/{upstream_key}", "executed": "/id"}})
	b.api.Choose(func(c *up.Call) up.Step {
		if c.Method == "GET" {
			return up.Status(200, `{"id":"pay_1"}`)
		}
		return b.lost
	})
	if a := b.pay("k", order); a.Status != 200 {
		unknown.wantTool(t, a)
	}
	harness.Eventually(t, harness.Patience, "it is found", func() bool { return b.pay("k", order).Status == 200 })
	ours := b.api.Call(1).Get("X-Request-Key")
	if got := b.probes()[0].Target; ours == "" || got != "/v1/keys/"+url.PathEscape(ours) {
		t.Errorf("our key was %q, and %s was asked for", ours, got)
	}
	b.wantRuns(1)
}
