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

// join makes the URL of a call: path is escaped and begins with a slash,
// query is raw. Of a parameter that base_url names too, base_url's value is
// kept: its operator chose it. Nothing is decoded and encoded again.
func (b *base) join(path, query string) *url.URL {
	path = escapeRest(path)
	u := &url.URL{Scheme: b.scheme, Host: b.host, Path: b.path + path, RawQuery: b.mergeQuery(query)}
	if strings.IndexByte(path, '%') >= 0 || b.rawPath != b.path {
		if plain, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = b.path+plain, b.rawPath+path
		}
	}
	return u
}

// escapeRest escapes what no path may hold as it is (| or ", say), and nothing
// else: net/url would make a new path out of one with such a byte in it, in
// which %2F has become a slash.
func escapeRest(path string) string {
	const hex = "0123456789ABCDEF"
	for i := range len(path) {
		if inPath(path[i]) {
			continue
		}
		escaped := make([]byte, i, len(path)+8)
		copy(escaped, path)
		for _, c := range []byte(path[i:]) {
			if inPath(c) {
				escaped = append(escaped, c)
			} else {
				escaped = append(escaped, '%', hex[c>>4], hex[c&15])
			}
		}
		return string(escaped)
	}
	return path
}

// inPath reports whether c may stand in an escaped path (RFC 3986, section
// 3.3); brackets may in fact.
func inPath(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("/-._~!$&'()*+,;=:@%[]", c) >= 0
}

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
