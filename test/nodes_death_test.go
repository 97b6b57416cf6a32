package test

import (
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// takeover is how long a follower may wait when its leader is gone: the lease,
// the poll that finds its end, and the call itself.
const takeover = lease + 250*time.Millisecond + 1500*time.Millisecond

func TestNodesLeaderIsKilled(t *testing.T) {
	t.Parallel()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		_, a, b := nodes(t, u)
		leaderIsKilled(t, u, a, b)
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

// leaderIsKilled kills a in the middle of a call that three on b follow.
func leaderIsKilled(t *testing.T, u *up.Server, a, b *harness.Gateway) {
	t.Helper()
	u.Script(up.Hang(30*time.Second), up.OK("second"))
	body, before := said(t.Name()), u.N()
	a.Go(harness.Chat, body)
	u.Call(before + 1)
	var all []*harness.Pending
	for range 3 {
		all = append(all, b.Go(harness.Chat, body))
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
	wantCalls(t, u, before+2)
	if n := b.Metrics().Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`); n != 1 {
		t.Errorf("%v attempts ambiguous: the killed node had one under way", n)
	}
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
	t.Run("streamed, with content", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t,
			up.Seq(up.Open(), up.Events(up.Chunk("first")), up.Gate(gate), up.Events(up.Chunk(" goes on"), up.Finish(), up.Done)),
			up.SSE(up.Chunk("second"), up.Finish(), up.Done))
		_, a, b := nodes(t, u, harness.Config{"policy.timeouts.idle": "20s"})
		leader := a.Open(harness.Chat, cc(stream), key)
		follower := b.Open(harness.Chat, cc(stream), key)
		for _, s := range []*harness.Stream{leader, follower} {
			if got := content(s.Next()); got != "first" {
				t.Fatalf("it begins with %q", got)
			}
		}
		a.Pause()
		begun := time.Now()
		if rest := follower.Rest(); len(rest) != 1 || !strings.Contains(rest[0], `"error"`) {
			t.Errorf("after the content came %q, want one error", rest)
		}
		if d := time.Since(begun); d > takeover {
			t.Errorf("it took %v", d)
		}
		again := b.Chat(cc(stream), key)
		wantOutcome(t, again, 200, "executed", "")
		if got := words(harness.Data(again.Body)); got != "second" {
			t.Errorf("the next got %q", again.Body)
		}
		a.Continue()
		close(gate)
		leader.Rest()
		if got := words(harness.Data(leader.Raw())); !strings.HasPrefix(got, "first") || strings.Contains(got, "second") {
			t.Errorf("the woken one's client got %q", leader.Raw())
		}
		idle(t, a)
		for _, g := range []*harness.Gateway{b, a} {
			ans := g.Chat(cc(stream), key)
			wantOutcome(t, ans, 200, "replayed", "key")
			if got := words(harness.Data(ans.Body)); got != "second" {
				t.Errorf("kept is %q", got)
			}
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
	r, a, b := nodes(t, u)
	leaseOutlivesWork(t, u, a, b, func() {
		r.Pause()
		<-time.After(700 * time.Millisecond)
		r.Continue()
	})
}

// leaseOutlivesWork has a call take longer than two leases. during happens
// before the first of them would end.
func leaseOutlivesWork(t *testing.T, u *up.Server, a, b *harness.Gateway, during func()) {
	t.Helper()
	u.Choose(func(c *up.Call) up.Step { return up.Seq(up.Pause(5*time.Second), echo(c)) })
	body, before := said(t.Name()), u.N()
	text := number(before + 1)
	first := a.Go(harness.Chat, body)
	begun := u.Call(before + 1).At
	at := func(d time.Duration) { <-time.After(time.Until(begun.Add(d))) }
	at(1200 * time.Millisecond)
	if during != nil {
		during()
	}
	at(3 * time.Second)
	second := b.Go(harness.Chat, body)
	at(4500 * time.Millisecond)
	third := b.Go(harness.Chat, body)
	wantText(t, first.Answer(), text, "executed", "")
	for _, p := range []*harness.Pending{second, third} {
		wantText(t, p.Answer(), text, "coalesced", "twin")
	}
	wantCalls(t, u, before+1)
}
