package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"oncegate/gateway"
)

// sse is a page that reads the admin listener's events.
type sse struct {
	t      *testing.T
	in     *bufio.Reader
	status int
	leave  func()
	passed []*sseEvent // see until
}

type sseEvent struct {
	id, name string
	data     map[string]any
	at       time.Time
}

func (b *books) watch(t *testing.T, last string) *sse {
	t.Helper()
	srv := httptest.NewServer(b.g.Admin())
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	r, _ := http.NewRequestWithContext(ctx, "GET", srv.URL+"/api/events", nil)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, kind)
	}
	return &sse{t: t, in: bufio.NewReader(res.Body), status: res.StatusCode, leave: cancel}
}

// next is the next event; nil: the stream ended.
func (s *sse) next() *sseEvent {
	s.t.Helper()
	var e sseEvent
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return nil
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				s.t.Fatalf("%q: %v", value, err)
			}
		case "":
			if line == "\n" && e.name != "" {
				e.at = time.Now()
				return &e
			}
		}
	}
}

// until is the next event of a name. Those of other names that come before it
// are there for who asks for them: nothing says which is first.
func (s *sse) until(name string) *sseEvent {
	s.t.Helper()
	for i, e := range s.passed {
		if e.name == name {
			s.passed = slices.Delete(s.passed, i, i+1)
			return e
		}
	}
	for {
		e := s.next()
		if e == nil {
			s.t.Fatalf("the stream ended without %s", name)
		}
		if e.name == name {
			return e
		}
		s.passed = append(s.passed, e)
	}
}

// logged waits for a request to be in the log.
func (b *books) logged(id string) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if status, _ := b.ask("GET", "/api/requests/"+id, ""); status == 200 {
			return
		}
	}
	b.t.Errorf("%s never was in the log", id)
}

func chatty(w http.ResponseWriter, r *http.Request) { chat(w, "1") }

// A page gets the summary, then each request that is over, and the summary that
// has it; what came while it was away it gets when it is back.
func TestEventsOfRequests(t *testing.T) {
	b := newBooksOver(t, chatty, nil)
	page := b.watch(t, "")
	if s := page.next(); s == nil || s.name != "summary" || at(s.data, "total.requests") != 0. || s.id != "" {
		t.Fatalf("first comes %+v", s)
	}
	got := b.post("/v1/chat/completions", hi)
	r := page.until("request")
	if r.id == "" || r.data["id"] != got.header.Get("X-Request-Id") || r.data["skipped"] != 0. || r.data["outcome"] != "executed" {
		t.Errorf("%+v", r)
	}
	if s := page.until("summary"); at(s.data, "total.requests") != 1. {
		t.Errorf("%+v", s)
	}
	page.leave()
	var ids []string
	for range 3 {
		ids = append(ids, b.post("/v1/chat/completions", hi, "Oncegate-Dedupe", "off").header.Get("X-Request-Id"))
		b.logged(ids[len(ids)-1]) // in that order: a record may be settled after its client has all
	}
	page = b.watch(t, r.id)
	for _, id := range ids {
		if e := page.until("request"); e.data["id"] != id {
			t.Errorf("%v, want %s", e.data, id)
		}
	}
}

// However many requests there are, a page gets four events a second, the newest
// wins, and it is told of how many it is not.
func TestEventsAreFourASecond(t *testing.T) {
	b := newBooksOver(t, chatty, nil)
	page := b.watch(t, "")
	page.next()
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				stopped <- n
				return
			default:
				b.post("/v1/chat/completions", hi, "Oncegate-Dedupe", "off")
				n++
			}
		}
	}()
	begin := page.next().at
	const events = 8
	told, skipped := 0, 0.
	for range events {
		if e := page.next(); e.name == "request" {
			told++
			skipped += e.data["skipped"].(float64)
		}
	}
	if took := time.Since(begin); took < (events-2)*250*time.Millisecond {
		t.Errorf("%d events in %v", events, took)
	}
	close(stop)
	if n := <-stopped; skipped == 0 || told == 0 || told+int(skipped) > n {
		t.Errorf("%d told, %v skipped, of %d", told, skipped, n)
	}
}

// The stream ends when the gateway stops; others begin none.
func TestEventsEndAtShutdown(t *testing.T) {
	b := newBooksOver(t, chatty, func(o *gateway.Options) { o.Heartbeat = 300 * time.Millisecond })
	page := b.watch(t, "")
	page.next()
	for { // it is alive
		line, err := page.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, ":") {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := b.g.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for e := page.next(); e != nil; e = page.next() {
		if e.name != "summary" {
			t.Errorf("%+v", e)
		}
	}
	if status, out := b.ask("GET", "/api/events", ""); status != 503 {
		t.Errorf("%d %v", status, out)
	}
}

// A page that reads nothing holds up neither requests nor other pages.
func TestEventsOfASlowReader(t *testing.T) {
	b := newBooksOver(t, chatty, nil)
	srv := httptest.NewServer(b.g.Admin())
	defer srv.Close()
	for range 5 { // they ask, and never read
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(1)
		if _, err := c.Write([]byte("GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	page := b.watch(t, "")
	page.next()
	for range 3 {
		got := b.post("/v1/chat/completions", hi, "Oncegate-Dedupe", "off")
		if e := page.until("request"); e.data["id"] != got.header.Get("X-Request-Id") {
			t.Errorf("%v", e.data)
		}
	}
}
