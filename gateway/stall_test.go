package gateway

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// piped gives a client's connection as the gateway has it, and the client's
// end of it. Its deadlines keep the time of the test's bubble.
func piped(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	return NewConn(here).(*conn), there
}

// takes has the client take n bytes at a time, gap apart, until it took most
// bytes or its connection ends. It gives how many it took.
func takes(t *testing.T, client net.Conn, n, most int, gap time.Duration) <-chan int {
	done := make(chan int, 1)
	inBackground(t, client, func() {
		took, p := 0, make([]byte, n)
		for took < most {
			time.Sleep(gap)
			m, err := client.Read(p)
			took += m
			if err != nil {
				break
			}
		}
		done <- took
	})
	return done
}

// inBackground runs what a client does. At the end of the test its connection
// is closed and it is waited for.
func inBackground(t *testing.T, client net.Conn, f func()) {
	var running sync.WaitGroup
	running.Go(f)
	t.Cleanup(func() {
		client.Close()
		running.Wait()
	})
}

// A client that takes a few bytes a second of a large answer gets all of it,
// however long that takes.
func TestASlowReaderIsNotCut(t *testing.T) {
	for name, gap := range map[string]time.Duration{"each second": time.Second, "just in time": stallTimeout - time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, client := piped(t)
				answer := make([]byte, writePiece+5000)
				taken := takes(t, client, 100, len(answer), gap)
				begun := time.Now()
				// net/http writes the head and the body in one go or in several.
				for _, part := range [][]byte{answer[:1], answer[1:4096], answer[4096:]} {
					if n, err := c.Write(part); n != len(part) || err != nil {
						t.Fatalf("cut after %v: %d of %d, %v", time.Since(begun), n, len(part), err)
					}
				}
				if n := <-taken; n != len(answer) {
					t.Errorf("it took %d of %d", n, len(answer))
				}
				if d := time.Since(begun); d < 10*stallTimeout {
					t.Errorf("only %v passed: nothing was slow", d)
				}
			})
		})
	}
}

// One that takes nothing for stallTimeout is cut: not before that, and soon
// after.
func TestAReaderThatStallsIsCut(t *testing.T) {
	for name, first := range map[string]int{"from the beginning": 0, "after a part": 5000, "after a piece": writePiece} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, client := piped(t)
				lost := make(chan struct{})
				taken := takes(t, client, 1000, first, 10*time.Millisecond)
				stalled := make(chan time.Time, 1)
				inBackground(t, client, func() {
					<-taken
					stalled <- time.Now()
				})
				c.lost, c.written = told(func() { close(lost) }), time.Now()
				n, err := c.Write(make([]byte, 2*writePiece))
				if !errors.Is(err, os.ErrDeadlineExceeded) || n < first || n >= 2*writePiece {
					t.Fatalf("%d bytes, %v", n, err)
				}
				if d := time.Since(<-stalled); d < stallTimeout || d > 3*stallTimeout {
					t.Errorf("cut after %v of silence, want %v or a little more", d, stallTimeout)
				}
			})
		})
	}
}

// A client whose pauses are each within the limit is not cut for their sum:
// answers that are written now and then, as streams are.
func TestPausesBetweenWritesDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := piped(t)
		const events = 50
		taken := takes(t, client, 1000, events*10, 0)
		for i := range events {
			time.Sleep(7 * time.Second) // the model thinks
			if _, err := c.Write(make([]byte, 10)); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
		if n := <-taken; n != events*10 {
			t.Errorf("it took %d bytes", n)
		}
		// And after a long silence of ours the client still has its whole time.
		begun := time.Now()
		_, err := c.Write(make([]byte, 10))
		if d := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || d < stallTimeout {
			t.Errorf("%v after %v", err, d)
		}
	})
}

// A client that owes a body and sends nothing of it for bodyTimeout is cut;
// one that sends slowly is not.
func TestABodyThatStallsIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, client := piped(t)
		c.owesBody(true)
		inBackground(t, client, func() {
			for range 20 {
				time.Sleep(bodyTimeout - time.Second)
				if _, err := client.Write([]byte("x")); err != nil {
					return
				}
			}
		})
		begun, p := time.Now(), make([]byte, 100)
		for i := range 20 {
			if n, err := c.Read(p); n != 1 || err != nil {
				t.Fatalf("byte %d after %v: %d, %v", i, time.Since(begun), n, err)
			}
		}
		begun = time.Now()
		n, err := c.Read(p)
		if d := time.Since(begun); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || d != bodyTimeout {
			t.Errorf("%d bytes, %v after %v", n, err, d)
		}
	})
}

// Once it has sent its body a client owes nothing: it may wait for its answer
// as long as that takes, also where the server already listens for its next
// request.
func TestAClientThatWaitsOwesNoBody(t *testing.T) {
	for name, listensFirst := range map[string]bool{"listened for before": true, "listened for after": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, client := piped(t)
				c.owesBody(true)
				inBackground(t, client, func() { client.Write([]byte("body")) })
				p := make([]byte, 100)
				if n, err := c.Read(p); n != 4 || err != nil {
					t.Fatal(n, err)
				}
				next := make(chan error, 1)
				listen := func() {
					inBackground(t, client, func() {
						_, err := c.Read(make([]byte, 1))
						next <- err
					})
				}
				if listensFirst {
					listen()
					synctest.Wait()
				}
				c.owesBody(false)
				if !listensFirst {
					listen()
				}
				time.Sleep(10 * bodyTimeout)
				select {
				case err := <-next:
					t.Fatalf("cut while it waited: %v", err)
				default:
				}
				client.Close()
				if err := <-next; err != io.EOF {
					t.Errorf("it left: %v", err)
				}
			})
		})
	}
}

// deadlined is a connection that remembers its read deadline. meanwhile, if
// set, runs while the first one is being set.
type deadlined struct {
	net.Conn
	mu        sync.Mutex
	read      time.Time
	meanwhile func()
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	if f := d.meanwhile; f != nil {
		d.meanwhile = nil
		f()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read = t
	return nil
}

func (d *deadlined) Read(p []byte) (int, error) { return len(p), nil }

// The server begins to listen for a client's end at the moment its body has
// come whole: whichever is first, no limit for the body may stay behind, or a
// call that takes longer than bodyTimeout would be cut.
func TestNoBodyLimitStaysBehind(t *testing.T) {
	d := new(deadlined)
	c := NewConn(d).(*conn)
	paid := make(chan struct{})
	d.meanwhile = func() {
		go func() {
			defer close(paid)
			c.owesBody(false)
		}()
		select { // it may have to wait for the one that is setting the limit
		case <-paid:
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.owesBody(true)
	c.Read(make([]byte, 1))
	<-paid
	if !d.read.IsZero() {
		t.Error("the body's limit outlived the body")
	}
}
