package test

import (
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// On an open gateway a credential of any scheme sets its sender apart.
func TestBasicCredentialsNeverShare(t *testing.T) {
	t.Parallel()
	const alice, bob = "Authorization: Basic YWxpY2U6cHc=", "Authorization: Basic Ym9iOnB3"
	t.Run("in flight", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		g := harness.Start(t, u.URL())
		a := g.Go(harness.Chat, cc(), alice)
		u.Call(1)
		b := g.Go(harness.Chat, cc(), bob)
		u.Call(2)
		nobody := g.Go(harness.Chat, cc())
		u.Call(3)
		again := g.Go(harness.Chat, cc(), alice)
		following(t, g, 1)
		close(gate)
		wantText(t, a.Answer(), number(1), "executed", "")
		wantText(t, b.Answer(), number(2), "executed", "")
		wantText(t, nobody.Answer(), number(3), "executed", "")
		wantText(t, again.Answer(), number(1), "coalesced", "twin")
		wantCalls(t, u, 3)
	})
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		u.Choose(echo)
		g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
		for n, key := range []string{"", "Idempotency-Key: k"} {
			lines := func(who string) []string {
				if key == "" {
					return []string{who}
				}
				return []string{who, key}
			}
			first := g.Chat(cc(), lines(alice)...)
			wantText(t, first, number(2*n+1), "executed", "")
			wantText(t, g.Chat(cc(), lines(bob)...), number(2*n+2), "executed", "")
			if a := g.Chat(cc(), lines(alice)...); a.Body != first.Body || a.Outcome() != "replayed" {
				t.Errorf("her own again: %q %q", a.Outcome(), a.Body)
			}
		}
		wantCalls(t, u, 4)
	})
}

// A key stands for its call also while that is too large to be shared.
func TestExplicitKeyOfALargeAnswerInFlight(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	big := up.Chunk(strings.Repeat("z", 40<<10))
	u := up.New(t, up.Seq(up.Open(), up.Events(big, big, big), up.Gate(gate), up.Events(up.Finish(), up.Done)))
	g := harness.Start(t, u.URL(), harness.Config{"store.max_body": "64KiB", "policy.timeouts.idle": "10s"})
	const key = "Idempotency-Key: big"
	s := g.Open(harness.Chat, cc(stream), key)
	for range 3 {
		s.Next()
	}
	for range 2 {
		a := g.Chat(cc(stream), key)
		problem{409, "idempotency_in_flight", "true", "refused", "in_flight", ""}.want(t, a)
	}
	wantCalls(t, u, 1)
	problem{422, "idempotency_key_reused", "false", "refused", "key_reused", ""}.want(t, g.Chat(said("other", stream), key))
	wantCalls(t, u, 1)
	close(gate)
	s.Rest()
	if got := harness.Data(s.Raw()); got[len(got)-1] != up.Done {
		t.Errorf("the first ended with %q", got[len(got)-1])
	}
}

// A client that can't wait leaves its own failure to nobody.
func TestAShortTimeoutMakesNoMemo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says    up.Step
		timeout string
		status  int
		reason  string
	}{
		"deadline":     {up.RST, "800ms", 502, "deadline"},
		"told to wait": {up.Fail(503, "busy", "Retry-After: 2"), "2500ms", 503, "retry_after_exceeds_deadline"},
	} {
		for kind, body := range map[string]string{"JSON": cc(), "stream": cc(stream)} {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				u := up.New(t, c.says, up.OK("for who waits"))
				g := harness.Start(t, u.URL())
				wantOutcome(t, g.Chat(body, "Oncegate-Timeout: "+c.timeout), c.status, "failed", c.reason)
				wantCalls(t, u, 1)
				wantText(t, g.Chat(body), "for who waits", "executed", "")
				wantCalls(t, u, 2)
			})
		}
	}
}

// What nobody else can join is not kept for a moment: there is no retry that
// could attach.
func TestPrivateStreamsAreLetGoAtOnce(t *testing.T) {
	t.Parallel()
	endless := up.Seq(up.Open(), up.Events(up.Role(), up.Chunk("a")), up.Hang(30*time.Second))
	prompt := func(t *testing.T, s *harness.Stream, c *up.Call) {
		t.Helper()
		s.Next()
		s.Leave()
		if !c.Left(3 * time.Second) {
			t.Error("the upstream was not let go within 3 s: linger is 10 s")
		}
	}
	t.Run("off", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, endless)
		g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "10s"})
		s := g.Open(harness.Chat, cc(stream), mode("off"))
		prompt(t, s, u.Call(1))
	})
	t.Run("a twin in retries", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, endless)
		g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "10s", "dedupe.mode": "retries"})
		leader := g.Open(harness.Chat, cc(stream))
		leader.Next()
		twin := g.Open(harness.Chat, cc(stream))
		prompt(t, twin, u.Call(2))
		leader.Leave()
		if u.Call(1).Left(500 * time.Millisecond) {
			t.Error("the one that a retry could join was let go too")
		}
	})
	t.Run("passthrough", func(t *testing.T) {
		t.Parallel()
		u := up.New(t, endless)
		g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "10s", "passthrough": "up"})
		s := g.Open("/v1/threads/runs", cc(stream))
		prompt(t, s, u.Call(1))
	})
}

// A client whose time is over is not asked to come back where its next try
// would be another call.
func TestPrivateCallsPastTheClientsDeadline(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL(), harness.Config{"passthrough": "up"})
	alone := problem{504, "upstream_timeout", "false", "failed", "deadline", ""}
	const timeout = "Oncegate-Timeout: 500ms"
	alone.want(t, g.Chat(cc(), timeout, mode("off")))
	alone.want(t, g.Chat(cc(stream), timeout, mode("off")))
	alone.want(t, g.Post("/v1/threads/runs", cc(), timeout))
	g.Go(harness.Chat, cc(), mode("retries"))
	u.Call(4)
	alone.want(t, g.Chat(cc(), timeout, mode("retries")))
	wantCalls(t, u, 5)
	// The one that can be joined is worth another try.
	problem{504, "upstream_timeout", "true", "failed", "deadline", ""}.want(t, g.Chat(said("shared"), timeout))
}

// A stream that ended without its finish is nobody's saved call.
func TestAnUnfinishedStreamSavesNothing(t *testing.T) {
	t.Parallel()
	for name, end := range map[string][]string{"finished": {up.Finish(), up.Done}, "done only": {up.Done}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Gate(gate), up.Events(end...)))
			g := harness.Start(t, u.URL())
			pending := []*harness.Pending{g.Go(harness.Chat, cc(stream))}
			u.Call(1)
			for range 2 {
				pending = append(pending, g.Go(harness.Chat, cc(stream)))
			}
			following(t, g, 2)
			close(gate)
			for _, p := range pending {
				if a := p.Answer(); a.Status != 200 || words(harness.Data(a.Body)) != "a" {
					t.Errorf("%d %q", a.Status, a.Body)
				}
			}
			want := 0.0
			if len(end) > 1 {
				want = 2
			}
			m := g.Metrics()
			if n := m.Sum("oncegate_saved_requests_total"); n != want {
				t.Errorf("%v calls were saved, want %v", n, want)
			}
			if n := m.Sum("oncegate_requests_total"); n != 3 {
				t.Errorf("%v requests were counted, want 3", n)
			}
			wantCalls(t, u, 1)
		})
	}
}

// The leader's own client gets what the upstream said of its limits. Nobody
// else does.
func TestPriorityHeadersAreTheLeadersOwn(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Gate(gate), up.Status(200, up.Completion("ok"),
		"Anthropic-Priority-Input-Tokens-Limit: 10000", "Anthropic-Priority-Output-Tokens-Remaining: 9", "Anthropic-Other: all")))
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	leader := g.Go(harness.Chat, cc())
	u.Call(1)
	follower := g.Go(harness.Chat, cc())
	following(t, g, 1)
	close(gate)
	first, second := leader.Answer(), follower.Answer()
	for _, a := range []*harness.Answer{first, second, g.Chat(cc())} {
		for _, name := range []string{"Anthropic-Priority-Input-Tokens-Limit", "Anthropic-Priority-Output-Tokens-Remaining"} {
			if got := a.Header.Get(name); (got != "") != (a == first) {
				t.Errorf("%s: %q on an answer that was %s", name, got, a.Outcome())
			}
		}
		if a.Header.Get("Anthropic-Other") != "all" {
			t.Errorf("what is for all is not on an answer that was %s", a.Outcome())
		}
	}
	wantCalls(t, u, 1)
}
