package mock

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// paymentCall is a request to the write API apart from the connection that it came
// on, which its effect may outlive.
type paymentCall struct {
	store       *payments // as it was then: a Reset in between begins another
	ask         *ask
	method      string
	base        string // the collection's path
	id, action  string // unescaped; "" for the collection, or for none
	query       url.Values
	accept      string
	contentType string
	key         string
	pad, chunks int // of the step

	// Guarded by Mock.mu.
	claimed  *claim
	own      answer // what the API itself answers, once known
	decided  bool   // by the key: own is known and there will be no effect
	replayed bool
	executed bool
	late     bool // the effect is still to come, on no connection
}

func newPaymentCall(store *payments, r *http.Request, a *ask, s *Step, key string) *paymentCall {
	path := strings.TrimSuffix(r.URL.EscapedPath(), "/")
	if !strings.Contains(path+"/", "/payments/") { // it is escaped itself
		path = strings.TrimSuffix(r.URL.Path, "/")
	}
	end := strings.LastIndex(path+"/", "/payments/") + len("/payments")
	c := &paymentCall{
		store: store, ask: a, method: r.Method, base: path[:end], query: r.URL.Query(), key: key,
		accept: r.Header.Get("Accept"), contentType: r.Header.Get("Content-Type"), pad: s.Pad, chunks: s.Chunks,
	}
	id, action, _ := strings.Cut(strings.TrimPrefix(path[end:], "/"), "/")
	c.id, _ = url.PathUnescape(id)
	c.action, _ = url.PathUnescape(action)
	return c
}

func (c *paymentCall) reads() bool {
	return c.method == http.MethodGet || c.method == http.MethodHead || c.method == http.MethodOptions
}

func (c *paymentCall) accepts(mediaType string) bool { return strings.Contains(c.accept, mediaType) }

func (c *paymentCall) location(id string) string {
	if c.id != "" {
		return c.base + "/" + url.PathEscape(c.id)
	}
	return c.base + "/" + url.PathEscape(id)
}

// answered decides the call without an effect.
func (c *paymentCall) answered(a answer) { c.own, c.decided = a, true }

// readable says whether a body that claims to be JSON is.
func (c *paymentCall) readable() bool {
	return c.reads() || len(c.ask.raw) == 0 || !strings.Contains(c.contentType, "json") || json.Valid(c.ask.raw)
}

// ref is the reference of a payment: in the body, or in the query for bodies
// that have no fields.
func (c *paymentCall) ref() string {
	return cmp.Or(c.text("ref"), c.text("reference"), c.query.Get("ref"))
}

// text is a field of the body as text.
func (c *paymentCall) text(name string) string {
	if c.ask.form != nil {
		return c.ask.form.value(name)
	}
	return c.ask.doc.Get(name).String()
}

// field is a field of the body as JSON; nil: there is none.
func (c *paymentCall) field(name string) json.RawMessage {
	if c.ask.form == nil {
		if v := c.ask.doc.Get(name); v.Exists() && json.Valid([]byte(v.Raw)) {
			return json.RawMessage(v.Raw)
		}
		return nil
	}
	v, ok := c.ask.form.values[name]
	if !ok {
		return nil
	}
	var n json.Number
	if json.Unmarshal([]byte(v), &n) == nil && n != "" && v[0] != '"' {
		return json.RawMessage(v)
	}
	return encode(v)
}

// print tells requests with one key apart: by method, path, query and body;
// multipart bodies by their parts, for a retry has a boundary of its own.
func (c *paymentCall) print() string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %q ", c.method, c.base, c.id, c.action, c.query.Encode())
	if f := c.ask.form; f != nil {
		for _, name := range slices.Sorted(maps.Keys(f.values)) {
			fmt.Fprintf(h, "%q=%q ", name, f.values[name])
		}
		fmt.Fprintf(h, "%q %x", f.fileName, sha256.Sum256(f.file))
	} else {
		h.Write([]byte(c.ask.sha))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// takesEffect says whether a write has one: what is refused has none, unless
// the step says otherwise.
func (s *Step) takesEffect() bool {
	if s.Effect != nil {
		return *s.Effect
	}
	return s.Status < 300
}

// claim makes the exchange's call, if it is one to the write API, and claims
// its key.
func (ex *exchange) claim() {
	if ex.ask.op != paymentsOperation {
		return
	}
	m := ex.m
	m.mu.Lock()
	defer m.mu.Unlock()
	ex.call = newPaymentCall(m.payments, ex.r, ex.ask, &ex.step, ex.arrival.Key)
	ex.call.store.claim(ex.call, m.script.Keys, time.Now())
	ex.arrival.Replayed = ex.call.replayed
}

// perform lets the effect of a write happen, where there is one, and says
// what the API itself answers.
func (ex *exchange) perform() answer {
	c, m := ex.call, ex.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.decided {
		return c.own
	}
	var after *Payment
	c.own, after = c.store.plan(c)
	c.decided = true
	if after != nil && ex.step.takesEffect() {
		c.executed = true
		c.store.execute(c, after)
		ex.arrival.Executed = true
		if c.store == m.payments {
			m.stats.of(ex.arrival).Executions++
		}
	}
	return c.own
}

// performLate lets the effect happen after so long, whatever becomes of the
// connection: the API had the request in a queue.
func (ex *exchange) performLate(after time.Duration) {
	if ex.call == nil {
		return
	}
	ex.m.count(func(*counters) { ex.call.late = true })
	time.AfterFunc(after, func() {
		ex.perform()
		ex.m.count(func(*counters) {
			ex.call.late = false
			ex.call.settle()
		})
	})
}

// settle ends the call's claim on its key, before the client can know.
func (ex *exchange) settle() {
	if ex.call != nil {
		ex.m.count(func(*counters) { ex.call.settle() })
	}
}
