package mock

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestKeysIgnored(t *testing.T) {
	m, url := start(t, Options{})
	for range 2 {
		if got := status(write(t, "POST", url+"/payments", "{}", "Idempotency-Key: k")); got != 201 {
			t.Error(got)
		}
	}
	if s := m.Stats(); s.Executions != 2 || s.ByKey["k"] != (KeyCount{Requests: 2, Executions: 2}) || s.Replays != 0 {
		t.Errorf("%+v", s)
	}
}

func TestKeysHonoured(t *testing.T) {
	m, url := start(t, Options{Script: script(t, "keys: {header: X-Request-Key}")})
	at := url + "/payments"
	first, body, err := write(t, "POST", at, `{"ref":"r"}`, "X-Request-Key: k")
	if err != nil {
		t.Fatal(err)
	}
	again, same, err := write(t, "POST", at, `{"ref":"r"}`, "X-Request-Key: k")
	if err != nil || same != body || again.StatusCode != 201 || again.Header.Get("Location") != first.Header.Get("Location") {
		t.Error(again, err, same)
	}
	if first.Header.Get("Idempotent-Replayed") != "" || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("the replay is not marked, or the first is")
	}
	for _, c := range []struct{ method, url, body, key string }{
		{"POST", at, `{"ref":"s"}`, "k"},
		{"POST", at + "?x=1", `{"ref":"r"}`, "k"},
		{"PUT", at + "/a", `{"ref":"r"}`, "k"},
	} {
		if resp, body, err := write(t, c.method, c.url, c.body, "X-Request-Key: "+c.key); err != nil || resp.StatusCode != 422 {
			t.Error(c, resp, err, body)
		}
	}
	if got := status(write(t, "GET", at, "", "X-Request-Key: k")); got != 200 { // a read has no use for one
		t.Error(got)
	}
	if got := status(write(t, "POST", at, `{"ref":"r"}`, "Idempotency-Key: k")); got != 201 { // not the header
		t.Error(got)
	}
	s := m.Stats()
	if s.Executions != 2 || s.Replays != 1 || s.ByKey["k"] != (KeyCount{Requests: 5, Executions: 1, Replays: 1}) {
		t.Errorf("%+v", s.ByKey)
	}
	if !s.Arrivals[1].Replayed || s.Arrivals[1].Executed {
		t.Errorf("%+v", s.Arrivals[1])
	}
}

// TestKeysAfterFaults: what had its effect is remembered as the API's own
// answer, what had none may be done with the same key.
func TestKeysAfterFaults(t *testing.T) {
	for _, c := range []struct {
		step     string
		replayed int64
	}{
		{"{status: 503}", 0},
		{"{status: 503, effect: true}", 1},
		{"{status: 202, effect: false}", 0},
		{"{reset: {at: request}}", 0},
		{"{reset: {at: before_effect}}", 0},
		{"{close: {at: after_effect}}", 1},
		{"{close: {}}", 1},
		{"{reset: {at: bytes, after: 3}}", 1},
		{"{body: strange, status: 200}", 1},
	} {
		m, url := start(t, Options{Script: script(t, "keys: {}\nsteps:\n  - "+c.step)})
		write(t, "POST", url+"/payments", `{"ref":"r"}`, "Idempotency-Key: k")
		resp, body, err := write(t, "POST", url+"/payments", `{"ref":"r"}`, "Idempotency-Key: k")
		if err != nil || resp.StatusCode != 201 || payment(t, body).Ref != "r" {
			t.Errorf("%s: %v %v %s", c.step, resp, err, body)
		}
		if s := m.Stats(); s.Executions != 1 || s.Replays != c.replayed {
			t.Errorf("%s: executed %d, replayed %d", c.step, s.Executions, s.Replays)
		}
	}
}

func TestNoKeyIsNoKey(t *testing.T) {
	m := New(Options{Script: script(t, "keys: {}")})
	for range 2 {
		if got := m.post(t, ""); got != 201 {
			t.Error(got)
		}
	}
	if s := m.Stats(); len(s.ByKey) != 0 || s.Executions != 2 {
		t.Errorf("%+v", s)
	}
}

func TestKeyOfARefusedWriteIsFree(t *testing.T) {
	_, url := start(t, Options{Script: script(t, "keys: {}")})
	if got := status(write(t, "PATCH", url+"/payments/none", "{}", "Idempotency-Key: k")); got != 404 {
		t.Error(got)
	}
	if got := status(write(t, "POST", url+"/payments", "{}", "Idempotency-Key: k")); got != 201 {
		t.Error(got)
	}
}

func TestKeyWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Script: script(t, "keys: {window: 10s}")})
		for _, c := range []struct {
			wait     time.Duration
			executed int64
		}{{0, 1}, {10*time.Second - 1, 1}, {1, 2}, {5 * time.Second, 2}, {5 * time.Second, 3}} {
			time.Sleep(c.wait)
			if got := m.post(t, "k"); got != 201 {
				t.Error(got)
			}
			if got := m.Stats().Executions; got != c.executed {
				t.Errorf("after %s more: executed %d, want %d", c.wait, got, c.executed)
			}
		}
	})
}

func TestKeyInFlight(t *testing.T) {
	for _, step := range []string{"{delay: 1s}", "{hang: {at: before_effect, for: 1s}}", "{hang: {at: after_effect, for: 1s}}"} {
		synctest.Test(t, func(t *testing.T) {
			m := New(Options{Script: script(t, "keys: {}\nsteps:\n  - "+step)})
			first := make(chan int, 1)
			go func() { first <- m.post(t, "k") }()
			synctest.Wait()
			if got := m.post(t, "k"); got != 409 {
				t.Errorf("%s: %d while in flight", step, got)
			}
			if got := <-first; got != 201 {
				t.Error(step, got)
			}
			if got := m.post(t, "k"); got != 201 {
				t.Error(step, got)
			}
			if s := m.Stats(); s.Executions != 1 || s.Replays != 1 {
				t.Errorf("%s: %+v", step, s.ByKey)
			}
		})
	}
}

// TestKeyAtOnce: many at once with one key are one execution.
func TestKeyAtOnce(t *testing.T) {
	m, url := start(t, Options{Script: script(t, "keys: {}\notherwise: {delay: 20ms}")})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := status(write(t, "POST", url+"/payments", "{}", "Idempotency-Key: k")); got != 201 && got != 409 {
				t.Error(got)
			}
		})
	}
	all.Wait()
	if s := m.Stats(); s.Executions != 1 || s.ByKey["k"].Requests != 20 {
		t.Errorf("%+v", s.ByKey)
	}
}

// TestKeyOfMultipart: a retry has another boundary and is the same request.
func TestKeyOfMultipart(t *testing.T) {
	_, url := start(t, Options{Script: script(t, "keys: {}")})
	send := func(boundary, file string) int {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		w.SetBoundary(boundary)
		w.WriteField("ref", "r")
		f, _ := w.CreateFormFile("file", "a")
		f.Write([]byte(file))
		w.Close()
		return status(write(t, "POST", url+"/payments", b.String(), "Content-Type: "+w.FormDataContentType(), "Idempotency-Key: k"))
	}
	for _, c := range []struct {
		boundary, file string
		status         int
	}{{"one", "x", 201}, {"two", "x", 201}, {"two", "y", http.StatusUnprocessableEntity}} {
		if got := send(c.boundary, c.file); got != c.status {
			t.Errorf("%v: %d", c, got)
		}
	}
}
