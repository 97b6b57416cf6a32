package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MockTool is the base_url of a tool that is the write API of the built-in
// mock upstream.
const MockTool = "mock"

// upstreamKeyWindow is how long an upstream is taken to remember its keys where
// the file does not say. Too long a time can run a write twice, too short a one
// leaves its outcome unknown; half of the shortest that is common, an hour.
const upstreamKeyWindow = 30 * time.Minute

func (d *decoder) checkTools(c *Config) {
	names := map[string]int{}
	for i := range c.Tools {
		t, at := &c.Tools[i], index("tools", i)
		d.checkName(at+".name", t.Name, names, i)
		switch path := at + ".base_url"; {
		case d.faulty(path) || t.BaseURL == MockTool:
		case t.BaseURL == "":
			d.faultAt(path, "is missing", "write it as https://api.example, or mock for the write API that is built in")
		default:
			d.checkURL(path, t.BaseURL, "https://api.example", "headers")
		}
		d.checkToolHeaders(at+".headers", t)
		d.checkToolKeys(c, at, t)
		d.checkUpstreamKey(at, t)
		for j, status := range t.NotExecuted {
			if slices.Index(t.NotExecuted, status) < j {
				d.faultAt(index(at+".not_executed", j), "stands twice", "remove one of them")
			}
		}
		d.checkProbe(at+".probe", t)
		for j, r := range t.Reads {
			d.checkRead(index(at+".reads", j), r)
		}
		d.checkReplayHeaders(at+".replay_headers", t)
	}
}

func (d *decoder) checkToolHeaders(at string, t *Tool) {
	seen := map[string]string{} // as written, by lower case
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		path, lower := join(at, name), strings.ToLower(name)
		what, mend := unsendable(lower)
		first, twice := seen[lower]
		switch {
		case d.faulty(path):
		case !headerName.MatchString(name):
			d.faultAt(path, strconv.Quote(name)+" is not a header name", "write it as Authorization")
		case what != "":
			d.faultAt(path, what, mend)
		case twice:
			d.faultAt(path, "is the same header as "+first, "keep one of them")
		case t.Headers[name] == "":
			d.faultAt(path, "is empty", `leave it out, or write "${NAME:-}" for a variable that may be missing`)
		case !headerValue(t.Headers[name]):
			d.faultAt(path, "holds a control character, or begins or ends with a space", "check how the secret is stored: it goes into a header as it is")
		default:
			seen[lower] = name
		}
	}
}

// checkToolKeys checks where the key of a write comes from.
func (d *decoder) checkToolKeys(c *Config, at string, t *Tool) {
	for j, p := range t.KeyFrom {
		path := index(at+".key_from", j)
		d.checkPointer(path, p, "/idempotency_key")
		if slices.Index(t.KeyFrom, p) < j {
			d.faultAt(path, "stands twice", "remove one of them")
		}
	}
	for j, p := range t.KeyFields {
		path := index(at+".key_fields", j)
		d.checkPointer(path, p, "/order_id")
		switch {
		case slices.Index(t.KeyFields, p) < j:
			d.faultAt(path, "stands twice", "remove one of them")
		case slices.Contains(t.KeyFrom, p):
			d.faultAt(path, strconv.Quote(p)+" stands in key_from, too: a body that has it has its key by that", "remove it from one of them")
		}
	}
	remembered := max(min(c.Dedupe.TTL.Tool, c.Dedupe.TTL.Max), c.Dedupe.TTL.Tombstone)
	switch path := at + ".window"; {
	case d.faulty(path) || d.faulty(at+".key_fields"):
	case len(t.KeyFields) > 0 && t.Window == 0:
		d.faultAt(path, "is missing", "say how long the same key_fields mean the same write, as 1h")
	case len(t.KeyFields) == 0 && t.Window > 0:
		d.faultAt(path, "is for key_fields, and there are none", "name the fields, or leave it out")
	case t.Window > remembered && !d.faulty("dedupe.ttl"):
		d.faultAt(path, "is longer than keys are remembered, "+formatDuration(remembered), "make it shorter, or dedupe.ttl.tombstone longer")
	}
}

func (d *decoder) checkUpstreamKey(at string, t *Tool) {
	name, path := t.UpstreamKeyHeader, at+".upstream_key_header"
	what, _ := unsendable(strings.ToLower(name))
	inHeaders := func(h string) bool { return strings.EqualFold(h, name) && !isKeyHeader(strings.ToLower(h)) } // which is a fault there
	switch {
	case name == "" || d.faulty(path):
	case !headerName.MatchString(name):
		d.faultAt(path, strconv.Quote(name)+" is not a header name", "write it as Idempotency-Key")
	case what != "" && !isKeyHeader(strings.ToLower(name)):
		d.faultAt(path, strconv.Quote(name)+" "+what, "name the header in which this API takes idempotency keys")
	case slices.Contains([]string{"authorization", "content-type", "cookie", "host"}, strings.ToLower(name)):
		d.faultAt(path, strconv.Quote(name)+" has another meaning", "name the header in which this API takes idempotency keys")
	case slices.ContainsFunc(slices.Collect(maps.Keys(t.Headers)), inHeaders):
		d.faultAt(path, strconv.Quote(name)+" stands in headers, too", "remove it there")
	}
	switch path := at + ".upstream_key_window"; {
	case d.faulty(path):
	case name == "" && t.UpstreamKeyWindow > 0:
		d.faultAt(path, "is for upstream_key_header, and there is none", "name the header in which this API takes idempotency keys, or leave it out")
	case name != "" && t.UpstreamKeyWindow == 0:
		t.UpstreamKeyWindow = upstreamKeyWindow
	}
}

// placeholder is one in the path of a probe; so is a brace that belongs to none.
var placeholder = regexp.MustCompile(`\{([^{}]*)\}|[{}]`)

func (d *decoder) checkProbe(at string, t *Tool) {
	p := t.Probe
	if p.Get == "" && p.Executed == "" && p.AbsentAfter == 0 {
		return
	}
	const example = "/v1/payments?ref={/ref}"
	rest := placeholder.ReplaceAllString(p.Get, "x")
	path, _, _ := strings.Cut(rest, "?")
	switch get := at + ".get"; {
	case d.faulty(get):
	case p.Get == "":
		d.faultAt(get, "is missing", "write the path of a GET that finds the write, as "+example)
	case !strings.HasPrefix(p.Get, "/"):
		d.faultAt(get, strconv.Quote(p.Get)+" is not a path", "write it under base_url, as "+example)
	case strings.ContainsFunc(rest, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		d.faultAt(get, strconv.Quote(p.Get)+" holds a space or a character that is none of a URL's", "write it in percent encoding, as %20")
	case strings.Contains(rest, "#"):
		d.faultAt(get, strconv.Quote(p.Get)+" has a fragment (#), which no server is sent", "end it before the #")
	case dotSegment(path):
		d.faultAt(get, strconv.Quote(p.Get)+" has a segment of dots", "write the path without it")
	case !placeholder.MatchString(p.Get):
		d.faultAt(get, strconv.Quote(p.Get)+" asks the same about every write", "name the write by {/pointer} into its body or {upstream_key}, as "+example)
	default:
		d.checkPlaceholders(get, t)
	}
	switch executed := at + ".executed"; {
	case d.faulty(executed):
	case p.Executed == "":
		d.faultAt(executed, "is missing", "name what only the answer about a write that happened has, as /data/0 or /id")
	default:
		d.checkPointer(executed, p.Executed, "/data/0 or /id")
	}
}

func (d *decoder) checkPlaceholders(at string, t *Tool) {
	for _, m := range placeholder.FindAllStringSubmatch(t.Probe.Get, -1) {
		switch {
		case m[0] == "{" || m[0] == "}":
			d.faultAt(at, fmt.Sprintf("%q has a %s that belongs to no placeholder", t.Probe.Get, m[0]), "write {/pointer} or {upstream_key}, and %7B or %7D for a brace")
		case m[1] == "upstream_key" && t.UpstreamKeyHeader == "":
			d.faultAt(at, "{upstream_key} is in no call, for there is no upstream_key_header", "name that header, or find the write by {/pointer} into its body")
		case m[1] == "upstream_key" || pointer(m[1]):
		default:
			d.faultAt(at, strconv.Quote(m[0])+" is no placeholder", "write {/pointer} for a value of the write's body, as {/ref}, or {upstream_key}")
		}
	}
}

// readPattern is a call that reads: a method, and a path whose segments are
// written out, {in braces} for any one, or at the end * for all below.
var readPattern = regexp.MustCompile(`^[A-Z][A-Z-]*(/([^/{}*?#\s]+|\{[^/{}*?#\s]+\}))*/?$`)

func (d *decoder) checkRead(at, r string) {
	method, path, _ := strings.Cut(r, " ")
	switch {
	case !readPattern.MatchString(method+strings.TrimSuffix(path, "*")) || !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "*") && !strings.HasSuffix(path, "/*"):
		d.faultAt(at, strconv.Quote(r)+" is not a method and a path", `write it as "POST /search", with {any} for one segment and /* at the end for all below`)
	case dotSegment(path):
		d.faultAt(at, strconv.Quote(r)+" has a segment of dots, and such calls are refused", "write the path without it")
	case method == "GET" || method == "HEAD" || method == "OPTIONS":
		d.faultAt(at, strconv.Quote(r)+" is a read by its method", "leave it out")
	}
}

// dotSegment says whether an escaped path has a segment . or ..
func dotSegment(path string) bool {
	plain := strings.NewReplacer("%2e", ".", "%2E", ".").Replace(path)
	return slices.ContainsFunc(strings.Split(plain, "/"), func(s string) bool { return s == "." || s == ".." })
}

func (d *decoder) checkReplayHeaders(at string, t *Tool) {
	for i, name := range t.ReplayHeaders {
		path := index(at, i)
		switch {
		case strings.Contains(name, "*"):
			d.faultAt(path, strconv.Quote(name)+" is a pattern", "name the headers one by one")
		case !headerName.MatchString(name):
			d.faultAt(path, strconv.Quote(name)+" is not a header name", "write it as X-Payment-Id")
		case neverReplayed(strings.ToLower(name)):
			d.faultAt(path, strconv.Quote(name)+" is never replayed: it belongs to the one answer that it came with", "leave it out")
		case slices.IndexFunc(t.ReplayHeaders, func(n string) bool { return strings.EqualFold(n, name) }) < i:
			d.faultAt(path, strconv.Quote(name)+" stands twice", "remove one of them")
		}
	}
}
