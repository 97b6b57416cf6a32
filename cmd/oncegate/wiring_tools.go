package main

import (
	"context"
	"net/http"
	"strings"

	"oncegate/cmd/oncegate/config"
	"oncegate/gateway"
	"oncegate/providers"
)

// newTool makes the tool that the configuration describes. A mock's write API
// runs until ctx ends.
func newTool(ctx context.Context, c *config.Config, t config.Tool) (gateway.Tool, error) {
	if t.BaseURL == config.MockTool {
		address, err := startMock(ctx)
		if err != nil {
			return gateway.Tool{}, err
		}
		t.BaseURL = "http://" + address
	}
	policy := c.PolicyOfTool(t)
	own := make(http.Header, len(t.Headers))
	for name, value := range t.Headers {
		own.Set(name, value)
	}
	upstream, err := providers.NewTool(providers.ToolOptions{
		Name:              t.Name,
		BaseURL:           t.BaseURL,
		Header:            own,
		UpstreamKeyHeader: t.UpstreamKeyHeader,
		Timeouts:          policy.Timeouts,
		NotExecuted:       t.NotExecuted,
	})
	if err != nil {
		return gateway.Tool{}, err
	}
	tool := gateway.Tool{
		Name:              t.Name,
		Upstream:          upstream,
		KeyRequired:       t.Key == "required",
		KeyFrom:           t.KeyFrom,
		KeyFields:         t.KeyFields,
		Window:            t.Window,
		UpstreamKeyWindow: t.UpstreamKeyWindow,
		Wait:              t.Wait,
		Policy:            policy,
	}
	if t.Probe.Get != "" {
		tool.Probe = &gateway.Probe{Get: t.Probe.Get, Executed: t.Probe.Executed, AbsentAfter: t.Probe.AbsentAfter}
	}
	for _, r := range t.Reads {
		method, path, _ := strings.Cut(r, " ")
		tool.Reads = append(tool.Reads, gateway.ToolRead{Method: method, Path: path})
	}
	for _, name := range t.ReplayHeaders {
		tool.ReplayHeaders = append(tool.ReplayHeaders, http.CanonicalHeaderKey(name))
	}
	return tool, nil
}
