package gateway

import (
	"net"
	"testing"
	"time"
)

// answered makes a connection whose last answer was just written, and has the
// client do something with it. It says whether the answer counts as lost.
func answered(t *testing.T, client func(*net.TCPConn)) bool {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := NewConn(accepted).(*conn)
	defer c.Close()
	lost := make(chan struct{})
	c.lost, c.written = told(func() { close(lost) }), time.Now()
	if _, err := c.Write([]byte("the answer")); err != nil {
		t.Fatal(err)
	}
	client(dialled.(*net.TCPConn))
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	c.Read(make([]byte, 100))
	c.mu.Lock()
	judged := c.lost == nil
	c.mu.Unlock()
	if !judged {
		t.Error("nothing was judged")
	}
	select {
	case <-lost:
		return true
	case <-time.After(50 * time.Millisecond):
		return false
	}
}

type told func()

func (f told) Owe() { f() }

func TestSignsOfLoss(t *testing.T) {
	read := func(c *net.TCPConn) { c.Read(make([]byte, 100)) }
	for _, tc := range []struct {
		name   string
		client func(*net.TCPConn)
		lost   bool
	}{
		{"reads and closes", func(c *net.TCPConn) { read(c); c.Close() }, false},
		{"reads and asks again", func(c *net.TCPConn) { read(c); c.Write([]byte("GET")) }, false},
		{"closes without reading", func(c *net.TCPConn) { c.Close() }, true},
		{"reads and resets", func(c *net.TCPConn) { read(c); c.SetLinger(0); c.Close() }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := answered(t, tc.client); got != tc.lost {
				t.Errorf("lost: %v, want %v", got, tc.lost)
			}
		})
	}
}

func TestALateSignIsNone(t *testing.T) {
	c := &conn{}
	c.lost, c.written = told(func() { t.Error("counted as lost") }), time.Now().Add(-2*lossWindow)
	c.judge(true)
}
