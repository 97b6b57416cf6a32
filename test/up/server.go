// Package up is the scripted upstream of the black-box tests: a plain TCP
// server that speaks HTTP/1.1 by hand, so that a test decides about every
// byte, every close and every reset, and sees every byte of a request.
//
// It shares no code with the product's own mock, so that one misreading of a
// wire format can't hide in both.
package up

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Server is one upstream. Its zero value is not usable; New makes one.
type Server struct {
	t    testing.TB
	addr string
	ln   net.Listener // nil until it listens
	done chan struct{}
	wg   sync.WaitGroup

	accepts atomic.Int64
	open    atomic.Int64

	mu     sync.Mutex
	calls  []*Call // every request whose head arrived
	whole  int     // how many of them arrived with their whole body
	choose func(*Call) Step
	conns  map[net.Conn]bool
	more   chan struct{} // closed and renewed whenever a call arrives whole
}

// New starts an upstream that answers its n-th call by the n-th step and every
// further one by the last. Without steps it answers OK("hello").
func New(t testing.TB, steps ...Step) *Server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("upstream: %v", err)
	}
	s := silent(t, ln.Addr().String(), steps)
	s.listen(ln)
	return s
}

// Closed makes an upstream as New does, whose port refuses every connection
// until open is called.
func Closed(t testing.TB, steps ...Step) (s *Server, open func()) {
	t.Helper()
	fd, port := bind(t)
	socket := os.NewFile(uintptr(fd), "upstream")
	t.Cleanup(func() { _ = socket.Close() })
	s = silent(t, fmt.Sprintf("127.0.0.1:%d", port), steps)
	return s, func() {
		t.Helper()
		if err := syscall.Listen(fd, 128); err != nil {
			t.Fatalf("listen: %v", err)
		}
		ln, err := net.FileListener(socket)
		if err != nil {
			t.Fatalf("upstream: %v", err)
		}
		s.listen(ln)
	}
}

// silent is a server that does not listen yet.
func silent(t testing.TB, addr string, steps []Step) *Server {
	s := &Server{t: t, addr: addr, done: make(chan struct{}), conns: map[net.Conn]bool{}, more: make(chan struct{})}
	if len(steps) == 0 {
		steps = []Step{OK("hello")}
	}
	s.Script(steps...)
	return s
}

func (s *Server) listen(ln net.Listener) {
	s.ln = ln
	s.wg.Go(s.accept)
	s.t.Cleanup(s.close)
}

// Refused gives the URL of a port that refuses every connection, reserved for
// the length of the test.
func Refused(t testing.TB) string {
	t.Helper()
	fd, port := bind(t)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// bind makes a socket that is bound and does not listen: a dial is answered
// by a reset.
func bind(t testing.TB) (fd, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("socket: %v", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("bind: %v", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatalf("getsockname: %v", err)
	}
	return fd, name.(*syscall.SockaddrInet4).Port
}

// URL is where the server listens, without a path.
func (s *Server) URL() string { return "http://" + s.addr }

// Script replaces what is answered: call by call in order, counted from the
// next call on, and the last step for all that follow.
func (s *Server) Script(steps ...Step) {
	s.mu.Lock()
	first := s.whole
	s.mu.Unlock()
	s.Choose(func(c *Call) Step { return steps[min(c.N-first-1, len(steps)-1)] })
}

// Choose replaces what is answered by a choice made for each call. It may be
// called from many goroutines at once.
func (s *Server) Choose(f func(*Call) Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.choose = f
}

// Calls gives the requests whose body arrived whole, in that order.
func (s *Server) Calls() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Call, 0, len(s.calls))
	for _, c := range s.calls {
		if c.N > 0 {
			out = append(out, c)
		}
	}
	return out
}

// N is the number of requests whose body arrived whole.
func (s *Server) N() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole
}

// Heads is the number of requests of which at least the head arrived.
func (s *Server) Heads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

// Accepts is the number of connections that were ever accepted.
func (s *Server) Accepts() int { return int(s.accepts.Load()) }

// Open is the number of connections that are open now.
func (s *Server) Open() int { return int(s.open.Load()) }

// Call waits until the n-th whole call (from 1) has arrived and gives it. It
// fails the test when that takes longer than ten seconds.
func (s *Server) Call(n int) *Call {
	s.t.Helper()
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for {
		s.mu.Lock()
		for _, c := range s.calls {
			if c.N == n {
				s.mu.Unlock()
				return c
			}
		}
		more := s.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-limit.C:
			s.t.Fatalf("upstream: call %d never arrived; %d did", n, s.N())
		}
	}
}

// HangUp closes every connection, whatever is under way on it.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *Server) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		id := int(s.accepts.Add(1))
		s.open.Add(1)
		s.wg.Go(func() {
			defer s.open.Add(-1)
			defer s.forget(conn)
			s.serve(id, conn.(*net.TCPConn))
		})
	}
}

func (s *Server) forget(conn net.Conn) {
	_ = conn.Close()
	s.mu.Lock()
	delete(s.conns, conn)
	s.mu.Unlock()
}

func (s *Server) close() {
	close(s.done)
	_ = s.ln.Close()
	s.HangUp()
	s.wg.Wait()
}

// serve answers the requests of one connection, one after the other.
func (s *Server) serve(id int, conn *net.TCPConn) {
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		c, err := readHead(in)
		if err != nil {
			return
		}
		c.Conn, c.At, c.gone = id, time.Now(), make(chan struct{})
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		if c.Body, err = readBody(in, c, conn); err != nil {
			return
		}
		s.mu.Lock()
		s.whole++
		c.N = s.whole
		close(s.more)
		s.more = make(chan struct{})
		choose := s.choose
		s.mu.Unlock()

		// The next byte is waited for while the answer is written: it says
		// that the peer left, or starts the next request.
		watched := make(chan error, 1)
		s.wg.Go(func() {
			_, err := in.Peek(1)
			if err != nil {
				close(c.gone)
			}
			watched <- err
		})
		x := &Exchange{Call: c, conn: conn, done: s.done}
		choose(c)(x)
		if x.closed {
			<-watched
			return
		}
		x.End()
		err = <-watched
		if err != nil || x.closeOnNext {
			if x.closeOnNext && err == nil {
				x.Reset()
			}
			return
		}
	}
}
