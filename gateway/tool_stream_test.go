package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"oncegate/gateway"
	"oncegate/providers"
)

// A stream of many small pieces costs what is in them.
func TestAStreamOfSmallPiecesIsSmall(t *testing.T) {
	const pieces = 4000
	done := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range pieces {
			io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
		}
		<-done
	}))
	defer api.Close()
	h := newHouse(t, nil, func(o *gateway.Options) {
		upstream, err := providers.NewTool(providers.ToolOptions{Name: "pay", BaseURL: api.URL})
		if err != nil {
			t.Fatal(err)
		}
		o.Tools = []gateway.Tool{{Name: "pay", Upstream: upstream}}
	})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	req, _ := http.NewRequest(http.MethodPost, h.url+"/tools/pay/x", strings.NewReader(`{}`))
	req.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, pieces*int64(len("data: x\n\n"))); err != nil {
		t.Fatal(err)
	}
	if grown := int64(heap()) - int64(before); grown > 8<<20 {
		t.Errorf("%d KiB are held for %d pieces of 9 bytes", grown>>10, pieces)
	}
	close(done)
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
		t.Errorf("%q %v", rest, err)
	}
}
