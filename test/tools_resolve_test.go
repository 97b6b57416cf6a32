package test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
)

// resolve says what became of a write.
func (b *bank) resolve(key, body string) *harness.Answer {
	b.t.Helper()
	res, err := http.Post("http://"+b.Admin+"/api/records/"+key+"/resolve", "application/json", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return &harness.Answer{Status: res.StatusCode, Header: res.Header, Body: string(text)}
}

// unknowns are the writes that wait for somebody to say what became of them.
func (b *bank) unknowns() gjson.Result {
	b.t.Helper()
	return gjson.Get(ask(b.t, b.Gateway, "/api/records?state=unknown"), "records")
}

// Whoever finds out what became of a write says so, and its caller is told.
func TestToolsResolve(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil, harness.Keys())
	alice := harness.Bearer(harness.K1)
	b.api.Script(b.lost)
	records := map[string]string{}
	for _, key := range []string{"not-executed", "executed", "with-answer", ""} {
		a := b.pay(key, order, alice)
		problem{424, "idempotency_outcome_unknown", "false", "unknown", "", ""}.wantTool(t, a)
		records[key] = a.Header.Get("Oncegate-Key")
	}
	b.api.Script(b.paid)
	if list := b.unknowns(); len(list.Array()) != 4 {
		t.Fatalf("%s", list)
	}
	for key, record := range records {
		got := b.unknowns().Get(`#(key="` + record + `")`)
		if got.Get("tool").String() != "pay" || got.Get("method").String() != "POST" || got.Get("path").String() != "/v1/payments" ||
			got.Get("principal").String() != "alice" || got.Get("unkeyed").Bool() != (key == "") ||
			got.Get("request_size").Int() != int64(len(order)) || got.Get("request_sha256").String() != fmt.Sprintf("%x", sha256.Sum256([]byte(order))) {
			t.Errorf("%q is listed as %s", key, got)
		}
	}
	if a := b.resolve(records["executed"], `{"as":"executed"}`); a.Status != 400 {
		t.Errorf("without a reason: %d %s", a.Status, a.Body)
	}
	for key, body := range map[string]string{
		"not-executed": `{"as":"not-executed","reason":"no trace of it","actor":"kim"}`,
		"executed":     `{"as":"executed","reason":"on the statement","actor":"kim"}`,
		"with-answer":  `{"as":"executed","reason":"pay_3","actor":"kim","status":201,"body":"{\"id\": \"pay_3\"}"}`,
		"":             `{"as":"executed","reason":"on the statement","actor":"kim"}`,
	} {
		if a := b.resolve(records[key], body); a.Status != 200 {
			t.Errorf("%q: %d %s", key, a.Status, a.Body)
		}
		if a := b.resolve(records[key], body); a.Status != 409 && a.Status != 404 {
			t.Errorf("%q, once more: %d %s", key, a.Status, a.Body)
		}
	}
	wantReceipt(t, b.pay("not-executed", order, alice), 5, "executed", "")
	wantReceipt(t, b.pay("not-executed", order, alice), 5, "replayed", "key")
	for _, lines := range [][]string{{alice}, {alice, "Oncegate-Retry-Unknown: 1"}} {
		problem{410, "result_gone", "false", "", "result_gone", ""}.wantTool(t, b.pay("executed", order, lines...))
		a := b.pay("with-answer", order, lines...)
		wantShared(t, a, "replayed", "key")
		if a.Status != 201 || a.Body != `{"id": "pay_3"}` || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d %s %v", a.Status, a.Body, a.Header)
		}
	}
	b.wantRuns(5)
	if list := b.unknowns(); len(list.Array()) != 0 {
		t.Errorf("still unknown: %s", list)
	}
	audit := gjson.Get(ask(t, b.Gateway, "/api/audit"), "audit")
	if n := len(audit.Get(`#(what="resolved")#`).Array()); n != 4 {
		t.Errorf("%d decisions in the audit: %s", n, audit)
	}
	if got := audit.Get(`#(key="` + records["not-executed"] + `")`); got.Get("actor").String() != "kim" || got.Get("reason").String() != "no trace of it" {
		t.Errorf("the audit has %s", got)
	}
}

// To run a write again in spite of the doubt is a decision, and is on record.
func TestToolsRetryUnknownIsAudited(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil, harness.Keys())
	alice := harness.Bearer(harness.K1)
	b.api.Script(b.lost, b.paid)
	record := b.pay("k", order, alice).Header.Get("Oncegate-Key")
	wantReceipt(t, b.pay("k", order, alice, "Oncegate-Retry-Unknown: 1"), 2, "executed", "")
	got := gjson.Get(ask(t, b.Gateway, "/api/audit"), "audit")
	if len(got.Array()) != 1 || got.Get("0.what").String() != "rerun" || got.Get("0.key").String() != record || got.Get("0.actor").String() != "alice" {
		t.Errorf("the audit has %s", got)
	}
	var events []string
	for _, e := range gjson.Get(ask(t, b.Gateway, "/api/records/"+record), "events").Array() {
		events = append(events, e.Get("what").String())
	}
	if got := strings.Join(events, " "); got != "claimed dispatched unknown rerun dispatched completed" {
		t.Errorf("its events are %s", got)
	}
}
