package test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// rest reads what is left of a connection, at most for 10 s.
func rest(t *testing.T, conn *harness.Raw) string {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	got, err := io.ReadAll(conn.In)
	if err != nil {
		t.Errorf("after %q: %v", got, err)
	}
	return string(got)
}

// A client that closes its side only still reads: it must not take the end of
// its connection for an answer.
func TestHalfClosedClientsGetNoEmptyAnswer(t *testing.T) {
	t.Parallel()
	t.Run("JSON", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		g := harness.Start(t, u.URL())
		conn := g.Dial()
		conn.Send(g.Request("POST", harness.Chat, cc()))
		u.Call(1)
		_ = conn.CloseWrite()
		if got := rest(t, conn); got != "" {
			t.Errorf("got %q", got)
		}
		close(gate)
		settled(t, g, 1)
		wantText(t, g.Chat(cc()), number(1), "replayed", "owed") // it was none, so it is owed
		wantCalls(t, u, 1)
	})
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Hang(30*time.Second))
		g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.first_byte": "20s"})
		conn := g.Dial()
		conn.Send(g.Request("POST", harness.Chat, cc(stream)))
		u.Call(1)
		_ = conn.CloseWrite()
		if got := rest(t, conn); got != "" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("stream that was begun", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("first")), up.Hang(30*time.Second)))
		g := harness.Start(t, u.URL())
		conn := g.Dial()
		conn.Send(g.Request("POST", harness.Chat, cc(stream)))
		var got strings.Builder
		for !strings.Contains(got.String(), "first") {
			line, err := conn.In.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			got.WriteString(line)
		}
		_ = conn.CloseWrite()
		// No end of the transfer, and nothing that reads as one.
		if tail := rest(t, conn); strings.Contains(tail, "0\r\n\r\n") || strings.Contains(tail, "data:") {
			t.Errorf("it ended with %q", tail)
		}
	})
}

// sockets counts the sockets that the gateway holds.
func sockets(t *testing.T, g *harness.Gateway) int {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", g.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// ends has a client ask and do something with its answer that ends its
// connection, and waits until the gateway has drawn its conclusions.
func ends(t *testing.T, g *harness.Gateway, request string, client func(*harness.Raw)) {
	t.Helper()
	g.Metrics() // a connection that stays
	before := sockets(t, g)
	conn := g.Dial()
	conn.Send(request)
	client(conn)
	_ = conn.Close()
	harness.Eventually(t, 5*time.Second, "the gateway lets the client go", func() bool { return sockets(t, g) <= before })
	// What it wrote down of that is in its store before this is.
	g.Chat(said("another"), "Idempotency-Key: "+conn.LocalAddr().String())
}

// until reads bytes one by one, and not one more, up to the end of text.
func until(t *testing.T, conn *harness.Raw, text string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	var got []byte
	for p := make([]byte, 1); !strings.HasSuffix(string(got), text); got = append(got, p[0]) {
		if _, err := io.ReadFull(conn.TCPConn, p); err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
	}
}

// Clients that read up to [DONE] and close have all of the answer, although the
// end of the transfer is unread and the kernel resets the connection for it.
func TestAStreamReadToDoneIsDelivered(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		if c.Field("stream").Bool() {
			return up.SSE(up.Role(), up.Chunk(number(c.N)), up.Finish(), up.Done)
		}
		return echo(c)
	})
	g := harness.Start(t, u.URL())
	g.Chat(said("first")) // what is opened once and kept
	for i := range 3 {
		ends(t, g, g.Request("POST", harness.Chat, cc(stream)), func(conn *harness.Raw) { until(t, conn, "data: [DONE]\n\n") })
		n := u.N()
		a := g.Chat(cc(stream))
		wantOutcome(t, a, 200, "executed", "")
		if got := words(harness.Data(a.Body)); got != number(n+1) {
			t.Errorf("try %d got %q, want %q", i+1, got, number(n+1))
		}
		wantCalls(t, u, n+1)
	}
}

// A JSON answer whose connection was reset before it was read is owed.
func TestAnAnswerResetUnreadIsOwed(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL())
	g.Chat(said("first"))
	ends(t, g, g.Request("POST", harness.Chat, cc()), func(conn *harness.Raw) {
		until(t, conn, "H") // it is there
		_ = conn.SetLinger(0)
	})
	wantText(t, g.Chat(cc()), number(2), "replayed", "owed")
	wantText(t, g.Chat(cc()), number(4), "executed", "")
	wantCalls(t, u, 4)
}

// A client that is slow to take an answer which is whole has the grace for it.
func TestSIGTERMWithASlowReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("q", 7_000_000)
	u := up.New(t, up.OK(text))
	g := harness.Start(t, u.URL(), harness.Config{"server.shutdown_grace": "20s"})
	conn := g.Dial()
	_ = conn.SetReadBuffer(64 << 10) // so that most of the answer is with the gateway
	conn.Send(g.Request("POST", harness.Chat, cc()))
	until(t, conn, "HTTP/1.1 200 OK\r\n")
	g.Term()
	harness.Eventually(t, 5*time.Second, "the drain", func() bool {
		a := g.Try("GET", "/readyz", "")
		return a.Err != nil || a.Status == 503
	})
	begun, took, pace := time.Now(), 0, time.NewTicker(40*time.Millisecond)
	defer pace.Stop()
	_ = conn.SetReadDeadline(begun.Add(30 * time.Second))
	var err error
	for p := make([]byte, 100_000); err == nil; {
		<-pace.C
		var n int
		n, err = io.ReadFull(conn.TCPConn, p)
		took += n
	}
	if took < len(text) {
		t.Errorf("it got %d bytes of %d in %v: %v", took, len(text), time.Since(begun), err)
	}
	if d := time.Since(begun); d < 2*time.Second {
		t.Errorf("it took only %v: nothing was slow", d)
	}
	if code := g.Exit(10 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if d := time.Since(begun); d > 15*time.Second {
		t.Errorf("it ended after %v, long after its last reader", d)
	}
}

// Bodies that were announced and never sent hold no room.
func TestAnnouncedBodiesHoldNoRoom(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Config{"server.max_body": "32MiB", "server.max_buffered": "32MiB"})
	for range 3 {
		conn := g.Dial()
		conn.Send(g.Request("POST", harness.Chat, "{", fmt.Sprintf("Content-Length: %d", 32<<20), "Expect: 100-continue"))
		if a := conn.Response(5 * time.Second); a.Status != 100 { // it waits for the body
			t.Fatalf("%d %s %v", a.Status, a.Body, a.Err)
		}
	}
	for _, size := range []int{10, 60 << 10, 4 << 20} {
		if a := g.Chat(said(strings.Repeat("x", size))); a.Status != 200 {
			t.Errorf("a body of %d bytes: %d %s", size, a.Status, a.Body)
		}
	}
	wantCalls(t, u, 3)
}
