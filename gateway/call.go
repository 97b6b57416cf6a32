package gateway

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"oncegate/cache"
	"oncegate/providers"
)

// call is one request that was understood: what goes upstream, under which
// key, and how long its client waits.
type call struct {
	op    *operation
	who   principal
	route *route // where its model leads
	user  string
	up    providers.Call

	key         cache.Key
	fingerprint [32]byte // of an explicit key
	explicit    bool
	mode        cache.Mode
	retry       bool
	ttl         time.Duration // as the request asked; 0: the configured one
	nonce       string
	arrived     time.Time
	wantsUsage  bool // the client asked for the usage of a stream

	until time.Time // when the client must have its status line; zero: whenever
	wait  time.Time // a follower: when it must have its first byte, else 409

	release func() // gives back the room that the body took
}

// read understands a request, or refuses it. What it costs to find out that a
// request is no good is spent in this order: its headers, the size it states,
// its body, its key.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request, op *operation, who principal) (*call, *refusal) {
	c := &call{op: op, who: who, release: func() {}}
	asked, refused := c.readHeaders(r.Header, g.opt.Dedupe.Wait)
	if refused != nil {
		return nil, refused
	}
	body, release, refused := g.readBody(w, r)
	if refused != nil {
		return nil, refused
	}
	c.release = release
	c.up = providers.Call{
		Wire: op.wire, Method: r.Method, Path: op.path, Query: r.URL.RawQuery,
		Header: forwarded(r.Header), ContentType: r.Header.Get("Content-Type"), Body: body,
	}
	if refused = g.understand(c, r, asked); refused != nil {
		release()
		return nil, refused
	}
	return c, nil
}

func (g *Gateway) understand(c *call, r *http.Request, asked *cache.Mode) *refusal {
	if c.op == &passthrough {
		c.up.Path = strings.TrimPrefix(r.URL.EscapedPath(), "/v1")
		c.route, c.mode = g.routes.passthrough, cache.Off
		if !c.who.may("") { // which model it is for can't be known
			return passthroughNotAllowed
		}
		return nil
	}
	doc, refused := c.parse()
	if refused != nil {
		return refused
	}
	c.up.Model, c.up.Stream, c.wantsUsage = doc.model, doc.stream, doc.includeUsage
	if c.user == "" {
		c.user = doc.user
	}
	if c.route, refused = g.routes.find(c.up.Model, c.op); refused != nil {
		return refused
	}
	if !c.who.may(c.up.Model) {
		return notAllowed(c.up.Model)
	}
	c.mode = g.mode(asked, c.who, c.route, c.op)
	if refused = c.readKey(r.Header); refused != nil {
		return refused
	}
	g.setKey(c, doc, r.Header)
	return nil
}

// readHeaders reads what the contract's request headers say. A bad value of
// one of ours is refused; of others it is ignored.
func (c *call) readHeaders(h http.Header, wait time.Duration) (mode *cache.Mode, _ *refusal) {
	now := time.Now()
	c.arrived, c.wait = now, now.Add(wait)
	if v, ok := one(h, "Oncegate-Dedupe"); ok {
		m, ok := ParseMode(v)
		if !ok {
			return nil, badHeader("Oncegate-Dedupe", "off, retries, duplicates or always")
		}
		mode = &m
	}
	if v, ok := one(h, "Oncegate-Retry"); ok {
		if v != "1" && v != "0" {
			return nil, badHeader("Oncegate-Retry", "1")
		}
		c.retry = v == "1"
	}
	if v, ok := one(h, "Oncegate-Timeout"); ok {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return nil, badHeader("Oncegate-Timeout", "a duration like 30s")
		}
		c.until = now.Add(d)
	}
	if v, ok := one(h, "Oncegate-Ttl"); ok {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return nil, badHeader("Oncegate-TTL", "a duration like 10m")
		}
		c.ttl = d
	}
	if v, ok := one(h, "Oncegate-User"); ok {
		if len(v) > 256 {
			return nil, badHeader("Oncegate-User", "at most 256 characters")
		}
		c.user = v
	}
	if v, ok := one(h, "Oncegate-Nonce"); ok {
		if len(v) > 256 {
			return nil, badHeader("Oncegate-Nonce", "at most 256 characters")
		}
		c.nonce = v
	}
	if v, ok := one(h, "X-Stainless-Retry-Count"); ok {
		if n, err := strconv.Atoi(v); err == nil && n >= 1 {
			c.retry = true
		}
	}
	for _, name := range [...]string{"X-Stainless-Timeout", "X-Stainless-Read-Timeout"} {
		v, ok := one(h, name)
		if !ok {
			continue
		}
		// openai-node sends 0 for times under a second.
		s, err := strconv.ParseFloat(v, 64)
		if err != nil || !(s > 1 && s < 1e6) {
			continue
		}
		if t := now.Add(time.Duration(s * float64(time.Second))); c.until.IsZero() || t.Before(c.until) {
			c.until = t
		}
	}
	for _, v := range h["Prefer"] {
		for p := range strings.SplitSeq(v, ",") {
			name, n, _ := strings.Cut(strings.TrimSpace(p), "=")
			if s, err := strconv.Atoi(strings.TrimSpace(n)); err == nil && s >= 0 && s < 1e6 && strings.EqualFold(strings.TrimSpace(name), "wait") {
				if t := now.Add(time.Duration(s) * time.Second); t.Before(c.wait) {
					c.wait = t
				}
			}
		}
	}
	return mode, nil
}

// one gives a header's only value.
func one(h http.Header, name string) (string, bool) {
	v := h[name]
	if len(v) == 0 {
		return "", false
	}
	return strings.TrimSpace(v[0]), true
}

// ParseMode reads a mode's name.
func ParseMode(s string) (cache.Mode, bool) {
	switch strings.ToLower(s) {
	case "off":
		return cache.Off, true
	case "retries":
		return cache.Retries, true
	case "duplicates":
		return cache.Duplicates, true
	case "always":
		return cache.Always, true
	}
	return 0, false
}

// document is what the gateway itself reads in a body.
type document struct {
	model, user  string
	stream       bool
	includeUsage bool
	members      []member // JSON: top-level members, in their order
	raw          bool     // can't be made canonical: keyed on its bytes
	parts        []part   // multipart
}

func (c *call) parse() (document, *refusal) {
	if c.op.form {
		return parseForm(c.up.ContentType, c.up.Body)
	}
	if len(bytes.TrimSpace(c.up.Body)) == 0 {
		return document{}, badBody("the body is empty; a JSON object was expected", "")
	}
	d, refused := parseJSON(c.up.Body)
	if refused != nil {
		return d, refused
	}
	if d.model == "" && !c.op.noModel {
		return d, badBody("you must provide a model parameter", "model")
	}
	return d, nil
}
