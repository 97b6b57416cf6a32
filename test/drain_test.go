package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

func TestB084SIGTERMWithLiveStreams(t *testing.T) {
	t.Parallel()
	const streams = 20
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(func(*up.Call) up.Step {
		return up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Gate(gate), up.Events(up.Chunk("b"), up.Finish(), up.Done))
	})
	g := harness.Start(t, u.URL(), harness.Config{"server.shutdown_delay": "1s", "server.shutdown_grace": "15s"})
	var all []*harness.Stream
	for i := range streams {
		s := g.Open(harness.Chat, said(fmt.Sprint(i), stream))
		s.Next()
		all = append(all, s)
	}
	if a := g.Get("/readyz"); a.Status != 200 {
		t.Fatalf("readyz: %d", a.Status)
	}
	g.Term()
	asked := time.Now()
	harness.Eventually(t, 800*time.Millisecond, "readiness goes down at once", func() bool {
		a := g.Try("GET", "/readyz", "")
		return a.Err == nil && a.Status == 503
	})
	if a := g.Try("GET", "/livez", ""); a.Err != nil || a.Status != 200 {
		t.Errorf("livez: %d %v", a.Status, a.Err)
	}
	// Until the load balancer has noticed, requests are served.
	s, err := g.TryOpen(harness.Chat, said("during the delay", stream))
	if time.Since(asked) < 900*time.Millisecond {
		if err != nil || s.Status != 200 {
			t.Fatalf("during the delay: %v", err)
		}
		all = append(all, s)
	}
	late := 0
	harness.Eventually(t, 5*time.Second, "new requests are refused", func() bool {
		late++
		s, err := g.TryOpen(harness.Chat, said(fmt.Sprint("late ", late), stream))
		if err != nil {
			return true
		}
		defer s.Close()
		return s.Status == 503
	})
	if d := time.Since(asked); d < 900*time.Millisecond {
		t.Errorf("requests were refused after %v, the delay is 1 s", d)
	}
	select {
	case <-g.Ended():
		t.Fatal("it ended with streams in flight")
	default:
	}
	close(gate)
	for i, s := range all {
		s.Rest()
		got := harness.Data(s.Raw())
		if words(got) != "ab" || got[len(got)-1] != up.Done || !s.Clean() {
			t.Errorf("stream %d ended by %v: %q", i, s.End(), got)
		}
	}
	idle := time.Now()
	if code := g.Exit(5 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if d := time.Since(idle); d > 3*time.Second {
		t.Errorf("it ended %v after the last stream", d)
	}
}

func TestB084StreamsBeyondTheGrace(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Hang(time.Minute)), up.Hang(time.Minute))
	g := harness.Start(t, u.URL(), harness.Config{"server.shutdown_grace": "1s"})
	s := g.Open(harness.Chat, cc(stream))
	s.Next()
	whole := g.Go(harness.Chat, said("not streamed"))
	u.Call(2)
	g.Term()
	asked := time.Now()
	s.Rest()
	got := harness.Data(s.Raw())
	if last := got[len(got)-1]; !gjson.Get(last, "error.message").Exists() || strings.Contains(s.Raw(), up.Done) {
		t.Errorf("it was cut without an error event: %q", s.Raw())
	}
	if a := whole.Result(); a.Err != nil || a.Status < 500 {
		t.Errorf("the one that was not streamed got %d %v", a.Status, a.Err)
	}
	g.Exit(5 * time.Second)
	if d := time.Since(asked); d < 900*time.Millisecond || d > 4*time.Second {
		t.Errorf("it ended after %v, the grace is 1 s", d)
	}
}

// The drain counts records, not connections: a call that its client left is
// billed anyway, so its answer is brought home.
func TestB084AbandonedCallsFinish(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL())
	p := g.Go(harness.Chat, cc())
	u.Call(1)
	p.Leave()
	g.Term()
	harness.Eventually(t, 5*time.Second, "the drain", func() bool {
		a := g.Try("GET", "/readyz", "")
		return a.Err != nil || a.Status == 503
	})
	if u.Call(1).Left(300 * time.Millisecond) {
		t.Fatal("the call was dropped")
	}
	close(gate)
	if code := g.Exit(5 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	g.Restart()
	wantText(t, g.Chat(cc()), number(1), "replayed", "owed")
	wantCalls(t, u, 1)
}

// One process a directory: the second says who holds it.
func TestOneProcessADirectory(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	first := harness.Start(t, u.URL())
	code, out := harness.Refuse(t, u.URL(), harness.Config{"store.url": first.StoreURL(), "server.shutdown_grace": "500ms"})
	if code != 1 || !strings.Contains(out, fmt.Sprint(first.Pid())) {
		t.Errorf("exit status %d, %s; want 1 and the holder %d named", code, out, first.Pid())
	}
	if a := first.Chat(cc()); a.Status != 200 {
		t.Errorf("the first one: %d %s", a.Status, a.Body)
	}
}
