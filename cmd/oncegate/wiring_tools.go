package main

import (
	"context"
	"net/http"
	"strings"

	"oncegate/cmd/oncegate/config"
	"oncegate/gateway"
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
	tool := gateway.Tool{
		Name:              t.Name,
		KeyRequired:       t.Key == "required",
		KeyFrom:           t.KeyFrom,
		KeyFields:         t.KeyFields,
		Window:            t.Window,
		UpstreamKeyWindow: t.UpstreamKeyWindow,
		NotExecuted:       t.NotExecuted,
		Wait:              t.Wait,
		Policy:            c.PolicyOfTool(t),
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

// toolHeaders are the headers that a tool's every call gets.
func toolHeaders(t config.Tool) http.Header {
	own := make(http.Header, len(t.Headers))
	for name, value := range t.Headers {
		own.Set(name, value)
	}
	return own
}
