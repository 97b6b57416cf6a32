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

	"oncegate/test/harness"
	"oncegate/test/up"
)

// lease is the store.lease of the harness's Knobs.
const lease = 2 * time.Second

// nodes starts two gateways on one Redis.
func nodes(t *testing.T, u *up.Server, changes ...any) (r *harness.Redis, a, b *harness.Gateway) {
	t.Helper()
	r = harness.StartRedis(t)
	changes = append([]any{harness.Config{"store.url": r.URL()}}, changes...)
	return r, harness.Start(t, u.URL(), changes...), harness.Start(t, u.URL(), changes...)
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
	const many = 10
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		_, a, b := nodes(t, u)
		both := []*harness.Gateway{a, b}
		for n := range rounds(t, 60) {
			harness.Eventually(t, 10*time.Second, "the last round's are gone", func() bool { return followers(a, b) == 0 })
			before, gate, text := u.N(), make(chan struct{}), fmt.Sprint("round ", n)
			u.Script(up.Seq(up.Gate(gate), up.OK(text)))
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
	})
	t.Run("streamed", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		_, a, b := nodes(t, u)
		both := []*harness.Gateway{a, b}
		for n := range rounds(t, 20) {
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
	})
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

// takeover is how long a follower may wait when its leader is gone: the lease,
// the poll that finds its end, and the call itself.
const takeover = lease + 250*time.Millisecond + 1500*time.Millisecond

func TestNodesLeaderIsKilled(t *testing.T) {
	t.Parallel()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Hang(30*time.Second), up.OK("second"))
		_, a, b := nodes(t, u)
		a.Go(harness.Chat, cc())
		u.Call(1)
		var all []*harness.Pending
		for range 3 {
			all = append(all, b.Go(harness.Chat, cc()))
		}
		following(t, b, 3)
		a.Kill9()
		begun := time.Now()
		how := map[string]int{}
		for _, p := range all {
			ans := p.Answer()
			how[ans.Outcome()]++
			if ans.Status != 200 || ans.Text() != "second" {
				t.Errorf("%d %s", ans.Status, ans.Body)
			}
		}
		if d := time.Since(begun); d > takeover {
			t.Errorf("it took %v", d)
		}
		if how["executed"] != 1 || how["coalesced"]+how["replayed"] != 2 {
			t.Errorf("three that followed: %v", how)
		}
		wantCalls(t, u, 2)
		if n := b.Metrics().Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`); n != 1 {
			t.Errorf("%v attempts ambiguous: the killed node had one under way", n)
		}
	})
	t.Run("streamed, before content", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Seq(up.Open(), up.Hang(30*time.Second)), up.SSE(up.Role(), up.Chunk("second"), up.Finish(), up.Done))
		_, a, b := nodes(t, u, harness.Config{"policy.timeouts.first_byte": "20s"})
		a.Go(harness.Chat, cc(stream))
		u.Call(1)
		p := b.Go(harness.Chat, cc(stream))
		following(t, b, 1)
		a.Kill9()
		begun := time.Now()
		ans := p.Answer()
		if got := harness.Data(ans.Body); ans.Status != 200 || words(got) != "second" || got[len(got)-1] != up.Done {
			t.Errorf("%d %q", ans.Status, ans.Body)
		}
		if d := time.Since(begun); d > takeover {
			t.Errorf("it took %v", d)
		}
		wantCalls(t, u, 2)
	})
	t.Run("streamed, with content", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, up.Seq(up.Open(), up.Events(up.Role(), up.Chunk("first")), up.Hang(30*time.Second)), up.SSE(up.Chunk("second"), up.Finish(), up.Done))
		_, a, b := nodes(t, u, harness.Config{"policy.timeouts.idle": "20s"})
		leader := a.Open(harness.Chat, cc(stream))
		s := b.Open(harness.Chat, cc(stream))
		for content(s.Next()) != "first" {
		}
		a.Kill9()
		begun := time.Now()
		rest := s.Rest()
		if len(rest) != 1 || !strings.Contains(rest[0], `"error"`) {
			t.Errorf("after the content came %q, want one error", rest)
		}
		if d := time.Since(begun); d > takeover {
			t.Errorf("it took %v", d)
		}
		wantCalls(t, u, 1)
		leader.Close()
		// What came next is not held up by what was lost.
		if got := harness.Data(b.Chat(cc(stream)).Body); words(got) != "second" {
			t.Errorf("the next got %q", got)
		}
		wantCalls(t, u, 2)
	})
}

// A leader that stood still past its lease is not the leader any more when it
// wakes: it adds nothing, and settles nothing.
func TestNodesLeaderIsPaused(t *testing.T) {
	t.Parallel()
	const key = "Idempotency-Key: k"
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(func(c *up.Call) up.Step {
			if c.N == 1 {
				return up.Seq(up.Gate(gate), echo(c))
			}
			return echo(c)
		})
		_, a, b := nodes(t, u)
		first := a.Go(harness.Chat, cc(), key)
		u.Call(1)
		p := b.Go(harness.Chat, cc(), key)
		following(t, b, 1)
		a.Pause()
		begun := time.Now()
		wantText(t, p.Answer(), number(2), "executed", "")
		if d := time.Since(begun); d > takeover {
			t.Errorf("it took %v", d)
		}
		idle(t, b)
		a.Continue()
		close(gate)
		if ans := first.Answer(); ans.Status != 200 || ans.Text() != number(1) && ans.Text() != number(2) {
			t.Errorf("the woken one's client got %d %s", ans.Status, ans.Body)
		}
		idle(t, a)
		for _, g := range []*harness.Gateway{b, a} {
			wantText(t, g.Chat(cc(), key), number(2), "replayed", "key")
		}
		wantCalls(t, u, 2)
	})
	t.Run("streamed, woken while the second runs", func(t *testing.T) {
		t.Parallel()
		old, gate := make(chan struct{}), make(chan struct{})
		u := up.New(t,
			up.Seq(up.Open(), up.Gate(old), up.Events(up.Chunk("old"), up.Finish(), up.Done)),
			up.Seq(up.Open(), up.Events(up.Chunk("new")), up.Gate(gate), up.Events(up.Chunk("er"), up.Finish(), up.Done)))
		_, a, b := nodes(t, u, harness.Config{"policy.timeouts.first_byte": "20s", "policy.timeouts.idle": "20s"})
		first := a.Go(harness.Chat, cc(stream), key)
		u.Call(1)
		p := b.Go(harness.Chat, cc(stream), key)
		following(t, b, 1)
		a.Pause()
		u.Call(2)
		late := b.Open(harness.Chat, cc(stream), key)
		if got := content(late.Next()); got != "new" {
			t.Errorf("it begins with %q", got)
		}
		a.Continue()
		close(old)
		if ans := first.Answer(); ans.Status != 200 {
			t.Errorf("the woken one's client got %d %s", ans.Status, ans.Body)
		}
		close(gate)
		late.Rest()
		if got := words(harness.Data(late.Raw())); got != "newer" || !late.Clean() {
			t.Errorf("who joined the second got %q", late.Raw())
		}
		if got := words(harness.Data(p.Answer().Body)); got != "newer" {
			t.Errorf("who took over got %q", got)
		}
		idle(t, b)
		for _, g := range []*harness.Gateway{b, a} {
			ans := g.Chat(cc(stream), key)
			wantOutcome(t, ans, 200, "replayed", "key")
			if got := words(harness.Data(ans.Body)); got != "newer" {
				t.Errorf("kept is %q", got)
			}
		}
		wantCalls(t, u, 2)
	})
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
}

func TestNodesExplicitKeys(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"k", "{x}", "a{b}c{}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := "Idempotency-Key: " + name
			gate := make(chan struct{})
			u := up.New(t)
			u.Choose(echoAfter(gate))
			_, a, b := nodes(t, u)
			first := a.Go(harness.Chat, cc(), key)
			u.Call(1)
			problem{422, "idempotency_key_reused", "false", "refused", "key_reused", ""}.want(t, b.Chat(said("other"), key))
			second := b.Go(harness.Chat, cc(), key)
			following(t, b, 1)
			close(gate)
			wantText(t, first.Answer(), number(1), "executed", "")
			wantText(t, second.Answer(), number(1), "coalesced", "key")
			wantText(t, b.Chat(cc(), key), number(1), "replayed", "key")
			problem{422, "idempotency_key_reused", "false", "refused", "key_reused", ""}.want(t, b.Chat(said("other"), key))
			wantText(t, a.Chat(cc(), key), number(1), "replayed", "key")
			wantCalls(t, u, 1)
		})
	}
}

func TestNodesB062InterruptedWriterLaterReader(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{"derived": nil, "explicit": {"Idempotency-Key: k"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, up.Hang(30*time.Second), up.OK("after the crash"))
			_, a, b := nodes(t, u, harness.Config{"dedupe.ttl.chat": "24h"})
			a.Go(harness.Chat, cc(), lines...)
			u.Call(1)
			a.Kill9()
			begun := time.Now()
			wantText(t, b.Chat(cc(), lines...), "after the crash", "executed", "")
			if d := time.Since(begun); d > takeover {
				t.Errorf("it took %v, the lease is %v", d, lease)
			}
			wantCalls(t, u, 2)
			if n := b.Metrics().Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`); n != 1 {
				t.Errorf("%v attempts ambiguous", n)
			}
		})
	}
}

// A call that takes longer than its lease keeps it, also when the store stands
// still for a while shorter than that.
func TestNodesB064TheLeaseOutlivesTheWork(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step { return up.Seq(up.Pause(5*time.Second), echo(c)) })
	r, a, b := nodes(t, u)
	first := a.Go(harness.Chat, cc())
	begun := u.Call(1).At
	<-time.After(time.Until(begun.Add(1200 * time.Millisecond)))
	r.Pause()
	<-time.After(700 * time.Millisecond)
	r.Continue()
	<-time.After(time.Until(begun.Add(3 * time.Second)))
	second := b.Go(harness.Chat, cc())
	<-time.After(time.Until(begun.Add(4500 * time.Millisecond)))
	third := b.Go(harness.Chat, cc())
	wantText(t, first.Answer(), number(1), "executed", "")
	for _, p := range []*harness.Pending{second, third} {
		wantText(t, p.Answer(), number(1), "coalesced", "twin")
	}
	wantCalls(t, u, 1)
}

// A store that is away leaves completions unprotected, and nothing more; they
// are protected again by themselves once it is back.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	const password = "pw-store-Tq8Zr4Wn"
	for name, c := range map[string]struct {
		settings   []string
		away, back func(*harness.Redis)
	}{
		"refused": {nil, (*harness.Redis).Stop, func(r *harness.Redis) { r.Restart() }},
		"hanging": {nil, (*harness.Redis).Pause, (*harness.Redis).Continue},
		"another password": {
			[]string{"--requirepass", password},
			func(r *harness.Redis) { r.Restart("--requirepass", "another") },
			func(r *harness.Redis) { r.Restart("--requirepass", password) },
		},
		"out of memory": {
			nil,
			func(r *harness.Redis) { r.Do("CONFIG", "SET", "maxmemory", "1") },
			func(r *harness.Redis) { r.Do("CONFIG", "SET", "maxmemory", "0") },
		},
		"read-only": {
			nil,
			func(r *harness.Redis) { r.Do("REPLICAOF", "127.0.0.1", "1") },
			func(r *harness.Redis) { r.Do("REPLICAOF", "NO", "ONE") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			r := harness.StartRedis(t, c.settings...)
			on := harness.Config{"store.url": r.URL()}
			a, b := harness.Start(t, u.URL(), on), harness.Start(t, u.URL(), on)
			wantText(t, a.Chat(said("before")), "hello", "executed", "")

			c.away(r)
			// Three failures in a row show that it is away: each is a second at most.
			for i := range 3 {
				ans := a.Chat(said(fmt.Sprint("away ", i)))
				wantText(t, ans, "hello", "bypassed", "store_away")
				if ans.Took > 2*time.Second {
					t.Errorf("request %d took %v", i, ans.Took)
				}
			}
			for i, lines := range [][]string{nil, {"Idempotency-Key: k"}, {"Idempotency-Key: k"}, {marks[0]}} {
				ans := a.Chat(said(fmt.Sprint("later ", min(i, 1))), lines...)
				wantText(t, ans, "hello", "bypassed", "store_away")
				if ans.Took > 400*time.Millisecond {
					t.Errorf("later request %d took %v", i, ans.Took)
				}
			}
			ans := a.Chat(said("streamed", stream))
			wantOutcome(t, ans, 200, "bypassed", "store_away")

			c.back(r)
			for i, g := range []*harness.Gateway{a, b} {
				n := 0
				harness.Eventually(t, 8*time.Second, "the store is used again", func() bool {
					n++
					ans := g.Chat(said(fmt.Sprint("back ", i, n)))
					if ans.Status != 200 {
						t.Fatalf("%d %s", ans.Status, ans.Body)
					}
					return ans.Outcome() == "executed"
				})
			}
			gate, before := make(chan struct{}), u.N()
			u.Script(up.Seq(up.Gate(gate), up.OK("shared")))
			first := a.Go(harness.Chat, said("shared"))
			u.Call(before + 1)
			second := b.Go(harness.Chat, said("shared"))
			following(t, b, 1)
			close(gate)
			wantText(t, first.Answer(), "shared", "executed", "")
			wantText(t, second.Answer(), "shared", "coalesced", "twin")
			wantCalls(t, u, before+1)
			for _, g := range []*harness.Gateway{a, b} {
				g.Stop()
				wantNone(t, "the log", g.Log(), password)
			}
		})
	}
}

// The store goes away under a call: its own client gets the answer.
func TestStoreAwayUnderACall(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"whole": cc(), "streamed": cc(stream)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t)
			u.Choose(func(c *up.Call) up.Step {
				if c.Field("stream").Bool() {
					return up.Seq(up.Open(), up.Events(up.Chunk("ok")), up.Gate(gate), up.Events(up.Finish(), up.Done))
				}
				return up.Seq(up.Gate(gate), up.OK("ok"))
			})
			r := harness.StartRedis(t)
			g := harness.Start(t, u.URL(), harness.Config{"store.url": r.URL(), "policy.timeouts.idle": "10s"})
			first := g.Go(harness.Chat, body)
			u.Call(1)
			second := g.Go(harness.Chat, body)
			following(t, g, 1)
			r.Stop()
			close(gate)
			for _, p := range []*harness.Pending{first, second} {
				a := p.Answer()
				if a.Status != 200 || a.Text() != "ok" && words(harness.Data(a.Body)) != "ok" {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			}
			wantCalls(t, u, 1)
		})
	}
}

// The store goes away between a call and its follower on another node: that
// one's answer can't come that way any more, so it gets one of its own.
func TestStoreAwayUnderAFollower(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		after func(*harness.Redis)
	}{
		"whole":               {cc(), (*harness.Redis).Stop},
		"streamed":            {cc(stream), (*harness.Redis).Stop},
		"hanging":             {cc(), (*harness.Redis).Pause},
		"back at once, empty": {cc(), func(r *harness.Redis) { r.Restart() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t, up.Seq(up.Gate(gate), up.OK("first")), up.OK("own"))
			r, a, b := nodes(t, u, harness.Config{"policy.timeouts.first_byte": "20s"})
			first := a.Go(harness.Chat, c.body)
			u.Call(1)
			second := b.Go(harness.Chat, c.body)
			following(t, b, 1)
			begun := time.Now()
			c.after(r)
			ans := second.Answer()
			if o := ans.Outcome(); ans.Status != 200 || ans.Text() != "own" || o != "bypassed" && o != "executed" {
				t.Errorf("the follower got %d %q %s", ans.Status, o, ans.Body)
			}
			if d := time.Since(begun); d > takeover {
				t.Errorf("it took %v", d)
			}
			close(gate)
			if ans := first.Answer(); ans.Status != 200 || ans.Text() != "first" {
				t.Errorf("the first got %d %s", ans.Status, ans.Body)
			}
			wantCalls(t, u, 2)
		})
	}
}

func TestStoreAwayWrongPasswordAtStart(t *testing.T) {
	t.Parallel()
	const password = "pw-wrong-Vb3Xs7Kd"
	u := up.New(t)
	r := harness.StartRedis(t, "--requirepass", "pw-right-Hn5Lc9Yf")
	url := strings.Replace(r.URL(), "pw-right-Hn5Lc9Yf", password, 1)
	code, log := harness.Refuse(t, u.URL(), harness.Config{"store.url": url})
	if code == 0 || !strings.Contains(log, "WRONGPASS") || !strings.Contains(log, "store.url") {
		t.Errorf("exit status %d, and it says %q", code, log)
	}
	wantNone(t, "the log", log, password)
}
