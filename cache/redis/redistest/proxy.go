package redistest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a way to a server that can be disturbed.
type Proxy struct {
	Addr string

	to       string
	accepted atomic.Int64
	delay    atomic.Int64
	hang     atomic.Bool
	lose     atomic.Pointer[func(reply []byte) bool]
	forgets  atomic.Int64
	drop     atomic.Pointer[func(reply []byte) bool]
	held     atomic.Pointer[hold]

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// hold is what stops connections at chosen commands.
type hold struct {
	after bool
	f     func(command []byte) bool
	came  chan struct{}
	over  chan struct{}
	end   func() // closes over, once
}

// NewProxy opens a way to an address. It is closed with the test.
func NewProxy(tb testing.TB, to string) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), to: to, conns: make(map[net.Conn]bool)}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.accepted.Add(1)
			done.Go(func() { p.carry(c) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		p.Hang(false)
		if h := p.held.Load(); h != nil {
			h.end()
		}
		p.Cut()
		done.Wait()
	})
	return p
}

// Delay holds each reply back for d.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Hang lets nothing through any more, without a word.
func (p *Proxy) Hang(hang bool) { p.hang.Store(hang) }

// Lose ends the connection in place of each reply that f chooses. What was
// asked for has been done then.
func (p *Proxy) Lose(f func(reply []byte) bool) { p.lose.Store(&f) }

// Forget lets the connections that there are lead nowhere, as when the server
// was replaced: who sends over one is told so then, by a reset.
func (p *Proxy) Forget() { p.forgets.Add(1) }

// Drop lets no reply through that f chooses, without a word.
func (p *Proxy) Drop(f func(reply []byte) bool) { p.drop.Store(&f) }

// Hold stops a connection at each command that f chooses: before the server has
// it, or with after once the server has done it and answered. came tells of
// each. After release they go on, though the client may have left by then, and
// none is stopped any more. Commands that are sent one by one are meant, not
// pipelines; one Hold at a time.
func (p *Proxy) Hold(after bool, f func(command []byte) bool) (came <-chan struct{}, release func()) {
	h := &hold{after: after, f: f, came: make(chan struct{}, 64), over: make(chan struct{})}
	h.end = sync.OnceFunc(func() { close(h.over) })
	p.held.Store(h)
	return h.came, func() {
		p.held.CompareAndSwap(h, nil)
		h.end()
	}
}

// wait stops a connection until the hold is over.
func (h *hold) wait() {
	select {
	case h.came <- struct{}{}:
	default: // enough were told of
	}
	<-h.over
}

// Accepted is how many connections there have been.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

// Open is how many there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) carry(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer far.Close()
	p.mu.Lock()
	p.conns[near], p.conns[far] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, near)
		delete(p.conns, far)
		p.mu.Unlock()
	}()
	var both sync.WaitGroup
	var chosen atomic.Pointer[hold] // of the last command, whose reply is held
	both.Go(func() { p.pump(near, far, false, &chosen) })
	both.Go(func() { p.pump(far, near, true, &chosen) })
	both.Wait()
}

func (p *Proxy) pump(from, to net.Conn, replies bool, chosen *atomic.Pointer[hold]) {
	defer from.Close()
	defer to.Close()
	b, known := make([]byte, 64<<10), p.forgets.Load()
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if tcp, ok := from.(*net.TCPConn); ok && !replies && known != p.forgets.Load() {
			_ = tcp.SetLinger(0)
			return
		}
		for p.hang.Load() {
			time.Sleep(time.Millisecond)
			p.mu.Lock()
			gone := !p.conns[from]
			p.mu.Unlock()
			if gone {
				return
			}
		}
		if h := p.held.Load(); !replies && h != nil && h.f(b[:n]) {
			if h.after {
				chosen.Store(h)
			} else {
				h.wait()
			}
		}
		if replies {
			if h := chosen.Swap(nil); h != nil {
				h.wait()
			}
			if d := p.delay.Load(); d > 0 {
				time.Sleep(time.Duration(d))
			}
			if lose := p.lose.Load(); lose != nil && (*lose)(b[:n]) {
				return
			}
			if drop := p.drop.Load(); drop != nil && (*drop)(b[:n]) {
				continue
			}
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
