package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
	"oncegate/providers"
)

// panicsAt is a store with a bug: once, at a step of a write.
type panicsAt struct {
	cache.Store
	step  string
	after bool // the step has its effect first
	armed atomic.Bool
}

func (p *panicsAt) trip(step string, after bool) {
	if step == p.step && after == p.after && p.armed.Swap(false) {
		panic("a bug")
	}
}

func (p *panicsAt) Dispatch(ctx context.Context, h cache.Hold, n cache.Nonce) error {
	p.trip("dispatch", false)
	err := p.Store.Dispatch(ctx, h, n)
	p.trip("dispatch", true)
	return err
}

func (p *panicsAt) Settle(ctx context.Context, h cache.Hold, s cache.Settlement) error {
	p.trip("settle", false)
	err := p.Store.Settle(ctx, h, s)
	p.trip("settle", true)
	return err
}

// A panic after a write was dispatched leaves nobody waiting: they are told
// that nobody knows. The process lives, and nothing runs twice.
func TestAPanicLeavesAWriteInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		bug  func(*gateway.Options)
		want []int // what the first ones may be told
		runs int64 // at most
	}{
		"in the attempt": {func(o *gateway.Options) { o.Tools[0].Upstream = new(providers.Tool) }, []int{424}, 0},
		"at the dispatch": {func(o *gateway.Options) {
			o.Store = armed(&panicsAt{Store: o.Store, step: "dispatch"})
		}, []int{500, 201}, 1},
		"after the dispatch": {func(o *gateway.Options) {
			o.Store = armed(&panicsAt{Store: o.Store, step: "dispatch", after: true})
		}, []int{500, 424, 201}, 1},
		"at the settlement": {func(o *gateway.Options) {
			o.Store = armed(&panicsAt{Store: o.Store, step: "settle"})
		}, []int{424}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				runs.Add(1)
				w.WriteHeader(201)
			}))
			defer api.Close()
			h := newHouse(t, nil, func(o *gateway.Options) {
				for _, tool := range []string{"pay", "other"} {
					upstream, err := providers.NewTool(providers.ToolOptions{Name: tool, BaseURL: api.URL})
					if err != nil {
						t.Fatal(err)
					}
					o.Tools = append(o.Tools, gateway.Tool{Name: tool, Upstream: upstream})
				}
				c.bug(o)
			})
			answers := make([]answer, 8)
			var all sync.WaitGroup
			begun := time.Now()
			for i := range answers {
				all.Go(func() { answers[i] = h.post("/tools/pay/x", `{}`, "Idempotency-Key", "k") })
			}
			all.Wait()
			if d := time.Since(begun); d > time.Second {
				t.Errorf("somebody waited for %v", d)
			}
			for _, a := range append(answers, h.post("/tools/pay/x", `{}`, "Idempotency-Key", "k")) {
				if !strings.Contains(fmt.Sprint(c.want), fmt.Sprint(a.status)) {
					t.Errorf("%d %s, want one of %v", a.status, a.body, c.want)
				}
			}
			if n := runs.Load(); n > c.runs {
				t.Errorf("the write ran %d times", n)
			}
			h.await(`oncegate_inflight{operation="tools"} 0`)
			if a := h.post("/tools/other/x", `{}`, "Idempotency-Key", "k2"); a.status != 201 {
				t.Errorf("another write: %d %s", a.status, a.body)
			}
		})
	}
}

func armed(p *panicsAt) *panicsAt { p.armed.Store(true); return p }
