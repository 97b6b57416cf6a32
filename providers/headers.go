package providers

import (
	"net/http"
	"net/textproto"
	"strings"
)

// kept takes out of an upstream's response headers what is between it and us
// only, or wrong once the body was read and decoded. It changes h.
func kept(h http.Header) http.Header {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range [...]string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Set-Cookie", "Set-Cookie2", "Content-Length", "Content-Encoding",
	} {
		delete(h, name)
	}
	return h
}

var (
	identity     = []string{"identity"}
	ourUserAgent = []string{"oncegate"}
	// defaultVersion is sent where a client named none: Anthropic refuses
	// requests without it, and has one version only.
	defaultVersion = []string{"2023-06-01"}
	eventStream    = []string{"text/event-stream"}
)

// notForwarded are request headers that stay here: hop-by-hop ones,
// credentials, and what is between the client and us.
var notForwarded = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Proxy-Connection": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Authorization": true, "X-Api-Key": true, "Api-Key": true, "Cookie": true,
	"Idempotency-Key": true, "X-Idempotency-Key": true, "Prefer": true, "Accept-Encoding": true,
	"Forwarded": true, "Openai-Organization": true, "Openai-Project": true,
	"Content-Length": true, "Content-Type": true, "Content-Encoding": true, "Expect": true, "Host": true,
}

func forwarded(name string) bool {
	return !notForwarded[name] && !strings.HasPrefix(name, "Oncegate-") &&
		!strings.HasPrefix(name, "X-Stainless-") && !strings.HasPrefix(name, "X-Forwarded-")
}

// forward gives those of a client's headers that go upstream, with room for
// some more. The values are shared; nobody changes them.
func forward(client http.Header, room int) http.Header {
	h := make(http.Header, len(client)+room)
	for name, values := range client {
		if forwarded(name) {
			h[name] = values
		}
	}
	for _, line := range client["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			delete(h, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	return h
}

// requestHeader is what goes upstream: the call's own headers and our
// credential.
func (r *Relay) requestHeader(c *Call, credential int) http.Header {
	h := forward(c.Header, 2)
	if c.ContentType != "" {
		h["Content-Type"] = []string{c.ContentType}
	}
	// An upstream that compresses would have us decode its answer, and hold back a stream.
	h["Accept-Encoding"] = identity
	if h["User-Agent"] == nil {
		h["User-Agent"] = ourUserAgent
	}
	native := r.kind == KindAnthropic || r.kind == KindMock && (c.Wire == Messages || c.Wire == CountTokens)
	if native && h["Anthropic-Version"] == nil {
		h["Anthropic-Version"] = defaultVersion
	}
	if credential >= 0 && credential < len(r.bearer) {
		if native {
			h["X-Api-Key"] = r.apiKey[credential]
		} else {
			h["Authorization"] = r.bearer[credential]
		}
	}
	return h
}

// mediaType is a Content-Type's type, lower case, without parameters.
func mediaType(h http.Header) string {
	v := h["Content-Type"]
	if len(v) == 0 {
		return ""
	}
	t, _, _ := strings.Cut(v[0], ";")
	return strings.ToLower(strings.TrimSpace(t))
}

func isJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json")
}
