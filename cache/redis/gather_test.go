package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// pieces is a connection of which each read brings so many bytes at most, and
// then tells when that was.
type pieces struct {
	net.Conn
	sizes []int
	at    []time.Time
}

func (c *pieces) Read(p []byte) (int, error) {
	if len(c.sizes) == 0 {
		return 0, io.EOF
	}
	c.at = append(c.at, time.Now())
	n := min(c.sizes[0], len(p))
	if c.sizes[0] -= n; c.sizes[0] == 0 {
		c.sizes = c.sizes[1:]
	}
	return n, nil
}

func (c *pieces) Write(p []byte) (int, error) { return len(p), nil }

// What comes soon after the last waits for more; what is there already does not.
func TestGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		from := &pieces{sizes: []int{3, 100, 5}}
		g := &gathering{Conn: from}
		var got []int
		for p := make([]byte, 10); ; {
			n, err := g.Read(p)
			if err == io.EOF {
				break
			}
			got = append(got, n)
		}
		var want []time.Duration
		for n := range got {
			switch {
			case n == 0:
				want = append(want, 0)
			case got[n-1] == 10: // it was full
				want = append(want, want[n-1])
			default:
				want = append(want, want[n-1]+gatherFor)
			}
			if d := from.at[n].Sub(begun); d != want[n] {
				t.Errorf("read %d, of %d bytes, is after %v, not %v", n, got[n], d, want[n])
			}
		}
		if len(got) != 12 {
			t.Errorf("reads of %v bytes", got)
		}
		for name, before := range map[string]func(){
			"after a silence": func() { time.Sleep(time.Second) },
			"as an answer":    func() { g.Write([]byte("ping")) },
		} {
			from.sizes = []int{1}
			before()
			due := time.Now()
			if g.Read(make([]byte, 10)); from.at[len(from.at)-1] != due {
				t.Errorf("what comes %s waits", name)
			}
		}
	})
}

// However much comes, it is read as fast as without: TLS brings it in small
// records.
func TestGatheringHoldsNothingUp(t *testing.T) {
	const lines, size = 32 << 10, 256
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	for name, d := range map[string]*dialer{"plain": {}, "tls": {tls: https.Client().Transport.(*http.Transport).TLSClientConfig}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if d.tls != nil {
				l = tls.NewListener(l, https.TLS)
			}
			defer l.Close()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				line := make([]byte, size)
				for range lines {
					if _, err := c.Write(line); err != nil {
						return
					}
				}
			}()
			begun := time.Now()
			c, err := d.dial(context.WithValue(t.Context(), noticesKey{}, true), "tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			n, err := io.Copy(io.Discard, bufio.NewReaderSize(c, 32<<10))
			if err != nil || n != lines*size {
				t.Fatalf("%d bytes, %v", n, err)
			}
			took := time.Since(begun)
			t.Logf("it took %v", took)
			if most := lines * gatherFor / 10; took > most {
				t.Errorf("it took %v: not even ten lines a time", took)
			}
		})
	}
}
