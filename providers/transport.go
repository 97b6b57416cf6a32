package providers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// needsTransport says that an upstream is not reached by connections of our
// own: through a proxy that the environment names, or under a name that is
// first to be written in ASCII. net/http knows how.
func needsTransport(b *base) bool {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: b.join("", "")})
	if proxy != nil || err != nil {
		return true
	}
	for i := range len(b.host) {
		if b.host[i] >= utf8.RuneSelf {
			return true
		}
	}
	return false
}

// newTransport makes connections by net/http: HTTP/1 only, since
// HTTP/2 sends requests again by itself (WRITES.md 2), each connection with
// a mark of what was written to it. Used through RoundTrip it follows no
// redirect.
func newTransport(d dialer, idleFor time.Duration) *http.Transport {
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		TLSClientConfig:        d.tls,
		TLSHandshakeTimeout:    d.limit, // through a proxy, where the transport does TLS itself
		Protocols:              &http1,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: maxHead,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        readBuffer,
	}
}

// sendByTransport is send by way of net/http.
func (a *attempt) sendByTransport(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.Background())
	if !a.use(nil, cancel) {
		cancel()
		return nil, context.Canceled
	}
	hideKeys(request.Header)
	trace := httptrace.ClientTrace{
		GotConn:      a.gotConn,
		WroteRequest: func(httptrace.WroteRequestInfo) { a.sentAll() },
	}
	return a.to.transport.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, &trace)))
}

// gotConn notes the connection and where its mark stands. net/http may take
// a second one by itself where the first was dead: once something was written
// it must not, and where it does nothing is written there.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	next := marked(info.Conn)
	if a.got && a.sent() {
		a.to.replays.Add(1)
		if next != nil {
			next.seal(0) // what was sent once goes out no second time
		}
		return
	}
	a.got = true
	if a.conn = next; next != nil {
		a.mark, next.may = next.mark.Load(), a.may
	}
}

// dialer makes marked connections. limit bounds DNS, dial and TLS together.
type dialer struct {
	limit time.Duration
	tls   *tls.Config
}

func newDialer(limit time.Duration) dialer {
	return dialer{limit: limit, tls: &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(64),
	}}
}

// dialError is a connection that could not be made: nothing was sent.
type dialError struct {
	err     error
	timeout bool
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	c, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, failedDial(err)
	}
	return &markedConn{Conn: c}, nil
}

// dialTLS does the handshake itself so that the mark lies above TLS: what TLS
// writes of its own, as an alert on closing, is no part of a request.
func (d dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	defer cancel()
	c, err := (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, failedDial(err)
	}
	config := d.tls
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, failedDial(err)
	}
	return &markedConn{Conn: t}, nil
}

func failedDial(err error) error {
	return &dialError{err: err, timeout: errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || isTimeout(err)}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// markedConn knows whether anything was written to it since a given moment.
// The mark moves before each Write: one that moved after it read "nothing"
// while the server had the request (WRITES.md 2).
type markedConn struct {
	net.Conn
	mark atomic.Uint64 // writes begun, times two; odd once sealed
	may  func() bool   // asked before the first write of an attempt; nil: it may
}

var (
	errSealed = errors.New("the attempt is over, nothing more is written")
	errMayNot = fmt.Errorf("the call may not be sent any more: %w", errSealed)
)

func (c *markedConn) Write(p []byte) (int, error) {
	for {
		m := c.mark.Load()
		if m&1 != 0 {
			return 0, errSealed
		}
		if c.may != nil {
			if !c.may() {
				c.mark.Or(1)
				return 0, errMayNot
			}
			c.may = nil
		}
		if c.mark.CompareAndSwap(m, m+2) {
			return c.Conn.Write(p)
		}
	}
}

// seal lets no further write begin and reports whether none had since the
// mark was read: proof that nothing was sent and nothing will be.
func (c *markedConn) seal(since uint64) bool {
	return c.mark.Or(1)|1 == since|1
}

// marked finds the marked connection under what a request was sent on.
func marked(c net.Conn) *markedConn {
	if m, ok := c.(*markedConn); ok {
		return m
	}
	if t, ok := c.(*tls.Conn); ok { // through a proxy
		if m, ok := t.NetConn().(*markedConn); ok {
			return m
		}
	}
	return nil
}

// emptyBody is a body without bytes that net/http takes for one it can't send
// a second time.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }

// requestBody gives the body and its length as http.Request wants them.
// Without a GetBody net/http can't send it a second time (WRITES.md 2); as a
// reader that it knows to be in memory it goes out in one write with the
// headers, where another would cost one more.
//
// A body-less request is one that net/http sends again by itself where the
// method is idempotent. An empty opaque body prevents that; with methods other
// than these it would be sent as an empty chunked one, and is not needed: see
// hideKeys. Our own connections send nothing by themselves.
func (a *attempt) requestBody(method string, body []byte) (io.ReadCloser, int64) {
	if len(body) > 0 {
		a.body.Reset(body)
		return io.NopCloser(&a.body), int64(len(body))
	}
	if a.to.transport != nil {
		switch method {
		case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete:
			return emptyBody{}, 0
		}
	}
	return http.NoBody, 0
}

// hideKeys has the headers by which net/http takes any body-less request for
// idempotent, and sends it again, in small letters: it does not know them so,
// and to a server they are the same.
func hideKeys(h http.Header) {
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}
