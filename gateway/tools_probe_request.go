package gateway

import (
	"net/url"
	"strings"
)

// request is the path and the query that ask about one write, both escaped.
// value gives the text or the number that a JSON pointer into its body points
// at. Not ok: it can't be asked about, for a value is missing, or one that
// would ask about something else: an empty one about all, dots about what
// stands above.
func (p *Probe) request(upstreamKey string, value func(pointer string) (string, bool)) (path, query string, ok bool) {
	var b strings.Builder
	for rest := p.Get; ; {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		v, there := upstreamKey, true
		if name != "upstream_key" {
			v, there = value(name)
		}
		if !there || strings.Trim(v, ".") == "" {
			return "", "", false
		}
		b.WriteString(strings.ReplaceAll(url.QueryEscape(v), "+", "%20")) // fits a path and a query
		rest = tail
	}
	path, query, _ = strings.Cut(b.String(), "?")
	return path, query, true
}
