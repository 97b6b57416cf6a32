package providers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Try makes one attempt: see Provider.
func (r *Relay) Try(ctx context.Context, c *Call, model string, credential int) (Answer, *Error) {
	a := &attempt{wire: c.Wire, maxJudged: r.maxJudged}
	a.begin(ctx, &r.endpoint)
	if c.Stream {
		a.waiting.Store(a.now())
		a.set(r.timeouts.FirstByte, errFirstByte)
	}

	u := r.base.join(c.Path, c.Query)
	if err := a.exchange(c.Method, u, u.Host, r.requestHeader(c, credential), r.upstreamBody(c, model)); err != nil {
		return nil, err
	}
	if !c.Stream {
		a.set(r.timeouts.Idle, errIdle)
	}
	return a.answered(c)
}

// attempt is one request sent to an upstream, and the reading of its answer.
type attempt struct {
	watch
	to       *endpoint
	wire     Wire
	parent   context.Context // the record's
	release  func() bool     // ends the tie to it
	body     bytes.Reader    // the request's
	response *http.Response
	header   http.Header // what is left of the response's
	from     io.Reader   // the response's body, decoded
	decoder  io.Closer   // of from; nil where there is none
	closed   bool
	begun    bool // a byte of the body came
	ended    bool // the body was read to its end

	maxJudged int64 // see Options

	// Of the connection the request went out on.
	conn     *markedConn
	mark     uint64      // of conn when it was handed out
	may      func() bool // asked just before the first byte; nil: it may be sent
	got      bool        // a connection was handed out
	writing  chan error  // receives when a large request was written; nil for others
	reusable bool        // the connection may serve others once the answer has ended
}

// begin ties the attempt to the call's context, but only as long as it is
// read: what is left of an answer that is over is nobody's to cancel.
func (a *attempt) begin(ctx context.Context, to *endpoint) {
	a.to, a.parent = to, ctx
	a.start = time.Now()
	a.release = context.AfterFunc(ctx, a.parentEnded)
}

// exchange sends the request and takes the head of its answer.
func (a *attempt) exchange(method string, u *url.URL, host string, h http.Header, body []byte) *Error {
	reader, length := a.requestBody(method, body)
	request := &http.Request{
		Method: method, URL: u, Host: host, Header: h, Body: reader, ContentLength: length,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	err := a.parent.Err()
	switch {
	case err != nil:
	case a.to.transport == nil:
		a.response, err = a.send(request)
	default:
		a.response, err = a.sendByTransport(request)
	}
	if err != nil {
		return a.unanswered(err)
	}
	a.from = a.response.Body
	return nil
}

func (a *attempt) parentEnded() { a.cancel(context.Cause(a.parent)) }

// sentAll lets go of the request's body, which may be large and its answer
// long, and starts the wait for the first byte anew: the time an upload took is
// not the upstream's. It is called where the body was read.
func (a *attempt) sentAll() {
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
		a.set(a.to.timeouts.Idle, errIdle)
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
	case over && !a.ended && a.response != nil:
		a.to.drains.Add(1)
		go a.drain()
	default:
		a.part()
	}
}

// readerFunc reads by a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func (a *attempt) drain() {
	defer a.to.drains.Add(-1)
	stop := time.AfterFunc(drainFor, func() { a.cancel(nil) })
	defer stop.Stop()
	io.CopyN(io.Discard, readerFunc(a.Read), drainMax)
	a.part()
}
