package test

import (
	"fmt"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

func TestB081ClientGoneMidStream(t *testing.T) {
	t.Parallel()
	const clients = 40
	endless := func(x *up.Exchange) {
		up.Open()(x)
		for range 3000 {
			up.Events(up.Chunk("x"))(x)
			if !x.Wait(20 * time.Millisecond) {
				break
			}
		}
		x.Close()
	}
	u := up.New(t, endless)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "0s"})
	round := func(name string, leave func(*harness.Stream)) {
		first := u.N()
		var all []*harness.Stream
		for i := range clients {
			all = append(all, g.Open(harness.Chat, said(fmt.Sprint(name, i), stream)))
		}
		for _, s := range all {
			for range 3 {
				s.Next()
			}
			leave(s)
		}
		last := time.Now()
		for n := first + 1; n <= first+clients; n++ {
			if !u.Call(n).Left(5 * time.Second) {
				t.Fatalf("%s: call %d was never let go", name, n)
			}
		}
		if d := time.Since(last); d > 2*time.Second {
			t.Errorf("%s: the last was let go after %v", name, d)
		}
		for _, s := range all {
			s.Close()
		}
	}
	round("first", (*harness.Stream).Leave) // what is made once and kept
	before := g.Metrics()["go_goroutines"]
	round("closed", (*harness.Stream).Close)
	round("half-closed", (*harness.Stream).CloseWrite)
	harness.Eventually(t, 5*time.Second, "the goroutines end", func() bool {
		return g.Metrics()["go_goroutines"] <= before+10
	})
	if n := g.Metrics().Sum("oncegate_inflight"); n != 0 {
		t.Errorf("%v in flight", n)
	}
}

func TestB082ClientGoneBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Hang(30*time.Second))
		g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "0s", "policy.timeouts.first_byte": "20s"})
		p := g.Go(harness.Chat, cc(stream))
		u.Call(1)
		p.Leave()
		if !u.Call(1).Left(time.Second) {
			t.Error("the upstream was not let go within a second")
		}
		again := g.Go(harness.Chat, said("another", stream))
		u.Call(2)
		again.Leave()
		wantCalls(t, u, 2)
	})
	t.Run("stream, with a linger", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t, up.Seq(up.Gate(gate), up.SSE(up.Chunk("ok"), up.Finish(), up.Done)))
		g := harness.Start(t, u.URL(), harness.Config{"policy.timeouts.first_byte": "20s"})
		p := g.Go(harness.Chat, cc(stream))
		u.Call(1)
		p.Leave()
		again := g.Go(harness.Chat, cc(stream), marks[0])
		following(t, g, 1)
		close(gate)
		wantOutcome(t, again.Answer(), 200, "coalesced", "retry_marked")
		wantCalls(t, u, 1)
	})
	t.Run("an answer that is not streamed runs to its end", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "0s"})
		p := g.Go(harness.Chat, cc())
		u.Call(1)
		p.Leave()
		if u.Call(1).Left(500 * time.Millisecond) {
			t.Error("the upstream was let go, though it bills the call anyway")
		}
		close(gate)
		settled(t, g, 1)
		wantText(t, g.Chat(cc()), number(1), "replayed", "owed")
		wantCalls(t, u, 1)
	})
	t.Run("and is not tried again for nobody", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t, up.Seq(up.Gate(gate), up.Fail(503, "busy")), up.OK("nobody asked"))
		g := harness.Start(t, u.URL())
		p := g.Go(harness.Chat, cc())
		u.Call(1)
		p.Leave()
		close(gate)
		settled(t, g, 1)
		if n := g.Metrics().Sum("oncegate_retries_total"); n != 0 {
			t.Errorf("%v retries", n)
		}
		// Whoever comes now gets a try of its own.
		wantText(t, g.Chat(said("other")), "nobody asked", "executed", "")
		wantCalls(t, u, 2)
	})
	t.Run("nor after a wait", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Fail(429, "rate_limit_exceeded", "Retry-After: 2"), up.OK("nobody asked"))
		g := harness.Start(t, u.URL())
		p := g.Go(harness.Chat, cc())
		u.Call(1)
		settled(t, g, 1) // and now it waits for the second attempt
		p.Leave()
		harness.Eventually(t, time.Second, "the record ends at once", func() bool { return g.Metrics().Sum("oncegate_inflight") == 0 })
		wantText(t, g.Chat(said("after the hold")), "nobody asked", "executed", "")
		wantCalls(t, u, 2)
	})
}

// A client that reads slowly holds back nobody else.
func TestSlowReaderHoldsBackNobody(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	var items []string
	for i := range 60 {
		items = append(items, up.Chunk(fmt.Sprintf("%06d%064000d", i, i)))
	}
	u := up.New(t, up.Seq(up.Open(), up.Events(items[0]), up.Gate(gate), up.Events(items[1:]...), up.Events(up.Finish(), up.Done)))
	g := harness.Start(t, u.URL())
	slow := g.Dial() // reads nothing
	slow.Send(g.Request("POST", harness.Chat, cc(stream)))
	u.Call(1)
	quick := g.Go(harness.Chat, cc(stream))
	following(t, g, 1)
	close(gate)
	a := quick.Answer()
	if n := len(harness.Data(a.Body)); n != 62 || a.Took > 10*time.Second {
		t.Errorf("%d events after %v", n, a.Took)
	}
	if a := slow.Response(10 * time.Second); a.Err != nil || len(harness.Data(a.Body)) != 62 {
		t.Errorf("the slow one got %d bytes, %v", len(a.Body), a.Err)
	}
	wantCalls(t, u, 1)
}
