package providers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"
)

// Try makes one attempt: see Provider.
func (r *Relay) Try(ctx context.Context, c *Call, model string, credential int) (Answer, *Error) {
	a := &attempt{relay: r, wire: c.Wire, parent: ctx}
	// The attempt ends with the call's context, but only as long as it is
	// read: what is left of an answer that is over is nobody's to cancel.
	own, cancel := context.WithCancelCause(context.Background())
	a.start, a.cancel = time.Now(), cancel
	a.release = context.AfterFunc(ctx, a.parentEnded)

	a.trace.GotConn = a.gotConn
	a.trace.WroteRequest = a.wroteRequest
	if c.Stream {
		a.waiting.Store(a.now())
		a.set(r.timeouts.FirstByte, errFirstByte)
	}
	a.ctx = httptrace.WithClientTrace(own, &a.trace)

	u := r.base.join(c.Path, c.Query)
	header := r.requestHeader(c, credential)
	body, length := a.requestBody(c.Method, header, r.upstreamBody(c, model))
	request := http.Request{
		Method: c.Method, URL: u, Host: u.Host, Header: header, Body: body, ContentLength: length,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	response, err := r.transport.RoundTrip(request.WithContext(a.ctx))
	if err != nil {
		return nil, a.unanswered(err)
	}
	a.response = response
	a.from = response.Body
	if !c.Stream {
		a.set(r.timeouts.Idle, errIdle)
	}
	return a.answered(c)
}

// attempt is one request sent to an upstream, and the reading of its answer.
type attempt struct {
	watch
	relay    *Relay
	wire     Wire
	parent   context.Context // the record's
	release  func() bool     // ends the tie to it
	ctx      context.Context // ends with it, and by the attempt's own limits
	trace    httptrace.ClientTrace
	body     bytes.Reader // the request's; net/http reads it
	response *http.Response
	header   http.Header // what is left of the response's
	from     io.Reader   // the response's body, decoded
	decoder  io.Closer   // of from; nil where there is none
	closed   bool
	begun    bool // a byte of the body came
	ended    bool // the body was read to its end

	// Of the connection the request went out on. Only RoundTrip's own
	// goroutine and, after it returned, ours touch these.
	conn *markedConn
	mark uint64 // of conn when it was handed out
	got  bool   // a connection was handed out
}

func (a *attempt) parentEnded() { a.cancel(context.Cause(a.parent)) }

// gotConn notes the connection and where its mark stands. net/http may take
// a second one by itself where the first was dead: it must not do so once
// something was written.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	if a.got && (a.conn == nil || !a.conn.seal(a.mark)) {
		a.relay.replays.Add(1)
	}
	a.got = true
	if a.conn = marked(info.Conn); a.conn != nil {
		a.mark = a.conn.mark.Load()
	}
}

// wroteRequest lets go of the request's body, which may be large and its
// answer long, and starts the wait for the first byte anew: the time an upload
// took is not the upstream's. net/http calls it where it read the body.
func (a *attempt) wroteRequest(httptrace.WroteRequestInfo) {
	a.body.Reset(nil)
	if since := a.waiting.Load(); since > 0 {
		a.waiting.CompareAndSwap(since, a.now())
	}
}

// sent reports whether any byte of the request may have left. It lets no
// further byte leave.
func (a *attempt) sent() bool {
	if !a.got {
		return false
	}
	return a.conn == nil || !a.conn.seal(a.mark)
}

// Read reads the response's body as it came over the wire, within the limits.
func (a *attempt) Read(p []byte) (int, error) {
	if a.begun {
		a.waiting.Store(a.now())
	} else if a.waiting.Load() == 0 {
		a.waiting.Store(a.now())
	}
	n, err := a.response.Body.Read(p)
	a.waiting.Store(0)
	if n > 0 && !a.begun {
		a.begun = true
		a.set(a.relay.timeouts.Idle, errIdle)
	}
	if err == io.EOF {
		a.ended = true
	}
	return n, err
}

// read reads the body, decoded.
func (a *attempt) read(p []byte) (int, error) {
	if a.decoder != nil {
		return a.from.Read(p)
	}
	return a.Read(p)
}

const (
	// drainFor is how long an answer that is over for its reader may take to
	// end on the wire; then its connection is given up.
	drainFor = 250 * time.Millisecond
	drainMax = 64 << 10
)

// finish lets the upstream go. With over set the answer is over, though
// perhaps not its transfer: what little is left is read in the background,
// so that the connection can serve others.
func (a *attempt) finish(over bool) {
	if a.closed {
		return
	}
	a.closed = true
	a.release()
	a.watch.stop()
	if a.decoder != nil {
		a.decoder.Close()
	}
	switch {
	case a.response == nil:
		a.cancel(nil)
	case over && !a.ended:
		a.relay.drains.Add(1)
		go a.drain()
	default:
		a.cancel(nil) // of an answer not read to its end this closes the connection
		a.response.Body.Close()
	}
}

func (a *attempt) drain() {
	defer a.relay.drains.Add(-1)
	stop := time.AfterFunc(drainFor, func() { a.cancel(nil) })
	defer stop.Stop()
	defer a.cancel(nil)
	io.CopyN(io.Discard, a.response.Body, drainMax)
	a.response.Body.Close()
}
