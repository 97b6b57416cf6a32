package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
)

// A write in doubt is not sent again once its upstream may have forgotten our
// key: not by the attempts of one claim, and not by those of a later one.
func TestNoAttemptAfterTheUpstreamKeyWindow(t *testing.T) {
	var first, last atomic.Int64 // of a call, in nanoseconds
	const window = 900 * time.Millisecond
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		now := time.Now().UnixNano()
		first.CompareAndSwap(0, now)
		last.Store(now)
		says(w, "") // it ran, or it did not
	}, window, func(tool *gateway.Tool, o *gateway.Options) {
		tool.Policy.Attempts, tool.Policy.TotalAttempts = 40, 40
		tool.Policy.Backoff.Base, tool.Policy.Backoff.Cap = 100*time.Millisecond, 200*time.Millisecond
		tool.Policy.Budget.Floor = 1000
	})
	if a := h.post("/tools/pay/x", `{}`, "Idempotency-Key", "k"); a.status != 424 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if d := time.Duration(last.Load() - first.Load()); d > window || d == 0 {
		t.Errorf("it was sent again %v after the first time", d)
	}
}

func TestARerunKeepsToTheFirstRunsWindow(t *testing.T) {
	var first, last atomic.Int64
	const window = 2 * time.Second
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		now := time.Now().UnixNano()
		first.CompareAndSwap(0, now)
		last.Store(now)
		says(w, "")
	}, window, func(tool *gateway.Tool, o *gateway.Options) {
		tool.Policy.Attempts, tool.Policy.TotalAttempts = 8, 8
		tool.Policy.Backoff.Base, tool.Policy.Backoff.Cap = 200*time.Millisecond, 400*time.Millisecond
		tool.Policy.Budget.Floor = 1000
	})
	for begun := time.Now(); time.Since(begun) < window; { // the last of them outlasts it
		h.post("/tools/pay/x", `{}`, "Idempotency-Key", "k")
	}
	if d := time.Duration(last.Load() - first.Load()); d > window || d < window/2 {
		t.Errorf("it was sent again %v after the first time", d)
	}
}

// stopped is the store of a process that is stopped for a while: it renews
// nothing meanwhile.
type stopped struct {
	cache.Store
	is   atomic.Bool
	goOn chan struct{}
}

func (s *stopped) Renew(ctx context.Context, h cache.Hold, lease time.Duration) (bool, error) {
	if s.is.Load() {
		<-s.goOn
	}
	return s.Store.Renew(ctx, h, lease)
}

// A leader that was stopped between two attempts sends nothing more if somebody
// said meanwhile that the first one did not happen, and another ran the write:
// the upstream would not know the two by one key.
func TestAStoppedLeaderDoesNotSendAgain(t *testing.T) {
	var runs atomic.Int64
	s := &stopped{goOn: make(chan struct{})}
	api := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if runs.Add(1) == 1 {
			s.is.Store(true)
			says(w, "")
			return
		}
		w.WriteHeader(201)
	}
	one := withTool(t, api, time.Hour, func(tool *gateway.Tool, o *gateway.Options) {
		o.Lease = 300 * time.Millisecond
		s.Store = o.Store
		o.Store = s
	})
	first := make(chan answer, 1)
	go func() { first <- one.post("/tools/pay/x", `{}`, "Idempotency-Key", "k") }()
	err := cache.ErrNone
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if page, _, _ := s.Records(t.Context(), cache.Filter{State: cache.Unknown}, "", 1); len(page) == 1 {
			err = s.Resolve(t.Context(), page[0].Key, cache.Resolution{
				Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}, Actor: "ops", Reason: "it is not there",
			})
		}
	}
	if err != nil {
		close(s.goOn)
		t.Fatal(err)
	}
	two := withTool(t, api, time.Hour, func(tool *gateway.Tool, o *gateway.Options) { o.Store = s.Store })
	if a := two.post("/tools/pay/x", `{}`, "Idempotency-Key", "k"); a.status != 201 {
		t.Errorf("%d %s", a.status, a.body)
	}
	close(s.goOn)
	if a := <-first; a.status != 424 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if n := runs.Load(); n != 2 {
		t.Errorf("it was sent %d times", n)
	}
	if a := one.post("/tools/pay/x", `{}`, "Idempotency-Key", "k"); a.status != 201 || a.header.Get("Oncegate-Outcome") != "replayed" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A call without a key is sent once, so that a conflict is the API's own word.
func TestAConflictOfAnUnkeyedWriteIsItsAnswer(t *testing.T) {
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(409)
		io.WriteString(w, `{"error":"there is one of that name"}`)
	}, time.Hour, nil)
	if a := h.post("/tools/pay/x", `{}`); a.status != 409 || !strings.Contains(a.body, "of that name") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
