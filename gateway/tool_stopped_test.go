package gateway_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
)

// A process that is stopped between its dispatch and the first byte, until the
// write was taken for unknown, resolved as not executed and run by another, sends
// nothing when it goes on.
func TestAStaleDispatchIsNotSent(t *testing.T) {
	var runs atomic.Int64
	api := func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		w.WriteHeader(201)
	}
	var store cache.Store
	var stopped atomic.Bool
	dispatched, goOn := make(chan struct{}), make(chan struct{})
	stop := sync.OnceFunc(func() {
		stopped.Store(true)
		close(dispatched)
		<-goOn
	})
	one := withTool(t, api, 0, func(_ *gateway.Tool, o *gateway.Options) {
		store = o.Store
		o.Lease = 200 * time.Millisecond
		withFaults(func(step string) bool { return step == "renew" && stopped.Load() }, func(step string) bool {
			if step == "dispatch" {
				stop()
			}
			return false
		})(o)
	})
	two := withTool(t, api, 0, func(_ *gateway.Tool, o *gateway.Options) { o.Store, o.Lease = store, time.Minute })
	write := func(h *house) answer {
		return h.post("/tools/pay/v1/payments", "{}", "Idempotency-Key", "k", "Prefer", "wait=0")
	}

	first := make(chan answer)
	go func() { first <- write(one) }()
	<-dispatched
	a := write(two)
	for a.status == http.StatusConflict {
		a = write(two)
	}
	if a.status != http.StatusFailedDependency {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b := &books{house: two}
	if status, out := b.ask("POST", "/api/records/"+a.header.Get("Oncegate-Key")+"/resolve", `{"as":"not-executed","reason":"seen"}`); status != 200 {
		t.Fatalf("%d %v", status, out)
	}
	if a = write(two); a.status != 201 || a.header.Get("Oncegate-Outcome") != "executed" {
		t.Errorf("%d %v", a.status, a.header)
	}
	stopped.Store(false)
	close(goOn)
	if a = <-first; a.status != 201 || a.header.Get("Oncegate-Outcome") != "replayed" {
		t.Errorf("who was stopped is told %d %v", a.status, a.header)
	}
	if n := runs.Load(); n != 1 {
		t.Errorf("%d executions", n)
	}
}
