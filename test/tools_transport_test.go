package test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// A connection that was used before, and is closed under a write that was
// read whole: where net/http would send it again.
func TestToolsClosedUnderAWrite(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for name, end := range map[string]up.Step{"fin": up.Cut, "rst": up.RST} {
		for _, c := range []struct{ method, path, body string }{
			{"POST", pay, order}, {"POST", pay, ""}, {"PUT", pay + "/7", order}, {"DELETE", pay + "/7", ""}, {"PATCH", pay + "/7", order},
		} {
			key := fmt.Sprintf("%s-%s-%d", name, c.method, len(c.body))
			lines := []string{"Idempotency-Key: " + key, "X-Idempotency-Key: theirs"}
			b.warmly(func() bool {
				b.api.Script(b.paid, b.runsThen(end))
				calls, runs := b.api.N(), b.runs.N()
				wantReceipt(t, b.pay(fmt.Sprint(key, "-warm-", calls), order), runs+1, "executed", "")
				// Again under the same key only where the connection was new.
				a := b.Do(c.method, c.path, c.body, append(lines, "Oncegate-Retry-Unknown: 1")...)
				unknown.wantTool(t, a)
				if !names(a, a.Header.Get("Oncegate-Key")) {
					t.Errorf("the record is not named: %s", a.Body)
				}
				b.wantRuns(runs + 2)
				wantCalls(t, b.api, calls+2)
				return b.api.Call(calls+1).Conn == b.api.Call(calls+2).Conn
			})
			runs := b.runs.N()
			unknown.wantTool(t, b.Do(c.method, c.path, c.body, lines...))
			b.wantRuns(runs)
			// Run again knowingly, it runs again.
			b.api.Script(b.paid)
			wantReceipt(t, b.Do(c.method, c.path, c.body, append(lines, "Oncegate-Retry-Unknown: 1")...), runs+1, "executed", "")
			wantReceipt(t, b.Do(c.method, c.path, c.body, lines...), runs+1, "replayed", "key")
			// And on a record that is known the header means nothing.
			wantReceipt(t, b.Do(c.method, c.path, c.body, append(lines, "Oncegate-Retry-Unknown: 1")...), runs+1, "replayed", "key")
		}
	}
}

// warmly makes two calls of which the second one should go over the first
// one's connection, until it does and says so: a connection is soon too old.
func (b *bank) warmly(calls func() bool) {
	b.t.Helper()
	for range 10 {
		if calls() || b.t.Failed() {
			return
		}
	}
	b.t.Error("the connection was never used again: the case did not happen")
}

// B047: a connection that dies before the API read a byte of the write. What
// was written to it can't be taken back.
func TestB047DeadConnectionUnderAWrite(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.warmly(func() bool {
		b.api.Script(up.ThenDead(b.paid), b.paid)
		key := fmt.Sprint("k", b.api.N())
		wantShared(t, b.pay(key+"-warm", order), "executed", "")
		calls, accepts := b.api.N(), b.api.Accepts()
		a := b.pay(key, order)
		if b.api.Accepts() > accepts {
			return false // it went over a new connection, and was paid
		}
		unknown.wantTool(t, a)
		unknown.wantTool(t, b.pay(key, order))
		wantCalls(t, b.api, calls)
		return true
	})
	// One that was closed between two writes loses none.
	b.api.Script(up.Seq(b.paid, up.FIN))
	for i := range 20 {
		key, before := fmt.Sprint("closed", i), b.runs.N()
		a := b.pay(key, order)
		if ran := b.runs.N() - before; a.Status != 201 && a.Status != 424 || a.Status == 201 && ran != 1 || ran > 1 {
			t.Errorf("%s: %d, and the API ran %d times", key, a.Status, ran)
		}
	}
}

// A redirect is an answer: nothing goes to another host, and no key with it.
func TestToolsRedirectIsAnAnswer(t *testing.T) {
	t.Parallel()
	other := up.New(t)
	b := openBank(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		key := fmt.Sprint("k", status)
		b.api.Script(b.runsThen(up.Status(status, "", "Location: "+other.URL()+"/elsewhere")))
		for _, outcome := range []string{"executed", "replayed"} {
			a := b.pay(key, order)
			if a.Status != status || a.Header.Get("Location") != other.URL()+"/elsewhere" || a.Outcome() != outcome {
				t.Errorf("%d, %s: %d %q %v", status, outcome, a.Status, a.Outcome(), a.Header)
			}
		}
	}
	wantCalls(t, b.api, 5)
	if other.Accepts() != 0 {
		t.Error("the other host was called")
	}
}

// HTTP/2 is never used for a write, for its transports send some again.
func TestToolsHTTP2IsNotUsedForWrites(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string][]int{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.Method] = append(seen[r.Method], r.ProtoMajor)
		w.WriteHeader(201)
		fmt.Fprint(w, receipt(1))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	g := harness.Start(t, up.Refused(t), harness.Env("SSL_CERT_FILE="+ca, "SSL_CERT_DIR="+filepath.Dir(ca)),
		harness.Config{"tools": []any{harness.Tool("pay", server.URL, nil)}})
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		for _, key := range []string{"one", "two"} {
			wantReceipt(t, g.Do(method, pay, order, "Idempotency-Key: "+key+method), 1, "executed", "")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		if got := fmt.Sprint(seen[method]); got != "[1 1]" {
			t.Errorf("%s went over HTTP versions %s", method, got)
		}
	}
}
