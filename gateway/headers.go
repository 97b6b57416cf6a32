package gateway

import (
	"net/http"
	"strings"
)

// sharedHeader says whether a header of an upstream's answer is for every
// reader of the record, or for the leader's own client only.
func sharedHeader(name string) bool {
	switch name {
	case "Content-Type", "X-Request-Id", "Request-Id":
		return true
	case "Openai-Organization", "Openai-Project", "Anthropic-Organization-Id":
		return false
	}
	return strings.HasPrefix(name, "Openai-") ||
		strings.HasPrefix(name, "Anthropic-") && !strings.HasPrefix(name, "Anthropic-Ratelimit") && !strings.HasPrefix(name, "Anthropic-Priority")
}

// ownedHeader says that a header is ours to set, whatever the upstream said.
func ownedHeader(name string) bool {
	switch name {
	case "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Idempotent-Replayed", "Age", "Date", "Set-Cookie", "Content-Length":
		return true
	}
	return strings.HasPrefix(name, "Oncegate-") || strings.HasPrefix(name, "Access-Control-")
}

// split parts an upstream's headers into those for every reader and those for
// the leader's client alone.
func split(h http.Header) (shared, own map[string][]string) {
	shared = make(map[string][]string, 4)
	for name, values := range h {
		switch {
		case ownedHeader(name):
		case sharedHeader(name):
			shared[name] = values
		default:
			if own == nil {
				own = make(map[string][]string, len(h))
			}
			own[name] = values
		}
	}
	return shared, own
}
