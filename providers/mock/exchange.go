package mock

import (
	"errors"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is one request being answered.
type exchange struct {
	m    *Mock
	w    http.ResponseWriter
	r    *http.Request
	rc   *http.ResponseController
	ask  *ask
	step Step

	arrival *Arrival     // guarded by m.mu; nil while the body is not read
	call    *paymentCall // of a request to the write API
	answer  answer
	wrote   int // bytes of the body
	sent    int // chunks
	buf     []byte
}

// answer is what an exchange sends unless it is broken off.
type answer struct {
	status      int
	contentType string
	header      http.Header // beside the usual ones
	body        []byte      // of an answer that does not stream
	events      []event     // of one that does
	streams     bool
	usage       counted
	worked      bool // a provider would have charged for it
}

// play answers as the step says. Each stage says whether there is a next one:
// the client may be gone, or the script may have ended the exchange.
func (ex *exchange) play() {
	defer ex.finished()
	ex.claim()
	defer ex.settle()
	if !ex.at(AtBeforeEffect, 0) {
		return
	}
	ex.answer = ex.decide()
	ex.book()
	if !ex.at(AtAfterEffect, 0) {
		return
	}
	if !ex.wait(ex.step.Delay) || !ex.at(AtHeaders, 0) {
		return
	}
	ex.settle()
	ex.writeHeaders()
	if ex.answer.streams {
		ex.playStream()
	} else {
		ex.playWhole()
	}
}

// decide chooses the answer: the script's own, an error, or the operation's.
func (ex *exchange) decide() (a answer) {
	s, ask := &ex.step, ex.ask
	a.status = s.Status
	if a.status == 0 {
		a.status = http.StatusOK
	}
	a.contentType = "application/json"
	var own answer
	if ex.call != nil {
		own = ex.perform()
	}
	switch {
	case s.Body != nil:
		a.body = s.Body
		a.worked = len(a.body) > 0 && !isError(a.body)
	case s.HTML > 0:
		a.contentType, a.body = "text/html; charset=utf-8", htmlPage(s.HTML)
	case len(s.Events) > 0:
		a.streams, a.contentType = true, "text/event-stream; charset=utf-8"
		for i := range s.Events {
			a.events = append(a.events, event{part: content, data: s.Events[i].Data, script: &s.Events[i]})
		}
		a.worked = !isError(s.Events[0].Data)
	case a.status >= 300:
		a.body = errorBody(ex.r, a.status, s.Error)
	case ex.call != nil:
		a = own
		if s.Status != 0 && a.status < 300 {
			a.status = s.Status
		}
	case ask.op == nil:
		a.status = http.StatusNotFound
		a.body = errorBody(ex.r, a.status, &Fault{Message: "the mock does not know " + ex.r.Method + " " + ex.r.URL.Path})
	case !ask.op.allows(ex.r.Method):
		a.status = http.StatusMethodNotAllowed
		ex.w.Header().Set("Allow", ask.op.method)
		a.body = errorBody(ex.r, a.status, nil)
	case ask.op == modelsOperation:
		a = ex.m.models(ex.r)
		a.status = http.StatusOK
	default:
		status := a.status
		made, wrong := ask.op.answer(ex.r, ask, s)
		if wrong != nil {
			a.status = http.StatusBadRequest
			a.body = errorBody(ex.r, a.status, wrong)
			break
		}
		a = made
		a.status = status
		a.worked = ask.op.billed
		if e := s.ErrorAt; e != nil && e.Chunk == 0 && a.streams {
			a.worked = false
		}
	}
	if a.status >= 300 || ex.call != nil {
		a.worked = false
	}
	if s.Billed != nil {
		a.worked = *s.Billed
	}
	if a.streams {
		a.events = s.shape(a.events)
	}
	return a
}

// shape leaves out what the step says is missing.
func (s *Step) shape(events []event) []event {
	out := events[:0:0]
	for _, ev := range events {
		if s.NoFinish && ev.part == finish || s.NoDone && ev.part == done {
			continue
		}
		out = append(out, ev)
	}
	return out
}

// book counts the request as charged from the moment the work on it begins;
// of a stream the output is counted as it is sent.
func (ex *exchange) book() {
	if !ex.answer.worked {
		return
	}
	ex.m.count(func(c *counters) {
		ex.arrival.Billed = true
		c.Billed++
		c.of(ex.arrival).Billed++
		ex.bill(c, ex.answer.usage.input, 0)
		if !ex.answer.streams {
			ex.bill(c, 0, ex.answer.usage.output)
		}
	})
}

func (ex *exchange) bill(c *counters, input, output int) {
	by := c.of(ex.arrival)
	by.InputTokens += int64(input)
	by.OutputTokens += int64(output)
	c.InputTokens += int64(input)
	c.OutputTokens += int64(output)
}

func (ex *exchange) finished() {
	ex.m.count(func(*counters) { ex.arrival.Done = true })
}

// gone books that the client left before the end.
func (ex *exchange) gone() bool {
	ex.m.count(func(c *counters) {
		c.Aborts++
		if ex.arrival != nil {
			ex.arrival.Aborted = true
			c.of(ex.arrival).Aborts++
		}
	})
	return false
}

// wait pauses, and says whether the client is still there.
func (ex *exchange) wait(d time.Duration) bool {
	ctx := ex.r.Context()
	if d <= 0 {
		if ctx.Err() != nil {
			return ex.gone()
		}
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return ex.gone()
	}
}

// unreadable ends an exchange whose request could not be read whole.
func (ex *exchange) unreadable(err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		ex.w.Header().Set("Content-Type", "application/json")
		ex.w.WriteHeader(http.StatusRequestEntityTooLarge)
		ex.w.Write(errorBody(ex.r, http.StatusRequestEntityTooLarge, nil))
		return
	}
	ex.gone()
}

func (ex *exchange) writeHeaders() {
	h := ex.w.Header()
	if ex.answer.contentType != "" {
		h.Set("Content-Type", ex.answer.contentType)
	}
	switch {
	case ex.call != nil:
		h.Set("X-Request-Id", newID("req_"))
	case ex.r.Header.Get("Anthropic-Version") != "":
		h.Set("Request-Id", newID("req_"))
	default:
		h.Set("X-Request-Id", newID("req_"))
		h.Set("Openai-Processing-Ms", strconv.FormatInt(ex.step.Delay.Milliseconds(), 10))
		h.Set("Openai-Version", "2020-10-01")
	}
	if ex.answer.streams {
		h.Set("Cache-Control", "no-cache")
	} else if ex.step.Comments == nil && ex.step.Cut == nil && ex.answer.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(ex.answer.body)))
	}
	maps.Copy(h, ex.answer.header)
	for name, lines := range ex.step.Headers {
		h.Del(name)
		for _, v := range lines {
			h.Add(name, v)
		}
	}
	ex.w.WriteHeader(ex.answer.status)
	ex.m.count(func(c *counters) {
		ex.arrival.Status = ex.answer.status
		if c.Statuses == nil {
			c.Statuses = map[int]int64{}
		}
		c.Statuses[ex.answer.status]++
	})
}

// playWhole sends an answer that does not stream.
func (ex *exchange) playWhole() {
	s := &ex.step
	if !ex.at(AtBytes, 0) {
		return
	}
	if ex.r.Method == http.MethodHead || ex.answer.status == http.StatusNoContent {
		return // there is no body to write, and that is no abort
	}
	if c := s.Comments; c != nil {
		for range c.Count {
			if !ex.write([]byte("\n")) || !ex.wait(c.Every) {
				return
			}
		}
	}
	body := ex.answer.body
	if s.Cut != nil {
		body = body[:min(*s.Cut, len(body))]
	}
	if ex.write(body) && ex.atEnd() {
		ex.keepOpen()
	}
}

// atEnd does what the script says happens after more bytes or chunks than
// there were.
func (ex *exchange) atEnd() bool { return ex.at(AtChunks, math.MaxInt) && ex.at(AtBytes, math.MaxInt) }

// playStream sends the events.
func (ex *exchange) playStream() {
	s := &ex.step
	ex.rc.Flush()
	if !ex.at(AtBytes, 0) {
		return
	}
	commented := false
	comments := func() bool {
		if c := s.Comments; c != nil && !commented && ex.sent >= c.After {
			commented = true
			return ex.comments(c)
		}
		return true
	}
	for i := range ex.answer.events {
		ev := &ex.answer.events[i]
		if !comments() {
			return
		}
		if ev.part != preamble && (!ex.at(AtChunks, ex.sent) || ex.over()) {
			return
		}
		if ev.part == content && ex.sent > 0 && !ex.wait(s.ChunkDelay) {
			return
		}
		if ev.script != nil && !ex.wait(ev.script.Delay) {
			return
		}
		ex.buf = appendEvent(ex.buf[:0], ev, s.eol())
		if !ex.write(ex.buf) {
			return
		}
		if ev.part == content {
			ex.sent++
			ex.m.count(func(c *counters) {
				ex.arrival.Chunks = ex.sent
				if ex.answer.worked {
					ex.bill(c, 0, ev.tokens)
				}
			})
		}
	}
	if comments() && ex.atEnd() && !ex.over() {
		ex.keepOpen()
	}
}

// over says whether the script ends the stream here, cleanly: after an error
// event, or by a cut.
func (ex *exchange) over() bool {
	s := &ex.step
	if e := s.ErrorAt; e != nil && ex.sent >= e.Chunk {
		data, name := []byte(e.Data), e.Event
		if data == nil {
			data = inBandError(ex.r, ex.ask.op, &e.Fault)
		}
		if name == "" && ex.ask.op != nil && ex.ask.op.namedEvents {
			name = "error"
		}
		ex.write(appendEvent(nil, &event{name: name, data: data}, s.eol()))
		return true
	}
	return s.Cut != nil && ex.sent >= *s.Cut
}

func (ex *exchange) comments(c *Comments) bool {
	text := c.Text
	if text == "" {
		text = "keep-alive"
	}
	ev := &event{script: &Event{Comment: text}}
	if c.Ping {
		ev = &event{name: "ping", data: []byte(`{"type":"ping"}`)}
	}
	one := appendEvent(nil, ev, ex.step.eol())
	for range c.Count {
		if !ex.write(one) || !ex.wait(c.Every) {
			return false
		}
	}
	return true
}

// keepOpen holds the answer's end back. A client that leaves now has it all.
func (ex *exchange) keepOpen() {
	if ex.step.KeepOpen <= 0 {
		return
	}
	ex.rc.Flush()
	t := time.NewTimer(ex.step.KeepOpen)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ex.r.Context().Done():
	}
}

// write sends bytes of the body in writes of the step's size, up to the byte
// where the script breaks off.
func (ex *exchange) write(b []byte) bool {
	s := &ex.step
	for len(b) > 0 {
		size := len(b)
		if s.WriteSize > 0 {
			size = min(size, s.WriteSize)
		}
		for _, p := range []*Point{s.Reset, s.Close, s.Hang} {
			if at(p, AtBytes) && p.After > ex.wrote {
				size = min(size, p.After-ex.wrote)
			}
		}
		if _, err := ex.w.Write(b[:size]); err != nil {
			return ex.gone()
		}
		b = b[size:]
		ex.wrote += size
		if ex.answer.streams || s.WriteSize > 0 || s.Comments != nil || len(b) > 0 {
			if ex.rc.Flush() != nil {
				return ex.gone()
			}
		}
		if !ex.at(AtBytes, ex.wrote) {
			return false
		}
		if len(b) > 0 && s.WriteDelay > 0 && !ex.wait(s.WriteDelay) {
			return false
		}
	}
	return true
}

// htmlPage is the kind of page that a proxy in front of a provider sends.
func htmlPage(size int) []byte {
	const head, foot = "<!DOCTYPE html>\n<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1><p>", "</p></body></html>\n"
	return []byte(head + strings.Repeat("nginx ", max(size-len(head)-len(foot), 0)/6) + foot)
}
