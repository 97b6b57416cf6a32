package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
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
	order []*target
	user  string // as the request says; enters derived keys
	up    providers.Call
	tool  *toolCall // nil: a completion

	key         cache.Key
	fingerprint [32]byte // of an own key
	mode        cache.Mode
	retry       bool
	ttl         time.Duration // as the request asked; 0: the configured one
	nonce       string
	ownKey      string // the caller's Idempotency-Key
	arrived     time.Time
	wantsUsage  bool // the client asked for the usage of a stream

	until time.Time // when the client must have its status line; zero: whenever
	wait  time.Time // a follower: when it must have its first byte, else 409; zero: whenever

	endUser  string // for the ledger: user, else who the body says
	bypassed bool   // runs without protection: the store is away

	size    int // of the body, in bytes
	body    *document
	release func()      // gives back the room that the body took; again it does nothing
	left    atomic.Bool // of a tool's leader: its client reads no more
}

// explicit says that the caller named the call by a key of its own.
func (c *call) explicit() bool { return c.ownKey != "" || c.tool != nil && c.tool.write != nil }

// targets are the places that it may be served from, in the order that they are
// to be tried: the same one each time.
func (c *call) targets() []*target {
	if c.order == nil {
		c.order = c.route.order(c.op.wire)
	}
	return c.order
}

// forget lets go of the request: its answer comes from elsewhere, or has come.
func (c *call) forget() {
	c.release()
	c.up.Body, c.up.Header = nil, nil
	if c.tool != nil {
		c.tool.up.Body, c.tool.up.Header = nil, nil
	}
}

// read understands a request, or refuses it. What it costs to find out that a
// request is no good is spent in this order: its headers, the size it states,
// its body, its key.
func (g *Gateway) read(w http.ResponseWriter, r *http.Request, ev *event, who principal) (*call, *refusal) {
	op := ev.op
	if op == &toolCalls {
		return g.readTool(w, r, ev, who)
	}
	c := &call{op: op, who: who, release: func() {}}
	asked, refused := c.readHeaders(r.Header, g.opt.Dedupe.Wait)
	if refused != nil {
		return nil, refused
	}
	if op != &passthrough {
		if refused = c.readKey(r.Header); refused != nil {
			return nil, refused
		}
	}
	body, release, refused := g.readBody(w, r)
	if refused != nil {
		return nil, refused
	}
	c.release, c.size = release, len(body)
	c.up = providers.Call{
		Wire: op.wire, Method: r.Method, Path: op.path, Query: r.URL.RawQuery,
		Header: r.Header, ContentType: r.Header.Get("Content-Type"), Body: body,
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
		c.route, c.mode, c.endUser = g.routes.passthrough, cache.Off, c.user
		if !c.who.may("") { // which model it is for can't be known
			return passthroughNotAllowed
		}
		return nil
	}
	doc, refused := g.document(c)
	if refused != nil {
		return refused
	}
	c.body, c.up.Model, c.up.Stream, c.wantsUsage = doc, doc.model, doc.stream, doc.includeUsage
	if c.endUser = c.user; c.endUser == "" {
		c.endUser = doc.user()
	}
	if c.route, refused = g.routes.find(c.up.Model, c.op); refused != nil {
		return refused
	}
	if !c.who.may(c.up.Model) {
		return notAllowed(c.up.Model)
	}
	c.mode = g.mode(asked, c.who, c.route, c.op)
	if c.route.total <= g.opt.Dedupe.Wait && c.wait.Equal(c.arrived.Add(g.opt.Dedupe.Wait)) {
		c.wait = time.Time{} // whatever it may join has ended by then
	}
	return nil
}

// readHeaders reads what the contract's request headers say. A bad value of
// one of ours is refused; of others it is ignored.
func (c *call) readHeaders(h http.Header, wait time.Duration) (mode *cache.Mode, _ *refusal) {
	now := time.Now()
	c.arrived, c.wait = now, now.Add(wait)
	for name, values := range h {
		if len(values) > 1 && strings.HasPrefix(name, "Oncegate-") {
			return nil, badHeader(name, "sent once")
		}
	}
	if v, ok := one(h, "Oncegate-Dedupe"); ok {
		m, ok := cache.ParseMode(v)
		if !ok {
			return nil, badHeader("Oncegate-Dedupe", "off, retries, duplicates or always")
		}
		mode = &m
	}
	for _, name := range [...]string{"Oncegate-Retry", "Oncegate-Retry-Unknown"} {
		v, ok := one(h, name)
		if ok && v != "1" && v != "0" {
			return nil, badHeader(name, "1")
		}
		c.retry = c.retry || ok && v == "1" && name == "Oncegate-Retry"
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

// one gives a header's value, the first if there are several.
func one(h http.Header, name string) (string, bool) {
	v := h[name]
	if len(v) == 0 {
		return "", false
	}
	return strings.TrimSpace(v[0]), true
}
