package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"oncegate/cmd/oncegate/config"
	"oncegate/gateway"
	"oncegate/policy"
	"oncegate/providers"
)

// What the file says of a tool is what the gateway has.
func TestToolsReachTheGateway(t *testing.T) {
	calls := make(chan *http.Request, 1)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls <- r
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer up.Close()
	conf, err := config.Load(config.Source{File: "config.yaml", Data: []byte(`
policy: {attempts: 4}
tools:
  - name: payments
    base_url: "${UP}/api"
    headers: {authorization: "Bearer hunter2"}
    key: required
    key_from: [/idempotency_key]
    key_fields: [/order_id]
    window: 1h
    upstream_key_header: Idempotency-Key
    not_executed: [503]
    probe: {get: "/v1?ref={/ref}", executed: /data/0, absent_after: 1m}
    reads: ["POST /search", "PUT /a/*"]
    replay_headers: [x-payment-id]
    policy: {timeouts: {first_byte: 9s}}
  - {name: plain, base_url: mock}
`), Env: []string{"UP=" + up.URL}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	got, err := newTool(ctx, conf, conf.Tools[0])
	if err != nil {
		t.Fatal(err)
	}
	p := got.Policy
	if p.Attempts != 4 || p.Timeouts.FirstByte != 9*time.Second || p.Timeouts.Idle != 5*time.Minute {
		t.Errorf("policy: %+v", p)
	}
	want := gateway.Tool{
		Name: "payments", Upstream: got.Upstream, KeyRequired: true, KeyFrom: []string{"/idempotency_key"}, KeyFields: []string{"/order_id"}, Window: time.Hour,
		UpstreamKeyWindow: 30 * time.Minute,
		Probe:             &gateway.Probe{Get: "/v1?ref={/ref}", Executed: "/data/0", AbsentAfter: time.Minute},
		Reads:             []gateway.ToolRead{{Method: "POST", Path: "/search"}, {Method: "PUT", Path: "/a/*"}}, ReplayHeaders: []string{"X-Payment-Id"},
		Wait: 30 * time.Second, Policy: p,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	status, failure := try(t, got)
	if r := <-calls; r.URL.Path != "/api/payments" || r.Header.Get("Authorization") != "Bearer hunter2" || r.Header.Get("Idempotency-Key") != "ours" {
		t.Errorf("the upstream got %v %v", r.URL, r.Header)
	}
	if status != 503 || !failure.NotExecuted {
		t.Errorf("%d %+v", status, failure)
	}
	plain, err := newTool(ctx, conf, conf.Tools[1])
	if err != nil || plain.KeyRequired || plain.Probe != nil || plain.UpstreamKeyWindow != 0 {
		t.Errorf("%+v %v", plain, err)
	}
	if status, failure := try(t, plain); status != 201 || failure != nil {
		t.Errorf("the mock's write API: %d %+v", status, failure)
	}
}

// try makes a payment.
func try(t *testing.T, tool gateway.Tool) (int, *policy.Failure) {
	t.Helper()
	answer, err := tool.Upstream.Try(t.Context(), &providers.ToolCall{
		Method: "POST", Path: "/payments", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"ref":"r"}`), UpstreamKey: "ours", Write: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	return answer.Status(), answer.Failure()
}
