package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"

	"oncegate/cache/report"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// bank is a gateway in front of a write API, its tool "pay".
type bank struct {
	*harness.Gateway
	t    *testing.T
	api  *up.Server
	runs *up.Effects // what the API has done

	goroutines float64 // of the gateway before its first request
}

// pay is where a payment is made.
const pay = "/tools/pay/v1/payments"

// order is the body of most payments.
const order = `{"amount":10,"currency":"EUR"}`

// openBank starts a bank whose API makes each payment that it is asked for.
// tool has further members of the tool's configuration.
func openBank(t *testing.T, tool harness.Map, changes ...any) *bank {
	t.Helper()
	return openBankAt(t, up.New(t), tool, changes...)
}

func openBankAt(t *testing.T, api *up.Server, tool harness.Map, changes ...any) *bank {
	t.Helper()
	b := &bank{t: t, api: api, runs: &up.Effects{}}
	api.Script(b.paid)
	changes = append([]any{harness.Config{
		"tools":                      []any{harness.Tool("pay", api.URL(), tool)},
		"policy.breaker.enabled":     false, // most cases are about failures, and each about its own
		"policy.budget.floor":        1000,
		"policy.timeouts.first_byte": "20s",
	}}, changes...)
	b.Gateway = harness.Start(t, api.URL(), changes...)
	b.CloseIdle()
	b.goroutines = b.Metrics()["go_goroutines"]
	t.Cleanup(b.audit)
	return b
}

// audit is what holds at the end of every case: no transport sent a request
// twice, the account agrees with what the API did, and nothing is left behind.
func (b *bank) audit() {
	select {
	case <-b.Ended():
		return // the test stopped it, and looked at what it wanted
	default:
	}
	b.api.HangUp() // on calls that hang, and idle connections
	harness.Eventually(b.t, harness.Patience, "nothing is in flight", func() bool { return b.Metrics().Sum("oncegate_inflight") == 0 })
	m := b.Metrics()
	if !m.Has("oncegate_transport_replays_total") || m.Sum("oncegate_transport_replays_total") != 0 {
		b.t.Errorf("a transport sent requests again by itself: %v", m.Sum("oncegate_transport_replays_total"))
	}
	var billed, ambiguous int64
	for _, tool := range b.account("tool").Groups {
		if tool.Name != "-" { // those are completions
			billed, ambiguous = billed+tool.Attempts.Billed, ambiguous+tool.Attempts.Ambiguous
		}
	}
	if n := int64(b.runs.N()); billed > n || n > billed+ambiguous {
		b.t.Errorf("the API ran %d times; the account has %d that are billed and %d ambiguous", n, billed, ambiguous)
	}
	harness.Eventually(b.t, harness.Patience, "the goroutines end", func() bool {
		b.CloseIdle()
		// A few wait for the next record, and the store's come with its first use.
		return b.Metrics()["go_goroutines"] <= b.goroutines+12
	})
}

// account is the report, asked in a way that works after the test's end too.
func (b *bank) account(by string) *report.Report {
	b.t.Helper()
	res, err := http.Get("http://" + b.Admin + "/api/report?by=" + by)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		b.t.Fatalf("%s: %v", text, err)
	}
	http.DefaultClient.CloseIdleConnections()
	return &r
}

// paid is the step that makes a payment and says so.
func (b *bank) paid(x *up.Exchange) { up.Status(201, receipt(b.runs.Do()))(x) }

// runsThen makes the payment and answers in another way.
func (b *bank) runsThen(steps ...up.Step) up.Step {
	return up.Seq(append([]up.Step{b.run}, steps...)...)
}

func (b *bank) run(x *up.Exchange) { b.runs.Do() }

// lost makes the payment and closes the connection without a word.
func (b *bank) lost(x *up.Exchange) { b.runsThen(up.Cut)(x) }

// receipt is the API's answer to its n-th payment.
func receipt(n int) string { return fmt.Sprintf(`{"id":"pay_%d","object":"payment"}`, n) }

// keyed are the lines of a request with that key; none where it is empty.
func keyed(key string, lines []string) []string {
	if key == "" {
		return lines
	}
	return append([]string{"Idempotency-Key: " + key}, lines...)
}

// pay makes a payment.
func (b *bank) pay(key, body string, lines ...string) *harness.Answer {
	b.t.Helper()
	return b.Post(pay, body, keyed(key, lines)...)
}

// goPay asks for a payment, and does not wait for the answer.
func (b *bank) goPay(key, body string, lines ...string) *harness.Pending {
	return b.Go(pay, body, keyed(key, lines)...)
}

// wantRuns says how often the API should have done its work.
func (b *bank) wantRuns(n int) {
	b.t.Helper()
	if got := b.runs.N(); got != n {
		b.t.Errorf("the API ran %d times, want %d", got, n)
	}
}

// replays waits until the key replays the n-th payment.
func (b *bank) replays(key, body string, n int) {
	b.t.Helper()
	var a *harness.Answer
	harness.Eventually(b.t, harness.Patience, "the answer is there", func() bool {
		a = b.pay(key, body)
		return a.Outcome() == "replayed"
	})
	wantReceipt(b.t, a, n, "replayed", "key")
}

var recordKey = regexp.MustCompile(`^[0-9a-f]{64}$`)

// wantReceipt says which payment an answer should be about, and how it came.
func wantReceipt(t *testing.T, a *harness.Answer, n int, outcome, reason string) {
	t.Helper()
	if a.Status != 201 || a.Body != receipt(n) {
		t.Errorf("got %d %.300s, want 201 %s", a.Status, a.Body, receipt(n))
	}
	wantShared(t, a, outcome, reason)
}

// wantShared says how an answer should have come about, by its headers.
func wantShared(t *testing.T, a *harness.Answer, outcome, reason string) {
	t.Helper()
	if a.Outcome() != outcome || a.Reason() != reason {
		t.Errorf("it was %q for %q, want %q %q", a.Outcome(), a.Reason(), outcome, reason)
	}
	shared := outcome == "coalesced" || outcome == "replayed"
	if got := a.Header.Get("Idempotent-Replayed"); shared != (got == "true") {
		t.Errorf("Idempotent-Replayed: %q on an answer that was %s", got, outcome)
	}
	if got := a.Header.Get("Age"); (outcome == "replayed") != (got != "") {
		t.Errorf("Age: %q on an answer that was %s", got, outcome)
	}
	if got := a.Header.Get("Oncegate-Key"); !recordKey.MatchString(got) {
		t.Errorf("Oncegate-Key: %q", got)
	}
}

// unknown is the answer to a write of which nobody knows whether it happened.
var unknown = problem{424, "idempotency_outcome_unknown", "false", "unknown", "ambiguous", ""}
