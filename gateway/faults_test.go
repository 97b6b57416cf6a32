package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/gateway"
	"oncegate/providers"
)

func withFaults(before, after func(step string) bool) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.Store = &cachetest.Faulty{Store: o.Store, Before: before, After: after}
	}
}

func TestAStoreThatIsAwayIsBypassed(t *testing.T) {
	for _, lost := range []string{"before", "after"} {
		t.Run(lost, func(t *testing.T) {
			var away atomic.Bool
			away.Store(true)
			fault := func(step string) bool { return step == "claim" && away.Load() }
			faults := withFaults(fault, nil)
			if lost == "after" {
				faults = withFaults(nil, fault)
			}
			h := newHouse(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, faults)
			for range 2 {
				a := h.post("/v1/chat/completions", hi, "Idempotency-Key", lost)
				if a.status != 200 || a.header.Get("Oncegate-Outcome") != "bypassed" || a.header.Get("Oncegate-Reason") != "store_away" {
					t.Errorf("%d %v", a.status, a.header)
				}
				if a.header.Get("Oncegate-Key") != "" {
					t.Error("it names a record that it is not")
				}
			}
			away.Store(false)
			if a := h.post("/v1/chat/completions", hi, "Idempotency-Key", lost+"-back"); a.header.Get("Oncegate-Outcome") != "executed" {
				t.Errorf("once the store is back: %v", a.header)
			}
			if n := h.calls.Load(); n != 3 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

func TestAnAnswerThatCouldNotBeRecordedSaysSo(t *testing.T) {
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range []string{`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]"} {
				fmt.Fprintf(w, "data: %s\n\n", e)
				w.(http.Flusher).Flush()
			}
			return
		}
		chat(w, "1")
	}, withFaults(func(step string) bool { return step == "settle" }, nil))
	a := h.post("/v1/chat/completions", hi, "Idempotency-Key", "k")
	if a.status != 200 || a.header.Get("Oncegate-Recorded") != "false" {
		t.Errorf("%d %v", a.status, a.header)
	}
	req, _ := http.NewRequest("POST", h.url+"/v1/chat/completions", strings.NewReader(strings.Replace(hi, "{", `{"stream":true,`, 1)))
	req.Header.Set("Idempotency-Key", "s")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("%q %v", b, err)
	}
	if got := resp.Trailer.Get("Oncegate-Recorded") + resp.Header.Get("Oncegate-Recorded"); got != "false" {
		t.Errorf("the stream's trailer says %q", got)
	}
}

// panicking is a provider with a bug.
type panicking struct{ after *atomic.Bool }

func (panicking) Name() string               { return "bug" }
func (panicking) Serves(providers.Wire) bool { return true }
func (p panicking) Try(context.Context, *providers.Call, string, int) (providers.Answer, *providers.Error) {
	if p.after.Load() {
		panic("a bug")
	}
	return nil, &providers.Error{}
}

func TestAPanicIsA500AndTheProcessLives(t *testing.T) {
	var after atomic.Bool
	after.Store(true)
	reg := prometheus.NewRegistry()
	h := newHouse(t, nil, func(o *gateway.Options) {
		o.Registry = reg
		o.Upstreams = append(o.Upstreams, gateway.Upstream{Provider: panicking{&after}})
		o.Models = append(o.Models, gateway.Model{Name: "bug", Targets: []gateway.ModelTarget{{Upstream: "bug"}}})
	})
	for range 2 {
		a := h.post("/v1/chat/completions", strings.Replace(hi, `"m"`, `"bug"`, 1))
		if a.status != 500 || !strings.Contains(a.body, `"internal_error"`) || a.header.Get("X-Should-Retry") != "false" ||
			a.header.Get("Oncegate-Reason") != "internal" || a.header.Get("Oncegate-Outcome") != "failed" {
			t.Errorf("%d %s %v", a.status, a.body, a.header)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) { // a record ends a moment after its readers
		metrics := httptest.NewRecorder()
		h.g.Admin().ServeHTTP(metrics, httptest.NewRequest("GET", "http://127.0.0.1/metrics", nil))
		if strings.Contains(metrics.Body.String(), `oncegate_inflight{operation="chat"} 0`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the gauge of records that run did not return to 0")
		}
	}
	h.await(`oncegate_upstream_attempts_total{billing="ambiguous",result="crash",target="bug/bug"} 2`)
	w := httptest.NewRecorder()
	h.g.Admin().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/api/report", nil))
	if !strings.Contains(w.Body.String(), `"attempts":{"billed":0,"unbilled":0,"ambiguous":2}`) {
		t.Errorf("the account: %s", w.Body)
	}
}

// faultyPage is a dashboard with a bug.
type faultyPage struct{}

func (faultyPage) Serves(path string) bool                      { return path == "/bug" }
func (faultyPage) ServeHTTP(http.ResponseWriter, *http.Request) { panic("a bug of the page") }

func TestAPanicOfTheAdminListenerIsLogged(t *testing.T) {
	core, logs := observer.New(zapcore.ErrorLevel)
	h := newHouse(t, nil, func(o *gateway.Options) { o.Page, o.Log = faultyPage{}, zap.New(core) })
	admin := httptest.NewServer(h.g.Admin())
	defer admin.Close()
	if resp, err := http.Get(admin.URL + "/bug"); err == nil {
		t.Errorf("it was answered: %v", resp.Status)
	}
	told := logs.FilterMessage("a request panicked").All()
	if len(told) != 1 || told[0].ContextMap()["panic"] != "a bug of the page" || !strings.Contains(fmt.Sprint(told[0].ContextMap()["stack"]), "faultyPage") {
		t.Errorf("logged is %v", told)
	}
	if resp, err := http.Get(admin.URL + "/livez"); err != nil || resp.StatusCode != 200 {
		t.Errorf("and then: %v, %v", resp, err)
	}
}

func TestAttemptsOfADeadProcessAreAmbiguous(t *testing.T) {
	reg := prometheus.NewRegistry()
	newHouse(t, nil, func(o *gateway.Options) {
		o.Registry = reg
		o.Lost = func(book func([]cache.Attempt)) { book([]cache.Attempt{{Target: "up/*"}, {Target: "up/*"}}) }
	})
	want := `# HELP oncegate_upstream_attempts_total Attempts upstream, by how they came out and whether they were billed.
# TYPE oncegate_upstream_attempts_total counter
oncegate_upstream_attempts_total{billing="ambiguous",result="crash",target="up/*"} 2
oncegate_upstream_attempts_total{billing="billed",result="ok",target="up/*"} 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "oncegate_upstream_attempts_total"); err != nil {
		t.Error(err)
	}
}

// A follower that leaves in the middle of a stream that then breaks saved
// nothing, and failed like the others.
func TestALeaverIsBookedByWhatBecameOfItsRecord(t *testing.T) {
	reg := prometheus.NewRegistry()
	shown, fail := make(chan struct{}), make(chan struct{})
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n")
		w.(http.Flusher).Flush()
		close(shown)
		<-fail
		panic(http.ErrAbortHandler)
	}, func(o *gateway.Options) { o.Registry = reg })
	body := strings.Replace(hi, "{", `{"stream":true,`, 1)
	open := func() (*http.Response, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, "POST", h.url+"/v1/chat/completions", strings.NewReader(body))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp, cancel
	}
	leader, cancel := open()
	defer cancel()
	<-shown
	follower, leave := open()
	io.ReadFull(follower.Body, make([]byte, 5))
	if got := follower.Header.Get("Oncegate-Outcome"); got != "coalesced" {
		t.Fatalf("the second is %s", got)
	}
	leave()
	close(fail)
	io.Copy(io.Discard, leader.Body)
	leader.Body.Close()
	h.await(`oncegate_requests_total{operation="chat",outcome="failed"} 2`)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			counted[family.GetName()] += m.GetCounter().GetValue()
		}
	}
	if counted["oncegate_requests_total"] != 2 || counted["oncegate_saved_requests_total"] != 0 {
		t.Errorf("%v", counted)
	}
}

// forgetful has forgotten each record by the time that it ends, as a store may
// whose process stood still for long.
type forgetful struct{ cache.Store }

func (forgetful) Settle(context.Context, cache.Hold, cache.Settlement) error { return cache.ErrFenced }

// What the journal takes for booked is booked, though its record be gone.
func TestACallOfAForgottenRecordIsBooked(t *testing.T) {
	h := newHouse(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") },
		func(o *gateway.Options) { o.Store = forgetful{o.Store} })
	if a := h.post("/v1/chat/completions", hi); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	h.await(`oncegate_inflight{operation="chat"} 0`)
	w := httptest.NewRecorder()
	h.g.Admin().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/api/report", nil))
	if !strings.Contains(w.Body.String(), `"attempts":{"billed":1,"unbilled":0,"ambiguous":0}`) {
		t.Errorf("the account: %s", w.Body)
	}
}

// journal counts what it is told.
type journal struct{ begun, ended atomic.Uint64 }

func (j *journal) Begin(cache.Hold, string) (uint64, error) { return j.begun.Add(1), nil }
func (j *journal) End(uint64)                               { j.ended.Add(1) }

// A call that ends as its store closes is left to the next start, by the journal.
func TestAnEndThatNobodyHeardStaysInTheJournal(t *testing.T) {
	for _, away := range []bool{true, false} {
		var j journal
		h := newHouse(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, func(o *gateway.Options) {
			o.Journal = &j
			o.Store = &cachetest.Faulty{Store: o.Store, Before: func(step string) bool { return away && step == "settle" }}
		})
		if a := h.post("/v1/chat/completions", hi); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		h.await(`oncegate_inflight{operation="chat"} 0`)
		if j.begun.Load() != 1 || j.ended.Load() == 1 == away {
			t.Errorf("away %v: %d begun, %d ended", away, j.begun.Load(), j.ended.Load())
		}
	}
}
