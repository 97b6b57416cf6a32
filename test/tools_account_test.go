package test

import (
	"strings"
	"testing"

	"oncegate/cache/report"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// What the account has of writes: each request once, each execution once, and
// what was prevented apart from what was saved.
func TestToolsAccount(t *testing.T) {
	t.Parallel()
	api := up.New(t)
	b := openBankAt(t, api, nil, harness.Keys(), harness.Config{"tools": []any{
		harness.Tool("pay", api.URL(), nil), harness.Tool("mail", api.URL(), nil),
	}})
	alice, bob := harness.Bearer(harness.K1), harness.Bearer(harness.K2)
	// pay: 1 executed, 2 coalesced, 3 replayed.
	gate := make(chan struct{})
	api.Script(up.Seq(up.Gate(gate), b.paid))
	all := []*harness.Pending{b.goPay("k", order, alice)}
	api.Call(1)
	for range 2 {
		all = append(all, b.goPay("k", order, alice))
	}
	following(t, b.Gateway, 2)
	close(gate)
	for _, p := range all {
		p.Answer()
	}
	for range 3 {
		wantReceipt(t, b.pay("k", order, alice), 1, "replayed", "key")
	}
	// 1 unknown, told 3 times again.
	api.Script(b.lost)
	for range 4 {
		unknown.wantTool(t, b.pay("doubt", order, alice))
	}
	// 2 refused; 1 completed by a 404 and replayed once; 1 unkeyed; 1 released.
	reused.wantTool(t, b.pay("k", `{}`, alice))
	b.pay("a b", order, alice)
	api.Script(up.Fail(404, "no_such_account"), b.paid)
	for range 2 {
		b.pay("missing", order, alice)
	}
	wantReceipt(t, b.pay("", order, alice), 3, "executed", "unkeyed")
	api.Script(up.Fail(401, "who_are_you"))
	b.pay("mend", order, alice)
	// mail: 1 executed, a response lost and told again, and a read.
	api.Script(b.paid)
	wantReceipt(t, b.Post("/tools/mail/x", order, "Idempotency-Key: k", bob), 4, "executed", "")
	api.Script(b.runsThen(up.Head(200, "Content-Length: 9"), up.Cut))
	for range 2 {
		b.Post("/tools/mail/x", order, "Idempotency-Key: cut", bob)
	}
	api.Script(b.runsThen(up.Status(200, "[]")))
	if a := b.Get("/tools/mail/x", bob); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	idle(t, b.Gateway)

	r := b.account("tool")
	paid, mail := group(r, "pay"), group(r, "mail")
	for name, c := range map[string]struct{ got, want int64 }{
		"pay, requests":        {paid.Requests, 16},
		"pay, coalesced":       {paid.Outcomes.Coalesced, 2},
		"pay, replayed":        {paid.Outcomes.Replayed, 4},
		"pay, unknown":         {paid.Outcomes.Unknown, 4},
		"pay, refused":         {paid.Outcomes.Refused, 2},
		"pay, the others":      {paid.Outcomes.Executed + paid.Outcomes.Failed, 4},
		"pay, billed":          {paid.Attempts.Billed, 2},
		"pay, ambiguous":       {paid.Attempts.Ambiguous, 1},
		"pay, unbilled":        {paid.Attempts.Unbilled, 2},
		"pay, prevented":       {paid.DuplicateWritesPrevented, 2 + 4 + 3},
		"mail, requests":       {mail.Requests, 4},
		"mail, executed":       {mail.Outcomes.Executed, 3},
		"mail, replayed":       {mail.Outcomes.Replayed, 1},
		"mail, prevented":      {mail.DuplicateWritesPrevented, 1},
		"total, requests":      {r.Total.Requests, 20},
		"total, prevented":     {r.Total.DuplicateWritesPrevented, 10},
		"total, unknown, open": {r.Total.UnknownWritesOpen, 1},
		"total, unpriced":      {r.Total.UnpricedRequests, 0},
		"total, tokens saved":  {r.Total.Saved.Tokens.Input + r.Total.Saved.Tokens.Output, 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
	for _, by := range []string{"tool", "key", "operation", "outcome", "reason"} {
		r := b.account(by)
		var sum report.Sums
		for _, g := range r.Groups {
			sum.Requests += g.Requests
			sum.DuplicateWritesPrevented += g.DuplicateWritesPrevented
			sum.Attempts.Billed += g.Attempts.Billed
		}
		if sum.Requests != r.Total.Requests || sum.DuplicateWritesPrevented != r.Total.DuplicateWritesPrevented || sum.Attempts.Billed != r.Total.Attempts.Billed {
			t.Errorf("by %s the groups come to %+v, the total is %+v", by, sum, r.Total)
		}
	}
	m := b.Metrics()
	for sample, want := range map[string]float64{
		`oncegate_duplicate_writes_prevented_total{tool="pay"}`:  9,
		`oncegate_duplicate_writes_prevented_total{tool="mail"}`: 1,
		`oncegate_unknown_outcomes{tool="pay"}`:                  1,
		`oncegate_unknown_outcomes{tool="mail"}`:                 0,
		`oncegate_transport_replays_total`:                       0,
	} {
		if got := m[sample]; got != want {
			t.Errorf("%s is %v, want %v", sample, got, want)
		}
	}
	if got := m.Sum("oncegate_requests_total"); got != 20 {
		t.Errorf("%v requests among the metrics", got)
	}
	for sample := range m {
		if strings.Contains(sample, "alice") || strings.Contains(sample, "doubt") {
			t.Errorf("a label names a user or a key: %s", sample)
		}
	}
	if table := report2text(t, b.Gateway, "--by", "tool"); !strings.Contains(table, "pay") || !strings.Contains(table, "10") {
		t.Errorf("the table:\n%s", table)
	}
}

// Tools that are not there share one label: nobody can make them many.
func TestToolsUnknownToolsShareALabel(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for _, name := range []string{"made-up-1", "made-up-2", "made-up-3"} {
		problem{404, "tool_not_found", "false", "refused", "not_found", ""}.wantTool(t, b.Post("/tools/"+name+"/x", order, "Idempotency-Key: k"))
	}
	for sample := range b.Metrics() {
		if strings.Contains(sample, "made-up") {
			t.Errorf("a label names a tool that is not there: %s", sample)
		}
	}
	for _, g := range b.account("tool").Groups {
		if strings.Contains(g.Name, "made-up") {
			t.Errorf("the account has a group %q", g.Name)
		}
	}
}
