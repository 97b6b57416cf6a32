package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"oncegate/cache"
	"oncegate/gateway"
)

// takenOver is a store at which another takes over the first claim before it is
// dispatched.
type takenOver struct {
	cache.Store
	goOn   chan struct{}
	before atomic.Bool
}

func (s *takenOver) Dispatch(ctx context.Context, h cache.Hold, n cache.Nonce) error {
	if !s.before.Swap(true) {
		<-s.goOn
		return cache.ErrFenced
	}
	return s.Store.Dispatch(ctx, h, n)
}

// The room of a body is given back though the claim was lost after its client
// had left.
func TestALostClaimGivesItsRoomBack(t *testing.T) {
	s := &takenOver{goOn: make(chan struct{})}
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(201)
	}, 0, func(tool *gateway.Tool, o *gateway.Options) {
		o.Buffered = 1000
		s.Store = o.Store
		o.Store = s
	})
	body := `{"a":"` + strings.Repeat("x", 600) + `"}`
	if a := h.post("/tools/pay/x", body, "Idempotency-Key", "k", "Oncegate-Timeout", "20ms"); a.status != 504 {
		t.Errorf("%d %s", a.status, a.body)
	}
	close(s.goOn)
	h.await(`oncegate_inflight{operation="tools"} 0`)
	if a := h.post("/tools/pay/x", body, "Idempotency-Key", "k2"); a.status != 201 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
