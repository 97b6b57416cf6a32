package providers

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// notConfigured are request headers that are the transport's own: a tool's
// config can't set them.
var notConfigured = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Expect", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// setHeaders takes the tool's own headers over and returns their faults, which
// show no value.
func (t *Tool) setHeaders(o *ToolOptions) (faults []error) {
	t.header = make(http.Header, len(o.Header))
	for name, values := range o.Header {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !isToken(name):
			faults = append(faults, fmt.Errorf("headers: %q can't be the name of a header", name))
		case slices.Contains(notConfigured, canonical):
			faults = append(faults, fmt.Errorf("headers: %s is set with each call as it needs it, leave it out", canonical))
		case t.header[canonical] != nil:
			faults = append(faults, fmt.Errorf("headers: %s is there twice, in two spellings", canonical))
		case slices.ContainsFunc(values, func(v string) bool { return !fitsHeader(v) }):
			faults = append(faults, fmt.Errorf("headers: %s is empty, has a space at its end, or holds a line break or another character that no header may carry", canonical))
		}
		t.header[canonical] = slices.Clone(values)
	}
	if hosts := t.header["Host"]; len(hosts) > 0 {
		t.host = hosts[0]
		delete(t.header, "Host")
	}
	if o.UpstreamKeyHeader == "" {
		return faults
	}
	t.keyHeader = textproto.CanonicalMIMEHeaderKey(o.UpstreamKeyHeader)
	switch {
	case !isToken(o.UpstreamKeyHeader):
		faults = append(faults, fmt.Errorf("upstream_key_header: %q can't be the name of a header", o.UpstreamKeyHeader))
	case slices.Contains(notConfigured, t.keyHeader), slices.Contains([]string{"Authorization", "Content-Type", "Cookie", "Host"}, t.keyHeader):
		faults = append(faults, fmt.Errorf("upstream_key_header: %s has another use, no API takes a key there", t.keyHeader))
	case t.header[t.keyHeader] != nil:
		faults = append(faults, fmt.Errorf("upstream_key_header: %s is among headers too, which would give every call the same key", t.keyHeader))
	}
	return faults
}

// requestHeader is what goes to the tool: the client's headers, over them the
// tool's own, and our key. The key's header is never the client's: it would
// name a call that may be another client's.
func (t *Tool) requestHeader(c *ToolCall) http.Header {
	h := forward(c.Header, len(t.header)+4)
	for _, name := range [...]string{"Content-Type", "Content-Encoding"} {
		if values := c.Header[name]; len(values) > 0 {
			h[name] = values
		}
	}
	// An answer is kept, and given on, as it is without an encoding.
	h["Accept-Encoding"] = identity
	if h["User-Agent"] == nil {
		h["User-Agent"] = ourUserAgent
	}
	maps.Copy(h, t.header)
	if t.keyHeader != "" {
		delete(h, t.keyHeader)
		if c.UpstreamKey != "" {
			h[t.keyHeader] = []string{c.UpstreamKey}
		}
	}
	return h
}

// leastSecret is how long what only a header's name gives away as a credential
// is at least: less is more likely a word, and stands in texts.
const leastSecret = 8

// headerSecrets are what looks like a credential in a tool's own headers: the
// whole value, that after its scheme, and a cookie's value or a password within.
func headerSecrets(h http.Header) (found []string) {
	for name, values := range h {
		for _, v := range values {
			scheme, credential, spaced := strings.Cut(v, " ")
			known := spaced && (strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Basic"))
			if !known && (len(v) < leastSecret || !namesSecret(name)) {
				continue
			}
			found = append(found, v)
			switch {
			case name == "Cookie":
				for part := range strings.SplitSeq(v, ";") {
					if _, value, _ := strings.Cut(strings.TrimSpace(part), "="); len(value) >= leastSecret {
						found = append(found, value)
					}
				}
			case spaced:
				found = append(found, strings.TrimSpace(credential))
			}
			if spaced && strings.EqualFold(scheme, "Basic") {
				if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(credential)); err == nil {
					_, password, _ := strings.Cut(string(plain), ":")
					found = append(found, string(plain), password)
				}
			}
		}
	}
	return found
}

// isToken reports whether s can be the name of a header (RFC 9110, section
// 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}
