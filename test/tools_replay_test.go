package test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// The same key and the same write: the first answer, to the byte.
func TestToolsReplay(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	first, again := b.pay("k", order), b.pay("k", order)
	wantReceipt(t, first, 1, "executed", "")
	wantReceipt(t, again, 1, "replayed", "key")
	for name, a := range map[string]*harness.Answer{"first": first, "again": again} {
		if got := a.Header.Get("Oncegate-Target"); got != "pay" {
			t.Errorf("%s: Oncegate-Target %q", name, got)
		}
		if got := a.Header.Get("Oncegate-Attempts"); got != "1" {
			t.Errorf("%s: Oncegate-Attempts %q", name, got)
		}
	}
	if one, two := first.Header.Get("Oncegate-Key"), again.Header.Get("Oncegate-Key"); one != two {
		t.Errorf("two records: %s and %s", one, two)
	}
	// What is said about derived keys changes nothing.
	wantReceipt(t, b.pay("k", order, "Oncegate-Dedupe: off", "Oncegate-Nonce: 1", "Oncegate-User: another", "Cache-Control: no-cache"), 1, "replayed", "key")
	// Another key is another payment, and no key is one each time.
	wantReceipt(t, b.pay("k2", order), 2, "executed", "")
	wantReceipt(t, b.pay("", order), 3, "executed", "unkeyed")
	wantReceipt(t, b.pay("", order), 4, "executed", "unkeyed")
	wantCalls(t, b.api, 4)
}

// It outlives the process: what is acknowledged is recorded.
func TestToolsReplayAfterACrash(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	wantReceipt(t, b.pay("k", order), 1, "executed", "")
	b.Kill9()
	b.Restart()
	wantReceipt(t, b.pay("k", order), 1, "replayed", "key")
	b.wantRuns(1)
}

// Whose key it is comes with it; which tool it is for does too.
func TestToolsKeysOfTwoClients(t *testing.T) {
	t.Parallel()
	api := up.New(t)
	b := openBankAt(t, api, nil, harness.Keys(), harness.Config{"tools": []any{
		harness.Tool("pay", api.URL(), nil), harness.Tool("refund", api.URL(), nil),
	}})
	alice, bob := harness.Bearer(harness.K1), harness.Bearer(harness.K2)
	wantReceipt(t, b.pay("k", order, alice), 1, "executed", "")
	wantReceipt(t, b.pay("k", order, bob), 2, "executed", "")
	wantReceipt(t, b.pay("k", order, alice), 1, "replayed", "key")
	reused.wantTool(t, b.Post("/tools/refund/v1/payments", order, "Idempotency-Key: k", alice))
	b.wantRuns(2)
}

// What a replay carries of the answer's headers is a list of those that stay
// true.
func TestToolsReplayedHeaders(t *testing.T) {
	t.Parallel()
	kept := map[string]string{
		"Content-Type": "application/vnd.pay+json; v=2", "Content-Language": "de", "Content-Disposition": `attachment; filename="r.json"`,
		"Location": "/v1/payments/pay_1", "Etag": `"v1"`, "Last-Modified": "Mon, 02 Jan 2006 15:04:05 GMT", "Link": `</v1>; rel="up"`,
		"Vary": "Accept", "Cache-Control": "no-store", "X-Pay-Ref": "r1",
	}
	gone := map[string]string{
		"Set-Cookie": "a=b", "Retry-After": "7", "X-Ratelimit-Remaining": "5", "Ratelimit": "limit=10", "Www-Authenticate": "Basic",
		"Access-Control-Allow-Origin": "*", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Keep-Alive": "timeout=5", "X-Hop": "1", "X-Other": "1", "Server": "pay/1",
	}
	lines := []string{"Connection: X-Hop", "Date: Mon, 02 Jan 2006 15:04:05 GMT"}
	for _, headers := range []map[string]string{kept, gone} {
		for name, value := range headers {
			lines = append(lines, name+": "+value)
		}
	}
	b := openBank(t, harness.Map{"replay_headers": []any{"X-Pay-Ref"}})
	b.api.Script(b.runsThen(up.Status(201, receipt(1), lines...)))
	first, again := b.pay("k", order), b.pay("k", order)
	wantReceipt(t, first, 1, "executed", "")
	wantReceipt(t, again, 1, "replayed", "key")
	for name, want := range kept {
		if one, two := first.Header.Get(name), again.Header.Get(name); one != want || two != want {
			t.Errorf("%s: %q, then %q; want %q", name, one, two, want)
		}
	}
	for name := range gone {
		if got := again.Header.Values(name); len(got) != 0 {
			t.Errorf("%s: %q on a replay", name, got)
		}
	}
	for _, name := range []string{"Set-Cookie", "Keep-Alive", "X-Hop"} {
		if got := first.Header.Values(name); len(got) != 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
	if first.Header.Get("X-Other") != "1" {
		t.Error("the first answer lacks what its API said")
	}
	if date, err := http.ParseTime(again.Header.Get("Date")); err != nil || time.Since(date) > time.Minute {
		t.Errorf("Date: %q on a replay", again.Header.Get("Date"))
	}
	if age, err := strconv.Atoi(again.Header.Get("Age")); err != nil || age < 0 || age > 60 {
		t.Errorf("Age: %q", again.Header.Get("Age"))
	}
	b.wantRuns(1)
}

// Whatever the answer is made of, a replay is the same bytes.
func TestToolsReplayedBodies(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	written := 0
	for name, c := range map[string]struct {
		status int
		body   string
		lines  []string
	}{
		"numbers are text":  {200, `{"id":18446744073709551615,"order":9007199254740993,"a":1.0,"b":1e-7,"c":0.30000000000000004,"d":-0}`, nil},
		"JSON as it came":   {200, "{ \"b\" : 1,\n\t\"a\":\"\\u00e9<\" , \"a\":2}\n", nil},
		"not JSON at all":   {202, "queued\r\n", []string{"Content-Type: text/plain; charset=iso-8859-1"}},
		"binary":            {200, "\x00\x01\xff\xfe\r\n\x1b", []string{"Content-Type: application/octet-stream"}},
		"no type":           {200, "x", []string{"Content-Type:"}},
		"nothing":           {200, "", nil},
		"in chunks":         {200, "one two", nil},
		"after early hints": {200, `{"id":1}`, nil},
		"compressed":        {200, `{"unasked":"gzip"}`, nil},
	} {
		step := up.Status(c.status, c.body, c.lines...)
		switch name {
		case "in chunks":
			step = up.Seq(up.Head(200, "Content-Type: text/plain"), up.Bytes("one ", "two"))
		case "after early hints":
			step = up.Seq(up.Raw("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), step)
		case "compressed":
			step = up.Status(200, gzipped(t, []byte(c.body)), "Content-Encoding: gzip")
		}
		b.api.Script(b.runsThen(step))
		written++
		for _, outcome := range []string{"executed", "replayed"} {
			a := b.pay(fmt.Sprint("k", written), order)
			if a.Status != c.status || a.Body != c.body || a.Outcome() != outcome || a.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s, %s: %d %q %v", name, outcome, a.Status, a.Body, a.Header)
			}
		}
	}
	b.wantRuns(written)
}

// B067: an answer without a body is one, and the key is not left locked.
func TestB067NoContentIsAnAnswer(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(b.runsThen(up.Raw("HTTP/1.1 204 No Content\r\nETag: \"v2\"\r\n\r\n")))
	for _, method := range []string{"DELETE", "PUT", "PATCH"} {
		body := order
		if method == "DELETE" {
			body = ""
		}
		for i, outcome := range []string{"executed", "replayed"} {
			a := b.Do(method, "/tools/pay/v1/payments/7", body, "Idempotency-Key: "+method)
			if a.Status != 204 || a.Body != "" || a.Outcome() != outcome || a.Header.Get("Etag") != `"v2"` {
				t.Errorf("%s, %d: %d %q %v", method, i, a.Status, a.Body, a.Header)
			}
		}
	}
	b.wantRuns(3)
}
