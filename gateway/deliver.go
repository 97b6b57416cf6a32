package gateway

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/policy"
)

// heartbeatLine is a comment without the blank line that would end an event:
// some decoders make an empty event of that.
const heartbeatLine = ": still working\n"

// delivery is one client reading one record.
type delivery struct {
	g     *Gateway
	w     http.ResponseWriter
	flush http.Flusher
	c     *call
	entry *cache.Entry
	ev    *event

	begun  bool        // the status line is out
	events bool        // as text/event-stream
	head   *cache.Head // of the answer, or of what it came to
	wrote  time.Time   // when something was last written
	dirty  bool        // since the last flush
	broken bool        // the client can't be written to, or must be told that the body is not whole
	odd    bool        // the stream that was begun can't be ended by the answer that came
	sent   bool        // it was sent away, while the record runs on
	again  bool        // it follows nothing: it must ask anew
}

// deliver reads a record to its client, from its beginning to its end. false:
// its leader was lost, or had ended before this request came; and the client
// was told nothing yet.
func (g *Gateway) deliver(w http.ResponseWriter, r *http.Request, c *call, e *cache.Entry, ev *event) bool {
	d := &delivery{g: g, w: w, c: c, entry: e, ev: ev}
	d.flush, _ = w.(http.Flusher)
	if e.Role == cache.Follow {
		g.metrics.followers(c.op, 1)
		defer g.metrics.followers(c.op, -1)
	}
	defer e.Reader.Leave()
	all := d.read(r)
	if d.again {
		return false
	}
	if all && e.Log().Lost() {
		if !d.begun {
			return false
		}
		d.lost()
	}
	switch {
	case e.MayLose():
		c.forget()
	case e.Role == cache.Lead && c.tool != nil:
		if c.left.Store(true); e.Log().Lost() { // nobody claims anew
			c.release()
		}
	}
	all = all && !d.broken && r.Context().Err() == nil
	if all && !d.begun { // net/http would make an empty 200 of it
		g.log.Error("a record ended without an answer", zap.String("key", keyText(c.key)), zap.Uint8("role", uint8(e.Role)), zap.Bool("away", e.Away()))
		d.sendAway(internal)
	}
	switch {
	case c.explicit(): // replays anyhow
	case all:
		watch(r, e.Debt(), d.events)
	default:
		e.Owe()
	}
	d.end(all)
	return true
}

// lost tells a client that has a part of an answer that the rest is lost.
func (d *delivery) lost() {
	d.ev.outcome, d.ev.reason = outcomeFailed, string(policy.StreamBroken)
	if d.events && d.c.tool == nil {
		d.write(errorEvent(d.c.op.surface, errorBody(d.c.op.surface, 502, "upstream_error",
			"the gateway that ran this call was lost before its end", "")))
		return
	}
	d.broken = true
}

// read moves frames from the record to the client until the record ends, the
// client leaves, or its time is over. It says whether the record has ended.
func (d *delivery) read(r *http.Request) bool {
	var (
		buf   [4]cache.Frame
		timer *time.Timer
		tick  <-chan time.Time
		set   time.Time // when the timer fires
		gone  = r.Context().Done()
		woken = d.entry.Reader.Woken()
	)
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		frames, opened, ended := d.entry.Reader.Take(buf[:0])
		if ended && !d.begun && d.entry.Late() {
			d.again = true
			return true
		}
		for i := range frames {
			d.frame(&frames[i], frames, ended)
			if d.broken {
				return false
			}
		}
		if ended {
			if d.entry.Log().Unrecorded() {
				d.w.Header().Set(http.TrailerPrefix+"Oncegate-Recorded", "false")
			}
			return true
		}
		if d.dirty {
			d.wrote, d.dirty = time.Now(), false
			if d.flush != nil {
				d.flush.Flush()
			}
		}
		// A timer that fires early looks again: cheaper than setting it anew
		// with each chunk.
		if due := d.due(opened); !due.IsZero() && (set.IsZero() || due.Before(set)) {
			if set = due; timer == nil {
				timer = time.NewTimer(time.Until(due))
				tick = timer.C
			} else {
				timer.Reset(time.Until(due))
			}
		}
		select {
		case <-woken:
		case <-gone:
			return false
		case <-tick:
			set = time.Time{}
			if d.late(opened) {
				return false
			}
		}
	}
}

// due says when something is due if the record stays silent: a heartbeat, or
// the end of the client's patience. Zero: never.
func (d *delivery) due(opened *cache.Head) time.Time {
	var due time.Time
	if d.begun && d.events && d.c.tool == nil || opened != nil && !d.begun {
		if d.wrote.IsZero() {
			d.wrote = time.Now()
		}
		due = d.wrote.Add(d.g.opt.Heartbeat)
	}
	if !d.begun {
		for _, t := range [...]time.Time{d.c.until, d.waits()} {
			if !t.IsZero() && (due.IsZero() || t.Before(due)) {
				due = t
			}
		}
	}
	return due
}

// waits is until when a follower waits for its first byte.
func (d *delivery) waits() time.Time {
	if d.entry.Role != cache.Follow {
		return time.Time{}
	}
	return d.c.wait
}

// late does what is due. It says whether the client was sent away.
func (d *delivery) late(opened *cache.Head) bool {
	now := time.Now()
	if !d.begun {
		if t := d.c.until; !t.IsZero() && !now.Before(t) {
			if d.entry.Private() || d.c.alone() {
				d.sendAway(runsAlone)
			} else {
				d.sendAway(stillRuns)
			}
			return true
		}
		if t := d.waits(); !t.IsZero() && !now.Before(t) {
			d.sendAway(inFlight)
			return true
		}
	}
	if now.Before(d.wrote.Add(d.g.opt.Heartbeat)) || !d.begun && opened == nil {
		return false
	}
	if !d.begun {
		d.header(opened)
		d.w.WriteHeader(opened.Status)
		d.entry.Reader.Begun()
	}
	d.write([]byte(heartbeatLine))
	return d.broken
}

// sendAway answers a client whose time is over while the record runs on.
func (d *delivery) sendAway(p *refusal) {
	d.begun, d.sent = true, true
	refuse(d.w, d.ev, p)
}

// frame writes one of the frames at hand; ended: nothing follows them.
func (d *delivery) frame(f *cache.Frame, frames []cache.Frame, ended bool) {
	switch f.Kind {
	case cache.HeadFrame:
		if d.begun { // a heartbeat sent the status: an error becomes an event
			if d.is(f.Head); d.events && !f.Head.Events && f.Head.Status < 400 {
				d.ev.outcome, d.ev.reason, d.odd = outcomeFailed, string(policy.StreamBroken), true
				d.write(errorEvent(d.c.op.surface, errorBody(d.c.op.surface, 502, "upstream_error",
					"after a stream that broke off, the upstream answered with something that is none", "")))
			}
			return
		}
		d.header(f.Head)
		if ended && !d.events && d.c.up.Method != http.MethodHead && f.Head.Status != http.StatusNoContent && f.Head.Status != http.StatusNotModified {
			n := 0
			for _, rest := range frames {
				n += len(rest.Data)
			}
			d.ev.set(d.w.Header(), "Content-Length", strconv.Itoa(n))
		}
		if ended && d.entry.Log().Unrecorded() {
			d.w.Header()["Oncegate-Recorded"] = []string{"false"}
		}
		d.w.WriteHeader(f.Head.Status)
	case cache.BodyFrame:
		if d.odd {
			return
		}
		if d.events && d.head.Status >= 400 {
			d.write(errorEvent(d.c.op.surface, f.Data))
			return
		}
		d.write(f.Data)
	case cache.UsageFrame:
		if d.c.wantsUsage {
			d.write(f.Data)
		}
	case cache.ErrorFrame:
		d.is(f.Head)
		if d.events && d.c.tool == nil { // of a tool's events nobody knows which one is an error
			d.write(errorEvent(d.c.op.surface, f.Data))
			return
		}
		d.broken = true // there is no other way to tell that the body is not whole
	}
}

// is takes over what the answer has come to.
func (d *delivery) is(head *cache.Head) {
	ev := d.ev
	d.head = head
	ev.outcome, ev.reason = d.outcome(head)
	ev.status, ev.attempts, ev.target = head.Status, head.Attempts, head.Target
}

// header sets the headers of an answer.
func (d *delivery) header(head *cache.Head) {
	d.begun, d.events = true, head.Events
	d.is(head)
	h := d.w.Header()
	vary := h["Vary"] // what CORS says
	maps.Copy(h, head.Header)
	if more := head.Header["Vary"]; vary != nil && more != nil { // that of a tool's answer
		h["Vary"] = append(vary, more...)
	}
	if d.entry.Role == cache.Lead {
		for name, values := range head.Own {
			if name == "Vary" {
				values = append(h["Vary"], values...)
			}
			h[name] = values
		}
	}
	if head.Events {
		h["Cache-Control"] = []string{"no-cache"}
		h["X-Accel-Buffering"] = []string{"no"}
	}
	d.ev.set(h, "Oncegate-Attempts", strconv.Itoa(head.Attempts))
	if head.Target != "" {
		d.ev.set(h, "Oncegate-Target", head.Target)
	}
	if !head.Failed && (d.entry.Role == cache.Follow || d.entry.Role == cache.Replay) {
		h["Idempotent-Replayed"] = []string{"true"}
		if d.entry.Role == cache.Replay {
			h["Age"] = []string{strconv.Itoa(int(time.Since(d.entry.Result.Settled) / time.Second))}
		}
	}
	d.ev.mark(h)
}

// refusals are why a call is answered without an attempt.
var refusals = map[policy.Reason]bool{policy.TargetHeld: true, policy.CircuitOpen: true, policy.Overloaded: true, reasonDraining: true, reasonStoreAway: true}

// outcome says how the request was answered, in the contract's words.
func (d *delivery) outcome(head *cache.Head) (outcome, reason string) {
	switch {
	case head.Failed && d.entry.Role == cache.Replay:
		return outcomeFailed, string(reasonFailureMemo)
	case !head.Failed && d.entry.Role == cache.Follow:
		return outcomeCoalesced, string(d.entry.Share)
	case !head.Failed && d.entry.Role == cache.Replay:
		return outcomeReplayed, string(d.entry.Share)
	}
	return ledBy(head, d.c.bypassed)
}

// ledBy is how the request that led a record was answered.
func ledBy(head *cache.Head, bypassed bool) (outcome, reason string) {
	switch {
	case head.Failed && head.Status == http.StatusFailedDependency && head.Reason == string(policy.OutcomeUnknown):
		return outcomeInDoubt, head.Reason
	case head.Failed && refusals[policy.Reason(head.Reason)] && (head.Attempts == 0 || head.Reason == string(reasonDraining)):
		return outcomeRefused, head.Reason
	case head.Failed:
		return outcomeFailed, head.Reason
	case bypassed:
		return outcomeBypassed, string(reasonStoreAway)
	}
	return outcomeExecuted, head.Reason
}

func (d *delivery) write(b []byte) {
	if _, err := d.w.Write(b); err != nil {
		d.broken = true
	}
	d.dirty = true
}

// end closes the request's event: at once if the client had all or was sent
// away; of a client that left, when the record has ended and it shows what
// became of it.
func (d *delivery) end(all bool) {
	log, ev := d.entry.Log(), d.ev
	switch {
	case d.sent:
		d.g.finish(ev)
	case all:
		ev.ended = true
		_, ev.whole = log.Fate()
		ev.bill = log.Bill()
		d.g.finish(ev)
	default:
		ev.left = true
		go func() {
			<-log.Done()
			ev.ended = true
			var head *cache.Head
			if head, ev.whole = log.Fate(); head != nil {
				d.is(head)
			}
			ev.bill = log.Bill()
			ev.status = statusClientGone
			d.g.finish(ev)
		}()
		// Not even an empty 200, which net/http would make of silence: a client
		// that closed its side only still reads.
		panic(http.ErrAbortHandler)
	}
}
