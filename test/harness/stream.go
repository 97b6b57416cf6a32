package harness

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Stream is an answer that is read as it comes, over a connection of its own.
type Stream struct {
	Status int
	Header http.Header

	g       *Gateway
	conn    net.Conn
	res     *http.Response
	lines   chan line
	decoder Decoder
	queue   []Event
	raw     strings.Builder
	end     error
}

type line struct {
	data string
	err  error
	at   time.Time
}

// Open posts a request and returns once the answer's head is there.
func (g *Gateway) Open(path, body string, lines ...string) *Stream {
	g.t.Helper()
	s, err := g.TryOpen(path, body, lines...)
	if err != nil {
		g.t.Fatalf("POST %s: %v", path, err)
	}
	return s
}

// TryOpen is Open for requests that may fail, and for other goroutines than
// the test's own.
func (g *Gateway) TryOpen(path, body string, lines ...string) (*Stream, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), 60*time.Second)
	req, err := g.request(ctx, http.MethodPost, path, body, lines)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Stream{g: g, lines: make(chan line, 1024)}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, addr)
			s.conn = conn
			return conn, err
		}}
	res, err := transport.RoundTrip(req)
	if err != nil {
		cancel()
		return nil, err
	}
	s.res, s.Status, s.Header = res, res.StatusCode, res.Header
	g.t.Cleanup(func() { s.Close(); cancel() })
	go s.read()
	return s, nil
}

func (s *Stream) read() {
	in := bufio.NewReaderSize(s.res.Body, 64<<10)
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			s.lines <- line{data: string(buf[:n]), at: time.Now()}
		}
		if err != nil {
			s.lines <- line{err: err}
			return
		}
	}
}

// Event waits for the next event. ok is false at the end of the answer; End
// says how it ended.
func (s *Stream) Event() (e Event, ok bool) {
	s.g.t.Helper()
	for len(s.queue) == 0 {
		if s.end != nil {
			return Event{}, false
		}
		if _, ok := s.Piece(20 * time.Second); !ok && s.end == nil {
			s.g.t.Fatalf("nothing came for 20 s after %q", s.raw.String())
		}
	}
	e, s.queue = s.queue[0], s.queue[1:]
	return e, true
}

// Next is the data of the next event; the end of the answer is an error of the
// test.
func (s *Stream) Next() string {
	s.g.t.Helper()
	e, ok := s.Event()
	if !ok {
		s.g.t.Fatalf("the stream ended (%v) where an event was due; so far: %q", s.end, s.raw.String())
	}
	return e.Data
}

// Piece waits for the next bytes, at most for d.
func (s *Stream) Piece(d time.Duration) (string, bool) {
	if s.end != nil {
		return "", false
	}
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case l := <-s.lines:
		if l.err != nil {
			s.end = l.err
			return "", false
		}
		s.raw.WriteString(l.data)
		s.queue = append(s.queue, s.decoder.Feed(l.data)...)
		return l.data, true
	case <-limit.C:
		return "", false
	}
}

// Rest reads to the end and gives the data of the events that were not taken
// yet.
func (s *Stream) Rest() []string {
	s.g.t.Helper()
	var out []string
	for {
		e, ok := s.Event()
		if !ok {
			return out
		}
		out = append(out, e.Data)
	}
}

// Clean says that the answer ended in the way its framing promises; valid
// once the end was reached.
func (s *Stream) Clean() bool { return s.end == io.EOF }

// End is how the answer ended; nil while it runs.
func (s *Stream) End() error { return s.end }

// Raw is every byte of the body that came so far.
func (s *Stream) Raw() string { return s.raw.String() }

// Trailer gives the trailers; valid once the end was reached.
func (s *Stream) Trailer() http.Header { return s.res.Trailer }

// Close closes the connection under the answer.
func (s *Stream) Close() { _ = s.conn.Close() }

// Leave closes the connection under the answer and waits until the gateway has
// noticed.
func (s *Stream) Leave() {
	s.g.t.Helper()
	s.Close()
	s.g.letGo(s.conn.LocalAddr())
}

// CloseWrite says that nothing more will be sent, and goes on reading.
func (s *Stream) CloseWrite() { _ = s.conn.(*net.TCPConn).CloseWrite() }
