//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func testUpstream(t *testing.T) *upstream {
	t.Helper()
	up, err := startUpstream()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { up.Close() })
	return up
}

func TestCallsOnOneConnection(t *testing.T) {
	up := testUpstream(t)
	k := &conn{addr: up.Addr().String()}
	defer k.close()
	for i := range 6 {
		if err := k.do(&request{nonce: newNonce(), stream: i%2 == 1}); err != nil {
			t.Fatal(err)
		}
	}
	if n := up.calls.Load(); n != 6 {
		t.Errorf("%d calls", n)
	}
}

func TestTheFloorRelays(t *testing.T) {
	up := testUpstream(t)
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	go runFloor(addr, "http://"+up.Addr().String())
	k := &conn{addr: addr}
	defer k.close()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if err = k.do(&request{nonce: newNonce()}); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if err := k.do(&request{nonce: newNonce(), stream: true}); err != nil {
		t.Error(err)
	}
}

// TestWrongAnswersFail: a figure is worth something only if no wrong answer
// counts.
func TestWrongAnswersFail(t *testing.T) {
	q := request{nonce: newNonce()}
	s := request{nonce: q.nonce, stream: true}
	plain, stream := string(appendPlain(nil, q.nonce)), string(appendStream(nil, q.nonce))
	for _, c := range []struct {
		name   string
		q      request
		status int
		body   string
	}{
		{"another's", q, 200, string(appendPlain(nil, newNonce()))},
		{"cut", q, 200, plain[:len(plain)-1]},
		{"an error", q, 503, `{"error":{}}`},
		{"another's stream", s, 200, string(appendStream(nil, newNonce()))},
		{"no [DONE]", s, 200, strings.TrimSuffix(stream, eventDone)},
		{"a chunk twice", s, 200, strings.Replace(stream, eventWord, eventWord+eventWord, 1)},
		{"usage that nobody asked for", s, 200, strings.Replace(stream, eventDone, eventUsage+eventDone, 1)},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}))
		k := &conn{addr: srv.Listener.Addr().String()}
		if err := k.do(&c.q); err == nil {
			t.Errorf("%s: taken for right", c.name)
		}
		k.close()
		srv.Close()
	}
	for _, right := range []request{q, s} {
		body := plain
		if right.stream {
			body = stream
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, body)
		}))
		k := &conn{addr: srv.Listener.Addr().String()}
		if err := k.do(&right); err != nil {
			t.Error("the right answer:", err)
		}
		k.close()
		srv.Close()
	}
}

// TestABrokenStreamFails: the connection closes before the end of the body.
func TestABrokenStreamFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	q := request{nonce: newNonce(), stream: true}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		body := appendStream(nil, q.nonce)
		fmt.Fprintf(c, "%s%x\r\n%s\r\n", streamHead, len(body), body) // all but the last chunk's mark
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
	}()
	k := &conn{addr: l.Addr().String()}
	if err := k.do(&q); err == nil {
		t.Error("a body without its end was taken for whole")
	}
}

func TestUsageIsForThoseWhoAsk(t *testing.T) {
	up := testUpstream(t)
	body := `{"stream":true,"stream_options":{"include_usage":true},"messages":"` + newNonce() + `"}`
	resp, err := http.Post("http://"+up.Addr().String(), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || strings.Count(string(b), eventUsage) != 1 || !strings.HasSuffix(string(b), eventDone) {
		t.Errorf("%s %v", b, err)
	}
}

func TestGates(t *testing.T) {
	good := table{
		floor:   column{unique: 100, stream: 200},
		gateway: column{unique: 160, stream: 300, replay: 70, follower: 70, held: 45, start: 100},
		redis:   column{unique: 220, median: 500, paced: 10},
		trips:   2, followed: 500, subscribed: 16, direct: 100,
		crowd: 1000, crowdCalls: 1, noise: []float64{100},
	}
	if !good.passed() {
		t.Error("at the gate is not over it")
	}
	for name, spoil := range map[string]func(*table){
		"unique":   func(t *table) { t.gateway.unique = 161 },
		"stream":   func(t *table) { t.gateway.stream = 301 },
		"replay":   func(t *table) { t.gateway.replay = 71 },
		"follower": func(t *table) { t.gateway.follower = 71 },
		"held":     func(t *table) { t.gateway.held = 45.1 },
		"start":    func(t *table) { t.gateway.start = 101 },
		"crowd":    func(t *table) { t.crowdCalls = 2 },

		"unique on Redis": func(t *table) { t.redis.unique = 221 },
		"round trips":     func(t *table) { t.trips = 2.1 },
		"median on Redis": func(t *table) { t.redis.median = 501 },
		"followed":        func(t *table) { t.redis.paced = 10.1 },
		"connections":     func(t *table) { t.subscribed = 17 },
	} {
		bad := good
		spoil(&bad)
		if bad.passed() {
			t.Errorf("%s: missed and not seen", name)
		}
		var out strings.Builder
		if bad.print(&out); strings.Count(out.String(), "MISSED") != 1 {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}

// TestLeftOut: without Redis the table is about the rest, and says so.
func TestLeftOut(t *testing.T) {
	var out strings.Builder
	(&table{floor: column{unique: 100}, gateway: column{unique: 150}, noise: []float64{100}}).print(&out)
	if s := out.String(); strings.Contains(s, "round trips") || !strings.Contains(s, "no redis-server") {
		t.Error(s)
	}
}
