package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
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
	outcomeInDoubt   = "unknown"
)

var outcomes = []string{outcomeExecuted, outcomeCoalesced, outcomeReplayed, outcomeBypassed, outcomeRefused, outcomeFailed, outcomeInDoubt}

// event is what there is to say of one request. It is filled along the path
// and written once: the log line and the metrics come from it.
type event struct {
	op    *operation
	start time.Time
	id    string // x-request-id, once it was needed

	principal, user, model, tool, target string
	key                                  cache.Key // of the record it is about
	keyText                              string    // the record's name, once it was needed
	share                                cache.Share
	label                                string      // of the model, in metrics: as it is configured
	bill                                 *cache.Bill // what the answer cost, once it is whole

	outcome, reason string
	status          int
	attempts        int
	whole           bool // the answer is one that could be shared
	left            bool // the client left before it had all
	repeated        bool // a keyed write that was asked for before
	done            bool

	trace  *trace        // of the call that it leads; nil: none
	joined time.Duration // from its arrival: when it joined one that another leads, or led
	ended  bool          // the record that it read has ended

	values [6]string // of the headers that were set
	used   int       // of values
}

func newEvent(op *operation) *event { return &event{op: op, start: time.Now()} }

// of takes over what is known once the call is understood.
func (ev *event) of(c *call) {
	if c.tool != nil {
		ev.user = c.endUser
		return
	}
	ev.user, ev.model, ev.label = c.endUser, c.up.Model, c.route.label
}

func (ev *event) keyed() bool { return ev.key != cache.Key{} }

// keyName is the record's name: safe to log and to show.
func (ev *event) keyName() string {
	if ev.keyText == "" {
		ev.keyText = keyText(ev.key)
	}
	return ev.keyText
}

func keyText(k cache.Key) string {
	var b [2 * len(k)]byte
	hex.Encode(b[:], k[:])
	return string(b[:])
}

// set sets a header, in room that the event has: of small things made for each
// request, those for headers are the most.
func (ev *event) set(h http.Header, name, value string) {
	if ev.used == len(ev.values) {
		h[name] = []string{value}
		return
	}
	ev.values[ev.used] = value
	ev.used++
	h[name] = ev.values[ev.used-1 : ev.used : ev.used]
}

// mark sets the headers that say how the request was answered.
func (ev *event) mark(h http.Header) {
	ev.set(h, "Oncegate-Outcome", ev.outcome)
	if ev.reason != "" {
		ev.set(h, "Oncegate-Reason", ev.reason)
	}
	if ev.keyed() {
		ev.set(h, "Oncegate-Key", ev.keyName())
	}
	ev.markID(h)
}

// markID sets the request ids, in both spellings: the upstream's where it sent
// one, else ours.
func (ev *event) markID(h http.Header) {
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
		ev.set(h, "X-Request-Id", ev.id)
		h["Request-Id"] = h["X-Request-Id"]
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
	text := [36]byte{'r', 'e', 'q', '_'}
	hex.Encode(text[4:], b[:])
	return string(text[:])
}

// finish writes the event, once.
func (g *Gateway) finish(ev *event) {
	if ev.done {
		return
	}
	ev.done = true
	g.book(ev)
	if e := g.log.Check(ev.level(), "request"); e != nil {
		e.Write(zap.Inline(ev))
	}
}

// level keeps the requests that went well out of a log that is not asked for
// them: the metrics count them all, and a line costs a tenth of a replay.
func (ev *event) level() zapcore.Level {
	if ev.status >= 200 && ev.status < 300 && !ev.left && ev.outcome != outcomeBypassed && ev.outcome != outcomeFailed {
		return zap.DebugLevel
	}
	return zap.InfoLevel
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
		e.AddString("user", ev.user[:min(len(ev.user), 256)])
	}
	if ev.model != "" {
		e.AddString("model", ev.model)
	}
	if ev.tool != "" {
		e.AddString("tool", ev.tool)
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
