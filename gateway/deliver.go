package gateway

import (
	"net/http"
	"strconv"
	"time"

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

	begun  bool // the status line is out
	broken bool // the client can't be written to
	events bool
	wrote  bool // since the last flush
}

// deliver reads a record to its client, from its beginning to its end.
func (g *Gateway) deliver(w http.ResponseWriter, r *http.Request, c *call, e *cache.Entry, ev *event) {
	d := &delivery{g: g, w: w, c: c, entry: e, ev: ev}
	d.flush, _ = w.(http.Flusher)
	if e.Role == cache.Follow {
		g.metrics.followers(c.op, 1)
		defer g.metrics.followers(c.op, -1)
	}
	defer e.Reader.Leave()
	whole := d.read(r)
	if whole && !d.broken && r.Context().Err() == nil {
		g.watch(r, e, c)
	} else if d.entry != nil && !c.explicit {
		e.Owe()
	}
	d.end()
}

// read moves frames from the record to the client until the record ends, the
// client leaves, or its time is over. It says whether the client got all.
func (d *delivery) read(r *http.Request) bool {
	var (
		buf   [4]cache.Frame
		timer *time.Timer
		tick  <-chan time.Time
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
		for i := range frames {
			d.frame(&frames[i], frames, ended)
			if d.broken {
				return false
			}
		}
		if ended {
			return true
		}
		if d.wrote && d.flush != nil {
			d.flush.Flush()
			d.wrote = false
		}
		if next, ok := d.next(opened); ok {
			if timer == nil {
				timer = time.NewTimer(next)
				tick = timer.C
			} else {
				timer.Reset(next)
			}
		} else if timer != nil {
			timer.Stop()
		}
		select {
		case <-woken:
		case <-gone:
			return false
		case <-tick:
			if d.late(opened) {
				return false
			}
		}
	}
}

// next says when something is due if the record stays silent: a heartbeat, or
// the end of the client's patience.
func (d *delivery) next(opened *cache.Head) (time.Duration, bool) {
	var due time.Time
	if d.c.up.Stream && (d.begun && d.events || opened != nil && !d.begun) {
		due = time.Now().Add(d.g.opt.Heartbeat)
	}
	if !d.begun {
		for _, t := range [...]time.Time{d.c.until, d.waits()} {
			if !t.IsZero() && (due.IsZero() || t.Before(due)) {
				due = t
			}
		}
	}
	if due.IsZero() {
		return 0, false
	}
	return max(0, time.Until(due)), true
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
			d.sendAway(stillRuns)
			return true
		}
		if t := d.waits(); !t.IsZero() && !now.Before(t) {
			d.sendAway(inFlight)
			return true
		}
		if opened == nil {
			return false
		}
		d.header(opened)
		d.w.WriteHeader(opened.Status)
		d.entry.Reader.Begun()
	}
	d.write([]byte(heartbeatLine))
	if d.flush != nil {
		d.flush.Flush()
	}
	return false
}

// sendAway answers a client whose time is over while the record runs on.
func (d *delivery) sendAway(p *refusal) {
	d.begun = true
	d.ev.answered = true
	h := d.w.Header()
	d.ev.status, d.ev.reason = p.status, string(p.reason)
	d.ev.outcome = outcomeRefused
	if p.reason == policy.Deadline {
		d.ev.outcome = outcomeFailed
	}
	h.Set("Content-Type", "application/json")
	d.mark(nil)
	retryHeaders(h, p.status, p.retry, 0)
	body := errorBody(d.c.op.surface, p.status, p.code, p.message, p.param)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	d.w.WriteHeader(p.status)
	d.write(body)
}

// frame writes one of the frames at hand; ended: nothing follows them.
func (d *delivery) frame(f *cache.Frame, frames []cache.Frame, ended bool) {
	switch f.Kind {
	case cache.HeadFrame:
		if d.begun { // a heartbeat sent the status: an error becomes an event
			d.ev.outcome, d.ev.reason = d.outcome(f.Head)
			d.ev.head = f.Head
			return
		}
		d.header(f.Head)
		if ended && !d.events && f.Head.Status != http.StatusNoContent && f.Head.Status != http.StatusNotModified {
			n := 0
			for _, rest := range frames {
				n += len(rest.Data)
			}
			d.w.Header()["Content-Length"] = []string{strconv.Itoa(n)}
		}
		d.w.WriteHeader(f.Head.Status)
	case cache.BodyFrame:
		if d.events && !d.ev.head.Events {
			d.write(errorEvent(d.c.op.surface, f.Data))
			return
		}
		d.write(f.Data)
	case cache.UsageFrame:
		if d.c.wantsUsage {
			d.write(f.Data)
		}
	case cache.ErrorFrame:
		d.ev.outcome, d.ev.reason = d.outcome(f.Head)
		if d.events {
			d.write(errorEvent(d.c.op.surface, f.Data))
			return
		}
		d.broken, d.ev.abort = true, true // no other way to tell that the body is not whole
	}
}

// header sets the headers of an answer.
func (d *delivery) header(head *cache.Head) {
	d.begun = true
	d.events = head.Events
	d.ev.head = head
	h := d.w.Header()
	for name, values := range head.Header {
		h[name] = values
	}
	if d.entry.Role == cache.Lead {
		for name, values := range head.Own {
			h[name] = values
		}
	}
	if head.Events {
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
	}
	d.mark(head)
}

// mark sets the headers that say how the request was answered.
func (d *delivery) mark(head *cache.Head) {
	h, ev := d.w.Header(), d.ev
	if head != nil {
		ev.outcome, ev.reason = d.outcome(head)
		ev.status, ev.attempts, ev.target = head.Status, head.Attempts, head.Target
		h["Oncegate-Attempts"] = []string{strconv.Itoa(head.Attempts)}
		if head.Target != "" {
			h["Oncegate-Target"] = []string{head.Target}
		}
		if !head.Failed && (d.entry.Role == cache.Follow || d.entry.Role == cache.Replay) {
			h["Idempotent-Replayed"] = []string{"true"}
			if d.entry.Role == cache.Replay {
				h["Age"] = []string{strconv.Itoa(int(time.Since(d.entry.Result.Settled) / time.Second))}
			}
		}
	}
	h["Oncegate-Outcome"] = []string{ev.outcome}
	if ev.reason != "" {
		h["Oncegate-Reason"] = []string{ev.reason}
	}
	if ev.keyed() {
		h["Oncegate-Key"] = []string{ev.keyName()}
	}
	d.g.requestID(h, ev)
}

// outcome says how the request was answered, in the contract's words.
func (d *delivery) outcome(head *cache.Head) (outcome, reason string) {
	switch {
	case head.Failed && d.entry.Role == cache.Replay:
		return outcomeFailed, string(reasonFailureMemo)
	case head.Failed && (head.Reason == string(policy.TargetHeld) || head.Reason == string(reasonDraining)):
		return outcomeRefused, head.Reason
	case head.Failed:
		return outcomeFailed, head.Reason
	case d.ev.bypassed:
		return outcomeBypassed, string(reasonStoreAway)
	case d.entry.Role == cache.Follow:
		return outcomeCoalesced, string(d.entry.Share)
	case d.entry.Role == cache.Replay:
		return outcomeReplayed, string(d.entry.Share)
	}
	return outcomeExecuted, head.Reason
}

func (d *delivery) write(b []byte) {
	if _, err := d.w.Write(b); err != nil {
		d.broken = true
	}
	d.wrote = true
}

// end closes the request's event: at once, or, for a client that left, when
// the record has ended and its outcome is known.
func (d *delivery) end() {
	if d.begun && !d.ev.abort {
		d.g.finish(d.ev)
		return
	}
	if d.begun {
		d.g.finish(d.ev)
		panic(http.ErrAbortHandler)
	}
	ev, log := d.ev, d.entry.Log()
	ev.left = true
	go func() {
		<-log.Done()
		if head := log.Head(); head != nil {
			ev.head = head
			ev.outcome, ev.reason = d.outcome(head)
		} else {
			ev.outcome = outcomeFailed
		}
		ev.status = statusClientGone
		d.g.finish(ev)
	}()
}
