package test

import (
	"fmt"
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// reused is the answer to a key that was used for something else.
var reused = problem{422, "idempotency_key_reused", "false", "refused", "key_reused", ""}

// What is the same write, and what is not.
func TestToolsFingerprint(t *testing.T) {
	t.Parallel()
	const (
		form  = "Content-Type: application/x-www-form-urlencoded"
		plain = "Content-Type: text/plain"
	)
	parts := func(boundary, amount string) string {
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"amount\"\r\n\r\n" + amount + "\r\n" +
			"--" + boundary + "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n\x00\xff--\r\n" +
			"--" + boundary + "--\r\n"
	}
	multipart := func(boundary string) string { return "Content-Type: multipart/form-data; boundary=" + boundary }
	type write struct {
		method, path, body string
		line               string
	}
	post := func(body string, line ...string) write {
		return write{"POST", pay, body, strings.Join(line, "")}
	}
	b := openBank(t, nil)
	for i, c := range []struct {
		name         string
		first, again write
		same         bool
	}{
		{"itself", post(order), post(order), true},
		{"members in another order", post(`{"a":1,"b":{"c":2,"d":[3,4]}}`), post(`{ "b":{"d":[3,4],"c":2}, "a":1 }`), true},
		{"an escape", post(`{"a":"\u0068i"}`), post(`{"a":"hi"}`), true},
		{"an array in another order", post(`[1,2]`), post(`[2,1]`), false},
		{"itself, compressed", write{"POST", pay, gzipped(t, []byte(order)), "Content-Encoding: gzip"}, post(order), true},
		{"another amount", post(`{"amount":10}`), post(`{"amount":11}`), false},
		{"a large number", post(`{"id":9007199254740993}`), post(`{"id":9007199254740992}`), false},
		{"a larger number", post(`{"id":18446744073709551615}`), post(`{"id":18446744073709551616}`), false},
		{"a fraction", post(`{"a":0.30000000000000004}`), post(`{"a":0.3}`), false},
		{"null and nothing", post(`{"a":null}`), post(`{}`), false},
		{"nothing and empty", post(``), post(`{}`), false},
		{"text and number", post(`{"a":1}`), post(`{"a":"1"}`), false},
		{"a name given twice", post(`{"a":1,"a":2}`), post(`{"a":2,"a":1}`), false},
		{"another method", post(order), write{"PUT", pay, order, "Content-Type: application/json"}, false},
		{"another path", post(order), write{"POST", pay + "/7", order, ""}, false},
		{"a path with a slash more", post(order), write{"POST", pay + "/", order, ""}, false},
		{"a path with other escapes", write{"POST", pay + "/a%2Fb", order, ""}, write{"POST", pay + "/a/b", order, ""}, false},
		{"another query", post(order), write{"POST", pay + "?dry=1", order, ""}, false},
		{"a query's other value", write{"POST", pay + "?dry=0", order, ""}, write{"POST", pay + "?dry=1", order, ""}, false},
		{"another content type", post(order), post(order, plain), false},
		{"a form", post("a=1&b=2", form), post("a=1&b=2", form), true},
		{"a form in another order", post("a=1&b=2", form), post("b=2&a=1", form), false},
		{"a form's other escape", post("a=%20", form), post("a=+", form), false},
		{"JSON that says it is text", post(`{"a":1,"b":2}`, plain), post(`{"b":2,"a":1}`, plain), false},
		{"JSON that is none", post(`{"a":1`), post(`{"a":1`), true},
		{"JSON that is none, otherwise", post(`{"a":1`), post(`{"a":2`), false},
		{"multipart with another boundary", post(parts("one", "10"), multipart("one")), post(parts("another-2", "10"), multipart("another-2")), true},
		{"multipart with another amount", post(parts("one", "10"), multipart("one")), post(parts("one", "11"), multipart("one")), false},
		{"bytes", post("\x00\x01\xff", "Content-Type: application/octet-stream"), post("\x00\x01\xfe", "Content-Type: application/octet-stream"), false},
	} {
		key := fmt.Sprint("Idempotency-Key: fp-", i)
		send := func(w write) *harness.Answer {
			lines := []string{key}
			if w.line != "" {
				lines = append(lines, w.line)
			}
			return b.Do(w.method, w.path, w.body, lines...)
		}
		before := b.runs.N()
		wantReceipt(t, send(c.first), before+1, "executed", "")
		a := send(c.again)
		if c.same {
			wantReceipt(t, a, before+1, "replayed", "key")
		} else {
			reused.wantTool(t, a)
		}
		// What was there first is intact.
		wantReceipt(t, send(c.first), before+1, "replayed", "key")
		if t.Failed() {
			t.Fatalf("that was %q", c.name)
		}
		if got := string(b.api.Call(before + 1).Body); got != c.first.body && c.first.line != "Content-Encoding: gzip" {
			t.Errorf("%s: the API was sent %q", c.name, got)
		}
	}
}

// Ten writes at once under one key are one that runs, and nine refusals.
func TestToolsOneKeyForManyWritesAtOnce(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for round := range 5 {
		var all []*harness.Pending
		for i := range 10 {
			all = append(all, b.goPay(fmt.Sprint("k", round), fmt.Sprintf(`{"amount":%d}`, i)))
		}
		paid := 0
		for _, p := range all {
			if a := p.Answer(); a.Status == 201 {
				paid++
			} else {
				reused.wantTool(t, a)
			}
		}
		if paid != 1 {
			t.Errorf("%d were paid", paid)
		}
		b.wantRuns(round + 1)
	}
}

// B070: another write under the same key is refused before it is waited for.
func TestB070SameKeyOtherArguments(t *testing.T) {
	t.Parallel()
	api := up.New(t)
	b := openBankAt(t, api, nil, harness.Config{"tools": []any{
		harness.Tool("pay", api.URL(), nil), harness.Tool("refund", api.URL(), nil),
	}})
	gate := make(chan struct{})
	api.Script(up.Seq(up.Gate(gate), b.paid))
	first := b.goPay("k", `{"amount":10,"note":"first-secret"}`)
	api.Call(1)
	others := func() {
		t.Helper()
		for _, a := range []*harness.Answer{
			b.pay("k", `{"amount":11}`),
			b.Post(pay+"/other", `{"amount":10,"note":"first-secret"}`, "Idempotency-Key: k"),
			b.Do("PUT", pay, `{"amount":10,"note":"first-secret"}`, "Idempotency-Key: k", "Content-Type: application/json"),
			b.Post("/tools/refund/v1/payments", `{"amount":10,"note":"first-secret"}`, "Idempotency-Key: k"),
		} {
			reused.wantTool(t, a)
			if strings.Contains(a.Body, "first-secret") || strings.Contains(a.Body, "amount") {
				t.Errorf("it gives the first body away: %s", a.Body)
			}
		}
	}
	others()
	close(gate)
	wantReceipt(t, first.Answer(), 1, "executed", "")
	others()
	b.replays("k", `{"note":"first-secret","amount":10}`, 1)
	wantCalls(t, api, 1)
}
