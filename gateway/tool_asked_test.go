package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
	"oncegate/policy"
)

// An outcome whose record does not say what to ask is not asked for, whatever a
// repeat of the write says: anything else that is absent says nothing of it.
func TestNoProbeByAnotherBody(t *testing.T) {
	var runs, probes atomic.Int64
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			probes.Add(1)
			w.WriteHeader(404)
			return
		}
		if runs.Add(1) == 1 {
			says(w, "")
			return
		}
		w.WriteHeader(201)
	}, 0, func(tool *gateway.Tool, o *gateway.Options) {
		tool.KeyFields = []string{"/order"}
		tool.Probe = &gateway.Probe{Get: "/p?ref={/ref}", Executed: "/id", AbsentAfter: time.Nanosecond}
	})
	h.post("/tools/pay/x", `{"order":1}`)
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if a := h.post("/tools/pay/x", `{"order":1,"ref":"r"}`); a.status != 424 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if runs.Load() != 1 || probes.Load() != 0 {
		t.Errorf("it was sent %d times, and asked for %d times", runs.Load(), probes.Load())
	}
}

// sentLongAgo is a store whose records were first dispatched long ago.
type sentLongAgo struct {
	cache.Store
	resolved atomic.Bool
}

func (s *sentLongAgo) Record(ctx context.Context, k cache.Key) (cache.Record, error) {
	rec, err := s.Store.Record(ctx, k)
	rec.Dispatched = rec.Dispatched.Add(-time.Hour)
	return rec, err
}

func (s *sentLongAgo) Resolve(ctx context.Context, k cache.Key, r cache.Resolution) error {
	s.resolved.Store(true)
	return s.Store.Resolve(ctx, k, r)
}

// What was first sent long ago may have been sent again just now: absence is
// not believed because of the first time.
func TestAbsenceCountsFromTheLastAttempt(t *testing.T) {
	asked := make(chan bool, 100)
	s := new(sentLongAgo)
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			asked <- true
			w.WriteHeader(404)
			return
		}
		says(w, "")
	}, 0, func(tool *gateway.Tool, o *gateway.Options) {
		tool.Probe = &gateway.Probe{Get: "/p?ref={/ref}", Executed: "/id", AbsentAfter: time.Minute}
		s.Store = o.Store
		o.Store = s
	})
	h.post("/tools/pay/x", `{"ref":"r"}`, "Idempotency-Key", "k")
	for range 2 { // the second time says that the first was in vain
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Fatal("it was not asked for again")
		}
	}
	if s.resolved.Load() {
		t.Error("it was taken for one that did not happen")
	}
}

// Outcomes that are never found do not keep the gateway from asking for others.
func TestProbesMakeRoom(t *testing.T) {
	const lost = 256
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		switch {
		case r.Method != http.MethodGet:
			says(w, "")
		case r.URL.Query().Get("ref") == "found":
			io.WriteString(w, `{"id":1}`)
		default:
			w.WriteHeader(404)
		}
	}, 0, func(tool *gateway.Tool, o *gateway.Options) {
		tool.Policy.Breaker.Switch = policy.Off
		tool.Probe = &gateway.Probe{Get: "/p?ref={/ref}", Executed: "/id"}
	})
	for i := range lost {
		h.post("/tools/pay/x", `{"ref":"lost"}`, "Idempotency-Key", strconv.Itoa(i))
	}
	var a answer
	for end := time.Now().Add(10 * time.Second); a.status != 200 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		a = h.post("/tools/pay/x", `{"ref":"found"}`, "Idempotency-Key", "found")
	}
	if a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
