package config

import (
	"slices"
	"strings"
)

// hopByHop are the headers of one connection (RFC 9110, 7.6.1), in lower case.
var hopByHop = []string{"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}

// unsendable says why a header, in lower case, can't be one of a tool's own;
// empty: it can.
func unsendable(name string) (what, mend string) {
	switch {
	case slices.Contains(hopByHop, name):
		return "belongs to one connection, and is not forwarded", "leave it out"
	case name == "content-length" || name == "content-encoding" || name == "expect":
		return "is made for each body", "leave it out"
	case name == "accept-encoding":
		return "is the gateway's own: it asks for what it can read", "leave it out"
	case isKeyHeader(name):
		return "would be one key for all writes", "name it as upstream_key_header, and each write has its own"
	case strings.HasPrefix(name, "oncegate-"):
		return "is between clients and this gateway", "leave it out"
	}
	return "", ""
}

func isKeyHeader(name string) bool { return name == "idempotency-key" || name == "x-idempotency-key" }

// neverReplayed says whether a response header, in lower case, belongs to the
// one answer that it came with: to its client's session, its moment, its trace,
// its connection or its encoding.
func neverReplayed(name string) bool {
	switch name {
	case "set-cookie", "set-cookie2", "clear-site-data", "www-authenticate", "authentication-info", "proxy-authentication-info",
		"retry-after", "retry-after-ms", "x-should-retry", "date", "age", "idempotent-replayed",
		"content-length", "content-encoding", "content-range", "alt-svc", "strict-transport-security",
		"traceparent", "tracestate", "tracecontext", "baggage", "b3", "server-timing", "x-amzn-trace-id", "x-cloud-trace-context":
		return true
	}
	for _, beginning := range []string{"access-control-", "oncegate-", "ratelimit", "x-ratelimit", "x-rate-limit", "x-b3-", "uber-trace-id", "x-datadog-"} {
		if strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return slices.Contains(hopByHop, name)
}
