package providers

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// base is an upstream's base URL, taken apart once.
type base struct {
	scheme, host string
	path         string // decoded, without a trailing slash
	rawPath      string // escaped, without a trailing slash
	query        string // raw
	names        map[string]bool
}

// parseBase reads a base_url. One without a path gets root; any other path is
// kept as it is, but for slashes at its end. Its query goes with every call.
func parseBase(s, root string) (base, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil {
		// The URL may hold a key: url.Error quotes it, its cause does not.
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return base{}, fmt.Errorf("is not a URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.Opaque != "":
		return base{}, errors.New("must begin with http:// or https:// and name a host")
	case u.User != nil:
		return base{}, errors.New("must not hold a user or password: put the credential in api_keys, a tool's in headers")
	case u.Fragment != "":
		return base{}, errors.New("must not hold a fragment (#)")
	}
	b := base{
		scheme:  u.Scheme,
		host:    u.Host,
		path:    strings.TrimRight(u.Path, "/"),
		rawPath: strings.TrimRight(u.EscapedPath(), "/"),
		query:   u.RawQuery,
	}
	if b.rawPath == "" {
		b.path, b.rawPath = root, root
	}
	if b.query != "" {
		b.names = map[string]bool{}
		for part := range strings.SplitSeq(b.query, "&") {
			b.names[parameter(part)] = true
		}
	}
	return b, nil
}

// join makes the URL of a call: path is escaped, query is raw. Of a parameter
// that base_url names too, base_url's value is kept: its operator chose it.
// Nothing is decoded and encoded again.
func (b *base) join(path, query string) *url.URL {
	path = escapeRest(path, inPath)
	if path != "" && path[0] != '/' {
		path = "/" + path
	}
	// net/url goes by RawPath as long as it is Path escaped, and would escape
	// parentheses and the like by itself.
	u := &url.URL{Scheme: b.scheme, Host: b.host, RawPath: b.rawPath + path, RawQuery: b.mergeQuery(escapeRest(query, inQuery))}
	u.Path = u.RawPath
	if strings.IndexByte(u.RawPath, '%') < 0 {
		return u
	}
	if plain, err := url.PathUnescape(path); err == nil {
		u.Path = b.path + plain
	}
	return u
}

// escapeRest escapes the bytes that are not allowed as they are, and nothing
// else. net/url would make a new path of one with such a byte in it (| or ",
// say), in which %2F has become a slash.
func escapeRest(s string, allowed func(byte) bool) string {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if allowed(s[i]) {
			continue
		}
		escaped := make([]byte, i, len(s)+8)
		copy(escaped, s)
		for _, c := range []byte(s[i:]) {
			if allowed(c) {
				escaped = append(escaped, c)
			} else {
				escaped = append(escaped, '%', hex[c>>4], hex[c&15])
			}
		}
		return string(escaped)
	}
	return s
}

// inPath reports whether c may stand in an escaped path (RFC 3986, section
// 3.3); brackets may in fact.
func inPath(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("/-._~!$&'()*+,;=:@%[]", c) >= 0
}

// inQuery reports whether c may go out in a query: all that does not end the
// request's line.
func inQuery(c byte) bool { return c > ' ' && c != 0x7f }

// address is where to connect to.
func (b *base) address() string {
	u := url.URL{Host: b.host}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[b.scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func (b *base) mergeQuery(query string) string {
	if b.query == "" || query == "" {
		return b.query + query
	}
	var merged strings.Builder
	merged.WriteString(b.query)
	for part := range strings.SplitSeq(query, "&") {
		if part == "" || b.names[parameter(part)] {
			continue
		}
		merged.WriteByte('&')
		merged.WriteString(part)
	}
	return merged.String()
}

// secrets are the values in base_url's query that look like credentials.
func (b *base) secrets() []string {
	var found []string
	for part := range strings.SplitSeq(b.query, "&") {
		_, value, _ := strings.Cut(part, "=")
		if value == "" || !namesSecret(parameter(part)) {
			continue
		}
		found = append(found, value)
		if plain, err := url.QueryUnescape(value); err == nil && plain != value {
			found = append(found, plain)
		}
	}
	return found
}

// parameter is the decoded name of one part of a query.
func parameter(part string) string {
	name, _, _ := strings.Cut(part, "=")
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}
