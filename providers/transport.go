package providers

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// newTransport makes the connections to one upstream: HTTP/1 only, since
// HTTP/2 sends requests again by itself (WRITES.md 2), each connection with
// a mark of what was written to it. Used through RoundTrip it follows no
// redirect. connect bounds DNS, dial and TLS together.
func newTransport(connect time.Duration) *http.Transport {
	d := dialer{
		limit: connect,
		tls: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			NextProtos:         []string{"http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(64),
		},
	}
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		TLSClientConfig:        d.tls,
		TLSHandshakeTimeout:    connect, // through a proxy, where the transport does TLS itself
		Protocols:              &http1,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    4096,
		IdleConnTimeout:        60 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		// A held stream costs these as long as it lasts. Larger reads and
		// writes go past them.
		ReadBufferSize:  2 << 10,
		WriteBufferSize: 2 << 10,
	}
}

type dialer struct {
	limit time.Duration
	tls   *tls.Config
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
}

var errSealed = errors.New("the attempt is over, nothing more is written")

func (c *markedConn) Write(p []byte) (int, error) {
	for {
		m := c.mark.Load()
		if m&1 != 0 {
			return 0, errSealed
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
// method is idempotent or the client's own key header says so. An empty opaque body prevents that;
// with POST, PUT and PATCH it would be sent as an empty chunked one, so those
// have it only where such a header came.
func (a *attempt) requestBody(method string, header http.Header, body []byte) (io.ReadCloser, int64) {
	if len(body) > 0 {
		a.body.Reset(body)
		return io.NopCloser(&a.body), int64(len(body))
	}
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		if header["Idempotency-Key"] == nil && header["X-Idempotency-Key"] == nil {
			return http.NoBody, 0
		}
	}
	return emptyBody{}, 0
}
