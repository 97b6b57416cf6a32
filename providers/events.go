package providers

import (
	"bytes"
	"io"

	"oncegate/policy"
)

// verdict is what one event is to the call.
type verdict struct {
	kind  PieceKind
	done  bool // the answer ends with this event, whatever the connection does
	fault bool // an error: its data says which
}

// judge knows the events of one wire.
type judge interface {
	// event judges one event that has data.
	event(name, data []byte) verdict
	// closed says whether the answer is complete though no event said so,
	// and what is to be added to it then.
	closed() (tail string, complete bool)
	end() End
}

func newJudge(w Wire) judge {
	switch w {
	case Chat, Completions:
		return &choicesStream{wire: w}
	case Responses:
		return &responsesStream{}
	case Messages:
		return &messagesStream{}
	case Speech, Transcriptions, Images:
		return &mediaStream{wire: w}
	default:
		return &plainStream{}
	}
}

const (
	firstBuffer = 512      // what a stream costs that says little
	mostBuffer  = 4 << 10  // the largest, but for an event that is larger
	leastRoom   = 128      // less is not read into: the buffer is left to those who have its events
	maxEvent    = 64 << 20 // beyond it a line is no event but a flood
)

// events is an answer of server-sent events. Each piece is one or more of
// them, bytes as they came.
type events struct {
	*attempt
	judge   judge
	split   splitter
	buf     []byte // buf[:from] was given out and is others'; buf[from:] was not yet
	from    int
	came    int // bytes so far
	scratch []byte
	held    verdict // of the event that ends at heldEnd, judged and not given out
	heldEnd int     // 0: none
	first   bool    // no event was looked at yet: a BOM may come
	content bool    // content was given out or is about to be
	any     bool    // an event with data came
	readErr error
	failed  *Error
	over    bool // the answer is, its transfer perhaps not
}

func newEvents(a *attempt) *events {
	return &events{attempt: a, judge: newJudge(a.wire), first: true}
}

func (e *events) Events() bool { return true }
func (e *events) End() End     { return e.judge.end() }
func (e *events) Close()       { e.finish(e.over) }

func (e *events) Next() (Piece, *Error) {
	for {
		if e.over {
			return Piece{Last: true}, nil
		}
		if e.failed != nil {
			return Piece{}, e.failed
		}
		if p, ok := e.gather(); ok {
			return p, nil
		}
		if e.failed != nil {
			return Piece{}, e.failed
		}
		if e.readErr != nil {
			return e.ending()
		}
		e.fill()
	}
}

// gather takes the events that have come, as far as they are of one kind.
func (e *events) gather() (Piece, bool) {
	to := e.from
	var kind PieceKind
	for {
		v, end := e.held, e.heldEnd
		e.heldEnd = 0
		if end == 0 {
			if end = e.split.next(e.buf); end < 0 {
				break
			}
			v = e.look(e.buf[to:end])
		}
		if v.fault {
			break // e.failed is set; what came before it is given out first
		}
		if e.content && v.kind == Preamble {
			v.kind = Content // nothing can be taken back any more
		}
		if to > e.from && v.kind != kind {
			e.held, e.heldEnd = v, end
			break
		}
		to, kind = end, v.kind
		e.content = e.content || kind == Content
		if v.done {
			e.over = true
			break
		}
	}
	if to == e.from {
		return Piece{}, false
	}
	return Piece{Kind: kind, Data: e.take(to), Last: e.over}, true
}

// look judges one event.
func (e *events) look(raw []byte) verdict {
	if e.first {
		e.first = false
		raw = bytes.TrimPrefix(raw, bom)
	}
	ev := parseEvent(raw, &e.scratch)
	if e.wire != Raw && string(ev.name) == "error" {
		e.fail(ev.data)
		return verdict{fault: true}
	}
	if len(ev.data) == 0 || e.wire != Raw && string(ev.name) == "ping" {
		return verdict{kind: Preamble}
	}
	e.any = true
	v := e.judge.event(ev.name, ev.data)
	switch {
	case v.fault:
		e.fail(ev.data)
	case v.done && !e.content && v.kind != Content:
		// It ends before it began, and nobody has seen any of it.
		e.failed = e.unusable("with a stream that has nothing in it", nil)
		v.fault = true
	}
	return v
}

func (e *events) fail(data []byte) {
	e.failed = e.errorInside(policy.Broken, asObject(bytes.Clone(data)))
}

// take gives out the bytes up to to. They are the caller's from then on: the
// buffer is never written there again.
func (e *events) take(to int) []byte {
	data := e.buf[e.from:to:to]
	if e.from = to; len(data) > mostBuffer {
		e.renew(len(e.buf) - to) // what follows is not to keep this one alive
	}
	if e.over && bytes.HasSuffix(data, []byte("\r\n\r")) {
		// The CR LF that ends the last event was cut in two, and nothing more
		// is read.
		data = append(data, '\n')
	}
	return data
}

// shift says that n bytes were taken from the front of the buffer.
func (e *events) shift(n int) {
	e.split.shift(n)
	if e.heldEnd > 0 {
		e.heldEnd -= n
	}
}

// fill reads what has come, or waits for it.
func (e *events) fill() {
	left := len(e.buf) - e.from
	if left >= maxEvent {
		e.failed = e.unusable("with an event of over 64 MiB", nil)
		e.failed.Phase = policy.Broken
		return
	}
	if cap(e.buf)-len(e.buf) < leastRoom {
		// As large as all before it together, and twice as large as an event
		// that did not end in it.
		e.renew(max(firstBuffer, min(e.came, mostBuffer), min(2*left, maxEvent+leastRoom)))
	}
	n, err := e.read(e.buf[len(e.buf):cap(e.buf)])
	e.came += n
	e.buf = e.buf[:len(e.buf)+n]
	e.readErr = err
}

// renew moves what was not given out yet to a buffer of its own.
func (e *events) renew(size int) {
	next := make([]byte, len(e.buf)-e.from, size)
	copy(next, e.buf[e.from:])
	e.shift(e.from)
	e.buf, e.from = next, 0
}

// ending makes of the transfer's end what it is to the answer.
func (e *events) ending() (Piece, *Error) {
	if e.parent.Err() != nil && e.readErr != io.EOF {
		return Piece{}, e.failWith(e.broken(e.readErr))
	}
	var rest []byte
	kind := Content
	if left := e.buf[e.from:]; len(left) > 0 && e.readErr == io.EOF {
		if left[0] == '\n' && len(left) == 1 {
			rest = left // it ends the line before it
		} else if e.wire == Raw {
			rest = left
		} else if whole := unterminated(left); whole != nil {
			v := e.look(whole)
			if v.fault {
				return Piece{}, e.failed
			}
			rest = whole
			if kind = v.kind; e.content && kind == Preamble {
				kind = Content
			}
			e.content = e.content || kind == Content
			if v.done {
				e.over = true
				return Piece{Kind: kind, Data: rest, Last: true}, nil
			}
		}
	}
	tail, complete := e.judge.closed()
	switch {
	case complete && (e.readErr == io.EOF || e.wire != Raw):
	case e.readErr != io.EOF:
		return Piece{}, e.failWith(e.broken(e.readErr))
	case !e.any:
		return Piece{}, e.failWith(e.unusable("with a stream that has nothing in it", nil))
	default:
		return Piece{}, e.failWith(e.endedEarly())
	}
	if kind == Usage {
		// Only some may see it: the tail is a piece of its own.
		e.from, e.buf = 0, nil
		e.split = splitter{}
		return Piece{Kind: Usage, Data: bytes.Clone(rest)}, nil
	}
	e.over = true
	return Piece{Kind: Content, Data: append(bytes.Clone(rest), tail...), Last: true}, nil
}

func (e *events) failWith(err *Error) *Error {
	e.failed = err
	return err
}

// unterminated gives the last event of a stream that ended without its empty
// line, with that line; nil when the event was cut.
func unterminated(left []byte) []byte {
	var scratch []byte
	ev := parseEvent(bytes.TrimPrefix(left, bom), &scratch)
	if ev.has && len(ev.data) > 0 && string(bytes.TrimSpace(ev.data)) != "[DONE]" && !valid(ev.data) {
		return nil
	}
	if !ev.has && !bytes.HasPrefix(bytes.TrimLeft(left, "\r\n"), []byte(":")) && !bytes.HasSuffix(left, []byte("\n")) {
		return nil // a field's name, or a part of it
	}
	whole := bytes.TrimRight(left, "\r\n")
	return append(bytes.Clone(whole), "\n\n"...)
}
