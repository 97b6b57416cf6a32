package test

import (
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// unread is how long after the last reader on another node left its leader
// learns of it at most: it asks once a second, and hears nothing for 3 s.
const unread = 5 * time.Second

// A stream that was followed on another node and that all have left is let go
// like any other, whether it speaks or not. It is kept for whoever comes back
// within dedupe.linger, on either node.
func TestNodesAbandonedStream(t *testing.T) {
	t.Parallel()
	const linger = 500 * time.Millisecond
	speaks := []up.Step{up.Open(), up.Events(up.Chunk("a"))}
	for range 600 {
		speaks = append(speaks, up.Pause(50*time.Millisecond), up.Events(up.Chunk("b")))
	}
	for name, script := range map[string]up.Step{
		"silent": up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Hang(time.Minute)),
		"speaks": up.Seq(speaks...),
	} {
		for order, leaderLast := range map[string]bool{"leader's client last": true, "follower last": false} {
			t.Run(name+", "+order, func(t *testing.T) {
				t.Parallel()
				u := up.New(t, script)
				// So long a lease is renewed every 5 s: that tells the leader nothing in time.
				_, a, b := nodes(t, u, harness.Config{"dedupe.linger": linger.String(), "store.lease": "15s", "policy.timeouts.idle": "40s"})
				first, last := a.Open(harness.Chat, cc(stream)), b.Open(harness.Chat, cc(stream))
				first.Next()
				if got := content(last.Next()); got != "a" {
					t.Fatalf("it begins with %q", got)
				}
				if leaderLast {
					first, last = last, first
				}
				first.Leave()
				if u.Call(1).Left(unread + linger + time.Second) {
					t.Fatal("the upstream was let go though one still reads")
				}
				last.Leave()
				left := time.Now()
				if !u.Call(1).Left(unread + linger + 3*time.Second) {
					t.Fatal("the upstream was not let go")
				}
				t.Logf("let go after %v", time.Since(left))
				if d := time.Since(left); d < linger {
					t.Errorf("it was let go after %v, before the linger's end", d)
				}
				wantCalls(t, u, 1)
			})
		}
	}
}

// Who reads on another node keeps a stream going to its end, and so does who
// comes back there after all had left.
func TestNodesStreamIsReadElsewhere(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Gate(gate), up.Events(up.Chunk("b"), up.Finish(), up.Done)))
	_, a, b := nodes(t, u, harness.Config{"dedupe.linger": "6s", "store.lease": "15s", "policy.timeouts.idle": "40s"})
	leader, follower := a.Open(harness.Chat, cc(stream)), b.Open(harness.Chat, cc(stream))
	leader.Next()
	follower.Next()
	leader.Leave()
	follower.Leave()
	if u.Call(1).Left(unread + 500*time.Millisecond) { // it is not published any more
		t.Fatal("the upstream was let go before the linger's end")
	}
	again := b.Open(harness.Chat, cc(stream))
	if got := content(again.Next()); got != "a" {
		t.Errorf("it begins with %q", got)
	}
	if u.Call(1).Left(unread + 6500*time.Millisecond) {
		t.Fatal("the upstream was let go though one reads")
	}
	close(gate)
	if got := words(again.Rest()); got != "b" || !again.Clean() {
		t.Errorf("and goes on with %q, %v", got, again.End())
	}
	wantCalls(t, u, 1)
}
