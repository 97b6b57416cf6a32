package mock

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// atRequest plays a step that acts before the body is read, and says whether
// the exchange goes on.
func (ex *exchange) atRequest() bool {
	s := &ex.step
	switch {
	case at(s.Reset, AtAccept) || at(s.Reset, AtRequest):
		return ex.breakOff(true)
	case at(s.Close, AtAccept) || at(s.Close, AtRequest):
		return ex.breakOff(false)
	case at(s.Hang, AtRequest) && s.Hang.For > 0:
		return ex.wait(s.Hang.For)
	}
	// A server notices that a client left only while it reads. So this one
	// reads on, and keeps nothing.
	c, _, err := ex.rc.Hijack()
	if err != nil {
		<-ex.r.Context().Done()
		return ex.gone()
	}
	stop := context.AfterFunc(ex.r.Context(), func() { c.Close() })
	defer stop()
	io.Copy(io.Discard, c)
	c.Close()
	return ex.gone()
}

// at does what the script says happens at this place, if anything, and says
// whether the exchange goes on.
func (ex *exchange) at(place Place, n int) bool {
	s := &ex.step
	if h := s.Hang; at(h, place) && n >= h.After {
		s.Hang = nil
		if place == AtBytes || place == AtChunks {
			ex.rc.Flush()
		}
		if h.For > 0 {
			if place == AtBeforeEffect {
				time.Sleep(h.For) // the work goes on, whether or not the client stays
			} else if !ex.wait(h.For) {
				return false
			}
		} else {
			<-ex.r.Context().Done()
			return ex.gone()
		}
	}
	for _, p := range []*Point{s.Reset, s.Close} {
		if !at(p, place) || n < p.After {
			continue
		}
		if p.For > 0 {
			ex.performLate(p.For)
		}
		return ex.breakOff(p == s.Reset)
	}
	return true
}

// breakOff ends the connection in the middle, by a reset or an orderly close.
func (ex *exchange) breakOff(reset bool) bool {
	ex.settle()
	if ex.arrival != nil {
		ex.m.count(func(*counters) {
			ex.arrival.Broken = "closed"
			if reset {
				ex.arrival.Broken = "reset"
			}
		})
	}
	if ex.wrote > 0 || ex.arrival != nil && ex.arrival.Status != 0 {
		ex.rc.Flush()
	}
	c, _, err := ex.rc.Hijack()
	if err != nil { // HTTP/2, or a recorder: the server's own way to break off
		panic(http.ErrAbortHandler)
	}
	breakConn(c, reset)
	return false
}

// breakConn resets a connection, or closes it so that the other side reads an
// orderly end: the kernel would make a reset of a close with bytes unread.
func breakConn(c net.Conn, reset bool) {
	raw := c
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		raw = t.NetConn()
	}
	if reset {
		if l, ok := raw.(interface{ SetLinger(int) error }); ok {
			l.SetLinger(0)
		}
		raw.Close()
		return
	}
	if w, ok := raw.(interface{ CloseWrite() error }); ok && w.CloseWrite() == nil {
		raw.SetReadDeadline(time.Now().Add(time.Second))
		io.Copy(io.Discard, raw)
	}
	c.Close()
}
