package mock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// write sends one request on a connection of its own. Header lines are
// "Name: value".
func write(t *testing.T, method, url, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	r.Close = true
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// status is what a write got; 0: no answer.
func status(resp *http.Response, _ string, _ error) int {
	if resp == nil {
		return 0
	}
	return resp.StatusCode
}

func payment(t *testing.T, body string) Payment {
	t.Helper()
	var p Payment
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return p
}

func TestPaymentsLifeCycle(t *testing.T) {
	m, url := start(t, Options{})
	at := url + "/api/v2/payments"
	resp, body, err := write(t, "POST", at, `{"amount":9007199254740993,"currency":"eur","ref":"order 7"}`, "Idempotency-Key: k1")
	if err != nil || resp.StatusCode != 201 {
		t.Fatal(resp, err)
	}
	p := payment(t, body)
	if string(p.Amount) != "9007199254740993" || p.Ref != "order 7" || p.Key != "k1" || p.Version != 1 || p.Status != "succeeded" {
		t.Errorf("%s", body)
	}
	if resp.Header.Get("Location") != "/api/v2/payments/"+p.ID || resp.Header.Get("ETag") != `"1"` || resp.Header.Get("Openai-Version") != "" {
		t.Errorf("%v", resp.Header)
	}
	one := at + "/" + p.ID
	for _, c := range []struct {
		method, url, body string
		status            int
		want              string
	}{
		{"GET", one, "", 200, `"version":1`},
		{"HEAD", one, "", 200, ""},
		{"GET", at + "?ref=order+7", "", 200, `"has_more":false`},
		{"GET", at + "?key=k1", "", 200, p.ID},
		{"GET", at + "?ref=none", "", 200, `"data":[]`},
		{"PATCH", one, `{"currency":"nok"}`, 200, `"amount":9007199254740993,"currency":"nok"`},
		{"PUT", one, `{"amount":1.0}`, 200, `"amount":1.0,"key":"k1"`},
		{"PUT", at + "/mine%2F1", `{"amount":"5.00"}`, 201, `"id":"mine/1"`},
		{"GET", at + "/mine%2F1", "", 200, `"amount":"5.00"`},
		{"GET", at + "?limit=1", "", 200, `"has_more":true`},
		{"POST", one + "/refund", `{"amount":3}`, 201, `"status":"refunded"`},
		{"POST", one + "/refund", `{"amount":3}`, 201, `"version":5`}, // run twice is counted twice
		{"DELETE", one, "", 200, `"status":"canceled"`},
		{"DELETE", one, "", 200, `"version":7`},
		{"GET", one + "/refund", "", 405, "method_not_allowed"},
		{"POST", one, "{}", 405, "method_not_allowed"},
		{"PUT", at, "{}", 405, "method_not_allowed"},
		{"OPTIONS", at, "", 204, ""},
		{"DELETE", at + "/none", "", 404, "not_found"},
		{"POST", one + "/capture", "{}", 404, "not_found"},
		{"GET", at + "//x", "", 404, "not_found"},
		{"GET", url + "/x%2Fpayments%2Fy", "", 404, "not_found"},
		{"POST", at, `{"amount":`, 400, "invalid_json"},
	} {
		resp, body, err := write(t, c.method, c.url, c.body)
		if err != nil || resp.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: %v, %v %s", c.method, c.url, err, resp, body)
		}
	}
	s := m.Stats()
	if s.Executions != 8 || s.Resources != 4 || len(s.Payments) != 2 || s.Payments[0].ID != p.ID || s.Billed != 0 || s.Aborts != 0 {
		t.Errorf("%+v", s)
	}
	if s.ByRef["order 7"] != 2 || s.ByKey["k1"] != (KeyCount{Requests: 1, Executions: 1}) {
		t.Errorf("%v %v", s.ByRef, s.ByKey)
	}
	for _, by := range s.By {
		if by.Path == "/api/v2/payments" && by.Executions != 1 || by.Path == "/api/v2/payments/"+p.ID && by.Executions != 4 {
			t.Errorf("%+v", by)
		}
	}
	if !s.Arrivals[0].Executed || s.Arrivals[0].Key != "k1" || s.Arrivals[1].Executed {
		t.Errorf("%+v", s.Arrivals[:2])
	}
}

func TestPaymentBodies(t *testing.T) {
	_, url := start(t, Options{})
	parts := func(boundary string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		w.SetBoundary(boundary)
		w.WriteField("ref", "r1")
		w.WriteField("amount", "12")
		f, _ := w.CreateFormFile("file", "bill.pdf")
		f.Write([]byte("%PDF\x00\xff"))
		w.Close()
		return b.String(), "Content-Type: " + w.FormDataContentType()
	}
	multi, kind := parts("abc")
	for _, c := range []struct {
		name, url, body, header string
		ref, amount             string
	}{
		{"JSON", "", `{"ref":"r1","amount":12}`, "X-None: 1", "r1", "12"},
		{"JSON with a suffix", "", `{"reference":"r1","amount":{"value":"12"}}`, "Content-Type: application/vnd.x+json", "r1", `{"value":"12"}`},
		{"form", "", "ref=r1&amount=12", "Content-Type: application/x-www-form-urlencoded; charset=utf-8", "r1", "12"},
		{"form with words", "", "ref=r%201&amount=12+EUR", "Content-Type: application/x-www-form-urlencoded", "r 1", `"12 EUR"`},
		{"multipart", "", multi, kind, "r1", "12"},
		{"binary", "?ref=r1", "\x00\x01\xff{", "Content-Type: application/octet-stream", "r1", ""},
		{"empty", "?ref=r1", "", "X-None: 1", "r1", ""},
	} {
		resp, body, err := write(t, "POST", url+"/payments"+c.url, c.body, c.header)
		if err != nil || resp.StatusCode != 201 {
			t.Errorf("%s: %v %v", c.name, resp, err)
			continue
		}
		if p := payment(t, body); p.Ref != c.ref || string(p.Amount) != c.amount || p.Bytes != len(c.body) {
			t.Errorf("%s: %s", c.name, body)
		}
	}
	// A receipt is binary, a stream tells how it went, and a pad makes it large.
	if resp, body, err := write(t, "POST", url+"/payments", "{}", "Accept: image/png"); err != nil || resp.Header.Get("Content-Type") != "image/png" || !strings.HasPrefix(body, "\x89PNG") {
		t.Error(resp, err)
	}
	for _, ask := range []func() (*http.Response, string, error){
		func() (*http.Response, string, error) {
			return write(t, "POST", url+"/payments", `{"stream":true,"ref":"s"}`)
		},
		func() (*http.Response, string, error) {
			return write(t, "POST", url+"/payments", "ref=s", "Accept: text/event-stream", "Content-Type: application/x-www-form-urlencoded")
		},
	} {
		resp, body, err := ask()
		if err != nil || resp.StatusCode != 201 || !strings.HasPrefix(body, "event: progress\ndata: {\"of\":2,\"step\":1}\n\n") || !strings.Contains(body, "event: payment\ndata: {\"id\":\"pay_") {
			t.Error(resp, err, body)
		}
	}
}

// TestPaymentFaults: every fault, before the effect and after it.
func TestPaymentFaults(t *testing.T) {
	for _, c := range []struct {
		step     string
		status   int // 0: no answer, or none to its end
		executed int64
	}{
		{"{}", 201, 1},
		{"{status: 500}", 500, 0},
		{"{status: 500, effect: true}", 500, 1},
		{"{status: 200}", 200, 1},
		{"{status: 202, effect: false}", 202, 0},
		{"{status: 204}", 204, 1},
		{"{status: 307, headers: {Location: http://127.0.0.1:1/}}", 0, 0}, // the client follows
		{"{html: 200, status: 502, effect: true}", 502, 1},
		{"{body: '{}'}", 200, 1},
		{"{reset: {at: request}}", 0, 0},
		{"{reset: {at: before_effect}}", 0, 0},
		{"{reset: {at: after_effect}}", 0, 1},
		{"{reset: {}}", 0, 1},
		{"{reset: {at: bytes, after: 5}}", 0, 1},
		{"{close: {at: before_effect}}", 0, 0},
		{"{close: {at: after_effect}}", 0, 1},
		{"{close: {at: headers}}", 0, 1},
		{"{hang: {at: before_effect, for: 1ms}}", 201, 1},
		{"{hang: {at: after_effect, for: 1ms}, delay: 1ms}", 201, 1},
		{"{hang: {at: before_effect, for: 1ms}, reset: {at: after_effect}}", 0, 1},
	} {
		m, url := start(t, Options{Script: script(t, "steps:\n  - "+c.step)})
		resp, _, err := write(t, "POST", url+"/payments", `{"ref":"r"}`, "Idempotency-Key: k")
		if err != nil {
			resp = nil
		}
		if got := status(resp, "", nil); got != c.status {
			t.Errorf("%s: answered %d, want %d (%v)", c.step, got, c.status, err)
		}
		s := m.Stats()
		if s.Executions != c.executed || s.ByKey["k"].Executions != c.executed || s.ByRef["r"] != c.executed || int64(len(s.Payments)) != c.executed {
			t.Errorf("%s: executed %d, by key %v, by ref %v; want %d", c.step, s.Executions, s.ByKey, s.ByRef, c.executed)
		}
	}
}

// TestPointsOfTheEffectElsewhere: the model APIs are billed at the effect.
func TestPointsOfTheEffectElsewhere(t *testing.T) {
	m, url := start(t, Options{Script: script(t, "steps:\n  - reset: {at: before_effect}\n  - reset: {at: after_effect}\n  - {hang: {at: after_effect, for: 1ms}}")})
	for i, billed := range []int64{0, 1, 2} {
		code, _, err := get(t, url+"/v1/chat/completions", hi)
		if (err == nil) != (i == 2) || i == 2 && code != 200 {
			t.Error(i, code, err)
		}
		if got := m.Stats().Billed; got != billed {
			t.Errorf("after %d: billed %d", i, got)
		}
	}
}

func TestMatchMethod(t *testing.T) {
	m, url := start(t, Options{Script: script(t, "steps:\n  - {match: {method: POST}, status: 503}")})
	if got := status(write(t, "GET", url+"/payments?ref=r", "")); got != 200 {
		t.Error(got)
	}
	if got := status(write(t, "POST", url+"/payments", "{}")); got != 503 || m.Stats().StepsLeft != 0 {
		t.Error(got)
	}
}

// TestLeavingBeforeTheEffect: work that has begun goes on without its client.
func TestLeavingBeforeTheEffect(t *testing.T) {
	arrived := make(chan struct{}, 1)
	m, url := start(t, Options{
		Script:    script(t, "steps:\n  - hang: {at: before_effect, for: 300ms}\n  - hang: {at: before_effect}"),
		OnArrival: func(Arrival) { arrived <- struct{}{} },
	})
	for range 2 {
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-arrived
			leave()
		}()
		r, _ := http.NewRequestWithContext(ctx, "POST", url+"/payments", strings.NewReader("{}"))
		if _, err := http.DefaultClient.Do(r); err == nil {
			t.Fatal("it answered")
		}
	}
	until(t, "both left, one executed", func() bool {
		s := m.Stats()
		return s.Executions == 1 && s.Aborts == 2 && s.Inflight == 0
	})
}

// TestEffectInAQueue: the answer is lost, and the effect comes later; a Reset
// in between is a new beginning that it does not reach.
func TestEffectInAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Script: script(t, "keys: {}\nsteps:\n  - times: 2\n    reset: {at: before_effect, for: 2s}")})
		m.post(t, "k1")
		if got := m.post(t, "k1"); got != 0 || m.Stats().Executions != 0 {
			t.Error(got, m.Stats().Executions)
		}
		if got := m.post(t, "k1"); got != 409 { // still in the queue
			t.Error(got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := m.Stats(); s.Executions != 1 || s.ByKey["k1"] != (KeyCount{Requests: 3, Executions: 1}) {
			t.Errorf("%+v", s)
		}
		if got := m.post(t, "k1"); got != 201 || m.Stats().Replays != 1 {
			t.Error(got)
		}
		m.Script(Step{Close: &Point{At: AtBeforeEffect, For: time.Second}})
		m.post(t, "k2")
		m.Reset()
		time.Sleep(time.Second)
		synctest.Wait()
		if s := m.Stats(); s.Executions != 0 || len(s.Payments) != 0 || len(s.By) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// post makes a payment without a connection; 0: the mock broke off.
func (m *Mock) post(t *testing.T, key string) (code int) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		}
	}()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/payments", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", key)
	m.ServeHTTP(w, r)
	return w.Code
}

func TestBounded(t *testing.T) {
	var b bounded[int]
	for i := range 10 {
		b.put(fmt.Sprint(i%7), i, 3)
	}
	if len(b.entries) != 3 || len(b.order) != 3 || b.get("2") != 9 || b.get("6") != 0 {
		t.Errorf("%+v", b)
	}
}
