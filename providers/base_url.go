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

// parseBase reads a base_url. One without a path gets /v1; any other path is
// kept as it is, but for slashes at its end. Its query goes with every call.
func parseBase(s string) (base, error) {
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
		return base{}, errors.New("must not hold a user or password: put the credential in api_keys")
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
		b.path, b.rawPath = "/v1", "/v1"
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
	u := &url.URL{Scheme: b.scheme, Host: b.host, Path: b.path + path, RawQuery: b.mergeQuery(query)}
	if strings.IndexByte(path, '%') >= 0 || b.rawPath != b.path {
		if plain, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = b.path+plain, b.rawPath+path
		}
	}
	return u
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
		name := strings.ToLower(parameter(part))
		for _, word := range []string{"key", "token", "secret", "password", "sig"} {
			if strings.Contains(name, word) && value != "" {
				found = append(found, value)
				if plain, err := url.QueryUnescape(value); err == nil && plain != value {
					found = append(found, plain)
				}
				break
			}
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
