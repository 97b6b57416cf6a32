package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"oncegate/cache"
)

// Outcomes: every request has exactly one.
const (
	outcomeExecuted  = "executed"
	outcomeCoalesced = "coalesced"
	outcomeReplayed  = "replayed"
	outcomeBypassed  = "bypassed"
	outcomeRefused   = "refused"
	outcomeFailed    = "failed"
)

// event is what there is to say of one request. It is filled along the path
// and written once: the log line and the metrics come from it.
type event struct {
	op      *operation
	surface surface
	start   time.Time
	id      string // x-request-id, once it was needed

	principal, user, model, target string
	key                            cache.Key
	keyText                        string // the record's name, once it was needed
	share                          cache.Share
	bypassed, stream               bool

	outcome, reason string
	status          int
	attempts        int
	head            *cache.Head // of the answer
	answered        bool
	left            bool // the client left before it had anything
	abort           bool // the answer could not be finished
	done            bool
}

func (g *Gateway) begin(r *http.Request, op *operation) *event {
	return &event{op: op, surface: op.surface, start: time.Now()}
}

// of takes over what is known once the call is understood.
func (ev *event) of(c *call) {
	ev.user, ev.model, ev.stream = c.user, c.up.Model, c.up.Stream
}

func (ev *event) keyed() bool { return ev.key != cache.Key{} }

// keyName is the record's name: safe to log and to show.
func (ev *event) keyName() string {
	if ev.keyText == "" {
		ev.keyText = hexString(ev.key[:16])
	}
	return ev.keyText
}

func hexString(b []byte) string { return hex.EncodeToString(b) }

// requestID sets the request ids that the upstream sent none of, or all.
func (g *Gateway) requestID(h http.Header, ev *event) {
	a, b := h["X-Request-Id"], h["Request-Id"]
	switch {
	case a != nil && b == nil:
		h["Request-Id"] = a
	case b != nil && a == nil:
		h["X-Request-Id"] = b
	case a == nil:
		if ev.id == "" {
			ev.id = newRequestID()
		}
		both := []string{ev.id}
		h["X-Request-Id"], h["Request-Id"] = both, both
	}
	if ev.id == "" {
		ev.id = h["X-Request-Id"][0]
	}
}

// newRequestID makes an id that is unlike any other; it is no secret.
func newRequestID() string {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(b[8:], rand.Uint64())
	return "req_" + hex.EncodeToString(b[:])
}

// finish writes the event, once.
func (g *Gateway) finish(ev *event) {
	if ev.done {
		return
	}
	ev.done = true
	if ev.outcome == "" {
		ev.outcome = outcomeFailed
	}
	g.metrics.request(ev)
	if e := g.log.Check(zap.InfoLevel, "request"); e != nil {
		e.Write(zap.Inline(ev))
	}
}

// MarshalLogObject writes the event's fields into its log line.
func (ev *event) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString("operation", ev.op.name)
	e.AddString("outcome", ev.outcome)
	if ev.reason != "" {
		e.AddString("reason", ev.reason)
	}
	e.AddInt("status", ev.status)
	e.AddDuration("took", time.Since(ev.start))
	e.AddString("id", ev.id)
	e.AddString("principal", ev.principal)
	if ev.user != "" {
		e.AddString("user", ev.user)
	}
	if ev.model != "" {
		e.AddString("model", ev.model[:min(len(ev.model), 100)])
	}
	if ev.keyed() {
		e.AddString("key", ev.keyName())
	}
	if ev.target != "" {
		e.AddString("target", ev.target)
	}
	if ev.attempts > 0 {
		e.AddInt("attempts", ev.attempts)
	}
	if ev.left {
		e.AddBool("left", true)
	}
	return nil
}

// recoverTo answers a request whose handling panicked with a 500, where
// nothing was sent yet.
func (g *Gateway) recoverTo(w http.ResponseWriter, ev *event) {
	p := recover()
	switch {
	case p == nil:
		return
	case p == http.ErrAbortHandler:
		g.finish(ev)
		panic(p)
	}
	g.log.Error("a request panicked", zap.String("panic", fmt.Sprint(p)), zap.ByteString("stack", debug.Stack()))
	if ev.done || ev.status != 0 {
		g.finish(ev)
		panic(http.ErrAbortHandler)
	}
	g.refuse(w, ev, internal)
}
