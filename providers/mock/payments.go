package mock

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// paymentsOperation is the write API. It is the only one that has effects,
// and takes any method: see paymentCall.
var paymentsOperation = &operation{suffix: "/payments", namedEvents: true}

// Payment is what the write API makes.
type Payment struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"` // "payment"
	Status      string          `json:"status"` // succeeded | refunded | canceled
	Ref         string          `json:"ref,omitempty"`
	Amount      json.RawMessage `json:"amount,omitempty"` // as it was written, to the digit
	Currency    string          `json:"currency,omitempty"`
	Key         string          `json:"key,omitempty"` // the idempotency key that it was made with, honoured or not
	Refunds     []Refund        `json:"refunds,omitempty"`
	Version     int             `json:"version"` // how many executions it went through, its making included
	ContentType string          `json:"content_type,omitempty"`
	Bytes       int             `json:"bytes"`  // of the body that it was made or last put from
	SHA256      string          `json:"sha256"` // of that body
	Created     time.Time       `json:"created"`
}

// Refund is a refund of a payment, or of a part of it.
type Refund struct {
	ID     string          `json:"id"`
	Amount json.RawMessage `json:"amount,omitempty"` // as it was written; none: the whole
}

// maxPayments bounds what is kept of the write API: payments, and answers
// remembered by their keys. maxCounts bounds the keys and references counted.
const (
	maxPayments = 100_000
	maxCounts   = 1_000_000
)

// payments is the state of the write API, guarded by Mock.mu. A Payment in it
// is never changed, only replaced.
type payments struct {
	byID  bounded[*Payment]
	keys  bounded[*claim] // only where keys are honoured
	byKey bounded[KeyCount]
	byRef bounded[int64]

	executions, replays, resources int64
}

// plan says what a call answers, and what the payment is after it: nil where
// nothing changes. It changes nothing itself.
func (p *payments) plan(c *paymentCall) (answer, *Payment) {
	if !c.readable() {
		return refused(http.StatusBadRequest, "invalid_json", "The body is not JSON, as its Content-Type says."), nil
	}
	if c.id == "" && c.action == "" {
		switch c.method {
		case http.MethodGet, http.MethodHead:
			return p.list(c), nil
		case http.MethodPost:
			return c.made(newID("pay_"))
		}
		return c.notAllowed("GET, HEAD, POST")
	}
	was := p.byID.get(c.id)
	if c.action == "" && c.method == http.MethodPut && was == nil {
		return c.made(c.id)
	}
	if was == nil || c.action != "" && c.action != "refund" {
		return refused(http.StatusNotFound, "not_found", "There is no such payment."), nil
	}
	now := *was
	now.Version++
	if c.action == "refund" {
		if c.method != http.MethodPost {
			return c.notAllowed("POST")
		}
		now.Status = "refunded"
		now.Refunds = append(slices.Clone(was.Refunds), Refund{newID("re_"), c.field("amount")})
		return c.shown(http.StatusCreated, &now), &now
	}
	switch c.method {
	case http.MethodGet, http.MethodHead:
		return c.shown(http.StatusOK, was), nil
	case http.MethodPut:
		now.Ref, now.Amount, now.Currency = "", nil, ""
		c.fill(&now)
	case http.MethodPatch:
		size, sum, kind := now.Bytes, now.SHA256, now.ContentType
		c.fill(&now)
		now.Bytes, now.SHA256, now.ContentType = size, sum, kind
	case http.MethodDelete:
		now.Status = "canceled"
	default:
		return c.notAllowed("GET, HEAD, PUT, PATCH, DELETE")
	}
	return c.shown(http.StatusOK, &now), &now
}

// execute lets the call's effect happen.
func (p *payments) execute(c *paymentCall, after *Payment) {
	p.executions++
	if after.Version == 1 || c.action == "refund" {
		p.resources++
	}
	p.byID.put(after.ID, after, maxPayments)
	if after.Ref != "" {
		p.byRef.put(after.Ref, p.byRef.get(after.Ref)+1, maxCounts)
	}
	if c.key != "" {
		n := p.byKey.get(c.key)
		n.Executions++
		p.byKey.put(c.key, n, maxCounts)
	}
}

// list answers GET /payments: in the order in which they were made, all or
// those with a ref or a key.
func (p *payments) list(c *paymentCall) answer {
	limit, err := strconv.Atoi(c.query.Get("limit"))
	if err != nil || limit < 1 {
		limit = 100
	}
	page := struct {
		Object  string     `json:"object"`
		Data    []*Payment `json:"data"`
		HasMore bool       `json:"has_more"`
	}{"list", []*Payment{}, false}
	for _, id := range p.byID.order {
		one := p.byID.get(id)
		if c.query.Has("ref") && one.Ref != c.query.Get("ref") || c.query.Has("key") && one.Key != c.query.Get("key") {
			continue
		}
		if len(page.Data) == limit {
			page.HasMore = true
			break
		}
		page.Data = append(page.Data, one)
	}
	a := whole(page, counted{})
	a.status = http.StatusOK
	return a
}

// made is a new payment, by POST or PUT.
func (c *paymentCall) made(id string) (answer, *Payment) {
	p := &Payment{ID: id, Object: "payment", Status: "succeeded", Key: c.key, Version: 1, Created: time.Now().UTC()}
	c.fill(p)
	a := c.shown(http.StatusCreated, p)
	a.header.Set("Location", c.location(id))
	return a, p
}

// fill sets what the body tells of a payment, and leaves the rest.
func (c *paymentCall) fill(p *Payment) {
	if ref := c.ref(); ref != "" {
		p.Ref = ref
	}
	if v := c.field("amount"); v != nil {
		p.Amount = v
	}
	if v := c.text("currency"); v != "" {
		p.Currency = v
	}
	p.ContentType, p.Bytes, p.SHA256 = c.contentType, len(c.ask.raw), c.ask.sha
}

// shown is a payment as it is answered: as JSON, as a receipt to look at, or
// as a stream of how it went.
func (c *paymentCall) shown(status int, p *Payment) answer {
	var a answer
	whole := encode(struct {
		*Payment
		Pad string `json:"pad,omitempty"`
	}{p, string(bytes.Repeat([]byte("a"), c.pad))})
	switch {
	case c.ask.stream && c.method != http.MethodHead:
		n := c.chunks
		if n == 0 {
			n = 2
		}
		var events []event
		for i := range n {
			events = append(events, event{part: content, name: "progress", data: encode(map[string]int{"step": i + 1, "of": n})})
		}
		a = streamed(append(events, event{part: finish, name: "payment", data: whole}), counted{})
	case c.accepts("image/png"):
		a = answer{contentType: "image/png", body: paint([]byte(p.ID[max(0, len(p.ID)-4):] + "0000")[:4])}
	default:
		a = answer{contentType: "application/json", body: whole}
	}
	a.status = status
	a.header = http.Header{"Etag": {strconv.Quote(strconv.Itoa(p.Version))}}
	return a
}

func (c *paymentCall) notAllowed(allow string) (answer, *Payment) {
	a := answer{status: http.StatusNoContent}
	if c.method != http.MethodOptions {
		a = refused(http.StatusMethodNotAllowed, "method_not_allowed", "Use one of "+allow+".")
	}
	a.header = http.Header{"Allow": {allow + ", OPTIONS"}}
	return a, nil
}

// refused is an error of the write API itself.
func refused(status int, code, message string) answer {
	kind, _ := openaiType(status)
	return answer{status: status, contentType: "application/json",
		body: encode(openaiError{openaiFault{Message: message, Type: kind, Code: &code}})}
}
