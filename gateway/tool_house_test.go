package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"oncegate/gateway"
	"oncegate/policy"
	"oncegate/providers"
)

// withTool is a house with an API behind its tool pay. keys: the API knows keys
// of ours, for so long.
func withTool(t *testing.T, api http.HandlerFunc, keys time.Duration, change func(*gateway.Tool, *gateway.Options)) *house {
	t.Helper()
	s := httptest.NewServer(api)
	t.Cleanup(s.Close)
	return newHouse(t, nil, func(o *gateway.Options) {
		to := providers.ToolOptions{Name: "pay", BaseURL: s.URL}
		if keys > 0 {
			to.UpstreamKeyHeader = "Idempotency-Key"
		}
		upstream, err := providers.NewTool(to)
		if err != nil {
			t.Fatal(err)
		}
		o.Tools = []gateway.Tool{{
			Name: "pay", Upstream: upstream, UpstreamKeyWindow: keys, Window: time.Hour,
			Policy: policy.Config{Backoff: policy.Backoff{Base: 10 * time.Millisecond}},
		}}
		if change != nil {
			change(&o.Tools[0], o)
		}
	})
}

// says answers with these bytes, and closes the connection.
func says(w http.ResponseWriter, text string) {
	c, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	buf.WriteString(text)
	buf.Flush()
	c.Close()
}
