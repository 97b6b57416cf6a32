package test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// lease is the store.lease of the harness's Knobs.
const lease = 2 * time.Second

// nodes starts two gateways on one Redis.
func nodes(t *testing.T, u *up.Server, changes ...any) (r *redistest.Server, a, b *harness.Gateway) {
	t.Helper()
	r = redistest.Start(t)
	a, b = pair(t, u, r.URL(), changes...)
	return r, a, b
}

// pair starts two gateways on one store.
func pair(t *testing.T, u *up.Server, url string, changes ...any) (a, b *harness.Gateway) {
	t.Helper()
	changes = append([]any{harness.Config{"store.url": url}}, changes...)
	return harness.Start(t, u.URL(), changes...), harness.Start(t, u.URL(), changes...)
}

// followers is how many requests of these gateways follow calls of others.
func followers(all ...*harness.Gateway) (n int) {
	for _, g := range all {
		n += int(g.Metrics().Sum("oncegate_followers"))
	}
	return n
}

// idle waits until a gateway has settled all that it had in flight.
func idle(t *testing.T, g *harness.Gateway) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "nothing is in flight", func() bool { return g.Metrics().Sum("oncegate_inflight") == 0 })
}

// rounds is how many rounds a race is run: ROUNDS says it for a longer run.
func rounds(t *testing.T, usual int) int {
	t.Helper()
	said := os.Getenv("ROUNDS")
	if said == "" {
		return usual
	}
	n, err := strconv.Atoi(said)
	if err != nil || n < 1 {
		t.Fatalf("ROUNDS=%q is not a number of rounds", said)
	}
	return n
}

// Ten at once over two nodes are one call.
func TestNodesTenAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		_, a, b := nodes(t, u)
		tenAtOnce(t, u, a, b, rounds(t, 200), 20*time.Millisecond)
	})
	t.Run("streamed", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		_, a, b := nodes(t, u)
		tenStreamedAtOnce(t, u, a, b, rounds(t, 200))
	})
}

// many is how many requests are made at once.
const many = 10

// tenAtOnce has the call go on for a while after all follow: who asks while it
// may have ended already, as far as the nodes can tell, is asked anew.
func tenAtOnce(t *testing.T, u *up.Server, a, b *harness.Gateway, rounds int, while time.Duration) {
	t.Helper()
	both := []*harness.Gateway{a, b}
	for n := range rounds {
		harness.Eventually(t, 10*time.Second, "the last round's are gone", func() bool { return followers(a, b) == 0 })
		before, gate, text := u.N(), make(chan struct{}), fmt.Sprint("round ", n)
		u.Script(up.Seq(up.Gate(gate), up.Pause(while), up.OK(text)))
		var all []*harness.Pending
		for i := range many {
			all = append(all, both[(i+n)%2].Go(harness.Chat, said(text)))
		}
		harness.Eventually(t, 10*time.Second, "all but one follow", func() bool { return followers(a, b) == many-1 })
		close(gate)
		how := map[string]int{}
		for _, p := range all {
			ans := p.Answer()
			how[ans.Outcome()]++
			if ans.Status != 200 || ans.Text() != text {
				t.Fatalf("round %d: %d %q", n, ans.Status, ans.Body)
			}
		}
		if u.N() != before+1 || how["executed"] != 1 || how["coalesced"] != many-1 {
			t.Fatalf("round %d: %d calls, %v", n, u.N()-before, how)
		}
	}
}

func tenStreamedAtOnce(t *testing.T, u *up.Server, a, b *harness.Gateway, rounds int) {
	t.Helper()
	both := []*harness.Gateway{a, b}
	for n := range rounds {
		before, gate, text := u.N(), make(chan struct{}), fmt.Sprint("round ", n)
		u.Script(up.Seq(up.Open(), up.Events(up.Chunk(text)), up.Gate(gate), up.Events(up.Chunk("!"), up.Finish(), up.Done)))
		all := make([]*harness.Stream, many)
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				s, err := both[(i+n)%2].TryOpen(harness.Chat, said(text, stream))
				if err != nil {
					t.Errorf("round %d: %v", n, err)
					return
				}
				all[i] = s
			})
		}
		wg.Wait()
		if slices.Contains(all, nil) {
			return
		}
		for _, s := range all { // the upstream is far from its end
			if first := s.Next(); content(first) != text {
				t.Fatalf("round %d begins with %q", n, first)
			}
		}
		close(gate)
		led := 0
		for _, s := range all {
			s.Rest()
			if got := harness.Data(s.Raw()); words(got) != text+"!" || got[len(got)-1] != up.Done || !s.Clean() {
				t.Fatalf("round %d: %q, %v", n, s.Raw(), s.End())
			}
			if s.Header.Get("Oncegate-Outcome") == "executed" {
				led++
			}
			s.Close()
		}
		if u.N() != before+1 || led != 1 {
			t.Fatalf("round %d: %d calls, %d say that they were executed", n, u.N()-before, led)
		}
	}
}

// A follower on another node is told of each chunk: it does not find them by
// polling, which is every 250 ms.
func TestNodesStreamIsLive(t *testing.T) {
	t.Parallel()
	const chunks = 30
	more := make(chan struct{})
	steps := []up.Step{up.Open(), up.Events(up.Chunk("go"))}
	for i := range chunks {
		steps = append(steps, up.Gate(more), up.Events(up.Chunk(number(i))))
	}
	u := up.New(t, up.Seq(append(steps, up.Events(up.Finish(), up.Done))...))
	// So long a lease is renewed every 5 s: that tells the leader nothing in time.
	_, a, b := nodes(t, u, harness.Config{"policy.timeouts.idle": "20s", "store.lease": "15s"})
	leader := a.Open(harness.Chat, cc(stream))
	begun := time.Now()
	follower := b.Open(harness.Chat, cc(stream))
	if got := content(follower.Next()); got != "go" {
		t.Fatalf("it begins with %q", got)
	}
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("what was there already came after %v", d)
	}
	var late []time.Duration
	for i := range chunks {
		begun := time.Now()
		more <- struct{}{}
		if got := content(follower.Next()); got != number(i) {
			t.Fatalf("chunk %d is %q", i, got)
		}
		late = append(late, time.Since(begun))
	}
	follower.Rest()
	leader.Rest()
	if leader.Raw() != follower.Raw() || !follower.Clean() {
		t.Errorf("the leader got %q, the follower %q, %v", leader.Raw(), follower.Raw(), follower.End())
	}
	wantCalls(t, u, 1)
	slices.Sort(late)
	t.Logf("behind the upstream: median %v, most %v", late[chunks/2], late[chunks-1])
	if late[chunks/2] > 110*time.Millisecond {
		t.Errorf("behind the upstream by %v in the median, 25 ms are due", late[chunks/2])
	}
}

// What a client was left without is there for it on any node.
func TestNodesDebts(t *testing.T) {
	t.Parallel()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		_, a, b := nodes(t, u)
		p := a.Go(harness.Chat, cc())
		u.Call(1)
		p.Leave()
		close(gate)
		settled(t, a, 1)
		idle(t, a)
		wantText(t, b.Chat(cc()), number(1), "replayed", "owed")
		wantText(t, a.Chat(cc()), number(2), "executed", "") // it was taken
		wantCalls(t, u, 2)
	})
	t.Run("a marked retry", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		u.Choose(echo)
		_, a, b := nodes(t, u)
		wantText(t, a.Chat(cc()), number(1), "executed", "")
		idle(t, a)
		wantText(t, b.Chat(cc(), marks[0]), number(1), "replayed", "retry_marked")
		wantCalls(t, u, 1)
	})
	t.Run("left by a follower", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		_, a, b := nodes(t, u)
		first := a.Go(harness.Chat, cc())
		u.Call(1)
		p := b.Go(harness.Chat, cc())
		following(t, b, 1)
		p.Leave()
		idle(t, b)
		close(gate)
		wantText(t, first.Answer(), number(1), "executed", "")
		idle(t, a)
		wantText(t, a.Chat(cc()), number(1), "replayed", "owed")
		wantText(t, b.Chat(cc()), number(2), "executed", "")
		wantCalls(t, u, 2)
	})
	t.Run("one on each node", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		_, a, b := nodes(t, u)
		twoDebts(t, u, a, b)
	})
	// Whoever repeats a call in flight takes what it was owed.
	t.Run("taken in flight", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		_, a, b := nodes(t, u)
		p := a.Go(harness.Chat, cc())
		u.Call(1)
		p.Leave()
		again := b.Go(harness.Chat, cc())
		following(t, b, 1)
		close(gate)
		if ans := again.Answer(); ans.Text() != number(1) || ans.Outcome() != "coalesced" {
			t.Errorf("%d %s %s", ans.Status, ans.Outcome(), ans.Body)
		}
		idle(t, a)
		wantText(t, b.Chat(cc()), number(2), "executed", "")
		wantCalls(t, u, 2)
	})
	t.Run("taken in flight, though twins share nothing", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		_, a, b := nodes(t, u)
		p := a.Go(harness.Chat, cc(), mode("retries"))
		u.Call(1)
		p.Leave()
		again := []*harness.Pending{b.Go(harness.Chat, cc(), mode("retries"))}
		following(t, b, 1)
		again = append(again, a.Go(harness.Chat, cc(), mode("retries"))) // there was one debt
		u.Call(2)
		close(gate)
		wantText(t, again[0].Answer(), number(1), "coalesced", "owed")
		if ans := again[1].Answer(); ans.Text() != number(2) || ans.Outcome() != "executed" {
			t.Errorf("%d %s %s", ans.Status, ans.Outcome(), ans.Body)
		}
		wantCalls(t, u, 2)
	})
	t.Run("a stream that was cut", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Gate(gate), up.Events(up.Chunk("b"), up.Finish(), up.Done)))
		_, a, b := nodes(t, u)
		s := a.Open(harness.Chat, cc(stream))
		s.Next()
		s.Leave()
		close(gate)
		settled(t, a, 1)
		idle(t, a)
		ans := b.Chat(cc(stream))
		wantOutcome(t, ans, 200, "replayed", "owed")
		if got := words(harness.Data(ans.Body)); got != "ab" {
			t.Errorf("owed is %q", ans.Body)
		}
		wantCalls(t, u, 1)
	})
	// The mark that an answer was delivered is there before the next request.
	t.Run("delivered", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		u.Choose(echo)
		_, a, b := nodes(t, u)
		for n := range 20 {
			body := said(fmt.Sprint(n))
			wantText(t, a.Chat(body), number(2*n+1), "executed", "")
			wantText(t, b.Chat(body), number(2*n+2), "executed", "")
		}
		wantCalls(t, u, 40)
	})
	t.Run("delivered to its last event", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		u.Choose(func(*up.Call) up.Step { return up.SSE(up.Chunk("ok"), up.Finish(), up.Done) })
		_, a, b := nodes(t, u)
		for n := range 20 {
			for i, g := range []*harness.Gateway{a, b} {
				s := g.Open(harness.Chat, said(fmt.Sprint(n), stream))
				for s.Next() != up.Done {
				}
				s.Close() // with the end of the transfer unread
				if how := s.Header.Get("Oncegate-Outcome"); how != "executed" {
					t.Errorf("round %d, node %d: %s", n, i, how)
				}
			}
		}
		wantCalls(t, u, 40)
	})
}

// twoDebts leaves the leader's client and a follower on the other node without
// their answer: two may take it, whichever node they ask, and no third.
func twoDebts(t *testing.T, u *up.Server, a, b *harness.Gateway) {
	t.Helper()
	body, gate, before := said(t.Name()), make(chan struct{}), u.N()
	u.Choose(echoAfter(gate))
	leader := a.Go(harness.Chat, body)
	u.Call(before + 1)
	follower := b.Go(harness.Chat, body)
	following(t, b, 1)
	follower.Leave()
	leader.Leave()
	idle(t, b)
	close(gate)
	settled(t, a, 1)
	idle(t, a)
	wantText(t, a.Chat(body), number(before+1), "replayed", "owed")
	wantText(t, b.Chat(body), number(before+1), "replayed", "owed")
	wantText(t, a.Chat(body), number(before+2), "executed", "")
	wantCalls(t, u, before+2)
}

func TestNodesExplicitKeys(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	_, a, b := nodes(t, u)
	for _, key := range []string{"k", "{x}", "a{b}c{}"} {
		explicitKey(t, u, a, b, key)
	}
}

func explicitKey(t *testing.T, u *up.Server, a, b *harness.Gateway, name string) {
	t.Helper()
	key, body, gate, before := "Idempotency-Key: "+name, said(t.Name()+name), make(chan struct{}), u.N()
	u.Choose(echoAfter(gate))
	text := number(before + 1)
	first := a.Go(harness.Chat, body, key)
	u.Call(before + 1)
	problem{422, "idempotency_key_reused", "false", "refused", "key_reused", ""}.want(t, b.Chat(said("other"), key))
	second := b.Go(harness.Chat, body, key)
	following(t, b, 1)
	close(gate)
	wantText(t, first.Answer(), text, "executed", "")
	wantText(t, second.Answer(), text, "coalesced", "key")
	wantText(t, b.Chat(body, key), text, "replayed", "key")
	problem{422, "idempotency_key_reused", "false", "refused", "key_reused", ""}.want(t, b.Chat(said("other"), key))
	wantText(t, a.Chat(body, key), text, "replayed", "key")
	wantCalls(t, u, before+1)
}

// A stream that breaks after its first content ends with the same error event
// for those who follow it on another node.
func TestNodesStreamBreaks(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Open(), up.Events(up.Role(), up.Chunk("one")), up.Gate(gate), up.RST))
	_, a, b := nodes(t, u)
	led, followed := a.Open(harness.Chat, cc(stream)), (*harness.Stream)(nil)
	u.Call(1)
	followed = b.Open(harness.Chat, cc(stream))
	for _, s := range []*harness.Stream{led, followed} {
		if words(append([]string{s.Next()}, s.Next())) != "one" {
			t.Fatalf("it begins with %q", s.Raw())
		}
	}
	close(gate)
	for name, s := range map[string]*harness.Stream{"the leader's": led, "the follower's": followed} {
		rest := s.Rest()
		if len(rest) != 1 || !strings.Contains(rest[0], `"upstream_error"`) {
			t.Errorf("%s client got %q", name, s.Raw())
		}
	}
	idle(t, b)
	for _, g := range []*harness.Gateway{a, b} {
		if n := g.Metrics().Sum("oncegate_requests_total", `outcome="failed"`); n != 1 {
			t.Errorf("%v requests failed", n)
		}
	}
}
