package test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

func TestB051LeaderHangsUpFollowersLive(t *testing.T) {
	t.Parallel()
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(echoAfter(gate))
		g := harness.Start(t, u.URL())
		a := g.Go(harness.Chat, cc())
		u.Call(1)
		b, c := g.Go(harness.Chat, cc()), g.Go(harness.Chat, cc())
		following(t, g, 2)
		a.Leave()
		close(gate)
		wantText(t, b.Answer(), number(1), "coalesced", "twin")
		wantText(t, c.Answer(), number(1), "coalesced", "twin")
		wantCalls(t, u, 1)
		m := g.Metrics()
		if billed := m.Sum("oncegate_upstream_attempts_total", `billing="billed"`); billed != 1 {
			t.Errorf("%v attempts billed, want 1", billed)
		}
		if saved := m.Sum("oncegate_saved_requests_total", `reason="twin"`); saved != 2 {
			t.Errorf("%v requests saved, want 2: the one that hung up is not", saved)
		}
	})
	t.Run("stream", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Gate(gate), up.Events(up.Chunk("b"), up.Finish(), up.Done)))
		g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "0s"})
		a, b, c := g.Open(harness.Chat, cc(stream)), (*harness.Stream)(nil), (*harness.Stream)(nil)
		a.Next()
		b, c = g.Open(harness.Chat, cc(stream)), g.Open(harness.Chat, cc(stream))
		b.Next()
		a.Leave()
		close(gate)
		for name, s := range map[string]*harness.Stream{"b": b, "c": c} {
			s.Rest()
			got := harness.Data(s.Raw())
			if words(got) != "ab" || got[len(got)-1] != up.Done || !s.Clean() {
				t.Errorf("%s got %q, %v", name, s.Raw(), s.End())
			}
		}
		wantCalls(t, u, 1)
	})
}

func TestB054FollowersGetTheTrueFailureOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Gate(gate), up.Fail(500, "broken")))
	g := harness.Start(t, u.URL())
	first := g.Go(harness.Chat, cc())
	u.Call(1)
	all := []*harness.Pending{first}
	for range 9 {
		all = append(all, g.Go(harness.Chat, cc()))
	}
	following(t, g, 9)
	close(gate)
	for _, p := range all {
		problem{500, "broken", "false", "failed", "attempts_exhausted", ""}.want(t, p.Answer())
	}
	failed := time.Now()
	wantCalls(t, u, 3)
	// A client that knows no x-should-retry comes again at once.
	problem{500, "broken", "false", "failed", "failure_memo", ""}.want(t, g.Chat(cc()))
	wantCalls(t, u, 3)
	u.Script(up.OK("well again"))
	var a *harness.Answer
	harness.Eventually(t, 6*time.Second, "the memo ends", func() bool {
		a = g.Chat(cc())
		return a.Status == 200
	})
	wantText(t, a, "well again", "executed", "")
	if d := time.Since(failed); d < 1500*time.Millisecond {
		t.Errorf("the failure answered repeats for %v only", d)
	}
	wantCalls(t, u, 4)
	if saved := g.Metrics().Sum("oncegate_saved_requests_total"); saved != 0 {
		t.Errorf("%v saved requests: failures save nothing", saved)
	}
}

// variants are bodies that differ from the first in one thing each.
func variants() []string {
	const image = `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/%s","detail":"%s"}}]}]`
	tools := func(text string) string {
		return `"tools":[{"type":"function","function":{"name":"f","description":"` + text + `","parameters":{"type":"object"}}}]`
	}
	with := func(members string) string { return `{"model":"m1",` + members + `}` }
	out := []string{cc(), strings.Replace(cc(), "m1", "m2", 1)}
	for _, member := range []string{
		`"temperature":0`, `"top_p":0.5`, `"max_tokens":50`, `"max_tokens":51`, `"max_completion_tokens":50`, `"n":2`, `"seed":1`,
		`"stop":"x"`, `"stop":["x"]`, `"tool_choice":"none"`, tools("one"), tools("two"), `"parallel_tool_calls":false`,
		`"response_format":{"type":"json_object"}`, `"logit_bias":{"50":-1}`, `"logprobs":true`, `"reasoning_effort":"low"`,
		`"service_tier":"flex"`, `"num_ctx":4096`, `"x_new":1`, `"x_new":1.0`, `"x_new":"1"`, `"x_new":null`,
	} {
		out = append(out, cc(member))
	}
	for _, messages := range []string{
		`"messages":[{"role":"user","name":"ann","content":"hi"}]`,
		`"messages":[{"role":"system","content":"hi"}]`,
		`"messages":[{"role":"user","content":"hi "}]`,
		`"messages":[{"role":"tool","tool_call_id":"c1","content":"hi"}]`,
		`"messages":[{"role":"tool","tool_call_id":"c2","content":"hi"}]`,
		fmt.Sprintf(image, "a", "low"), fmt.Sprintf(image, "b", "low"), fmt.Sprintf(image, "a", "high"),
	} {
		out = append(out, with(messages))
	}
	return out
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

func TestB055OneParameterApart(t *testing.T) {
	t.Parallel()
	bodies := variants()
	u := up.New(t)
	gate := make(chan struct{})
	u.Choose(func(c *up.Call) up.Step { return up.Seq(up.Gate(gate), up.OK(digest(c.Body))) })
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	pending := make([]*harness.Pending, len(bodies))
	for i, b := range bodies {
		pending[i] = g.Go(harness.Chat, b)
	}
	u.Call(len(bodies)) // all of them at once, and none waits for another
	close(gate)
	for i, p := range pending {
		wantText(t, p.Answer(), digest([]byte(bodies[i])), "executed", "")
	}
	for _, b := range bodies {
		wantText(t, g.Chat(b), digest([]byte(b)), "replayed", "within_ttl")
	}
	wantCalls(t, u, len(bodies))
}

func TestB056NoiseDoesNotChangeTheKey(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL())
	first := g.Go(harness.Chat, cc(`"temperature":0.5`))
	u.Call(1)
	var others []*harness.Pending
	for _, c := range []struct {
		body  string
		lines []string
	}{
		{body: "{ \"model\" : \"m1\",\n\t\"messages\": [ {\"role\":\"user\",\"content\":\"hi\"} ], \"temperature\": 0.5 }\n"},
		{body: `{"temperature":0.5,"messages":[{"content":"hi","role":"user"}],"model":"m1"}`},
		{body: `{"model":"m1","messages":[{"role":"user","content":"\u0068i"}],"temperature":0.5}`},
		{body: cc(`"temperature":0.5`), lines: []string{
			"User-Agent: other/1", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x-request-id: mine",
			"x-stainless-lang: js", "x-stainless-os: Linux", "x-stainless-retry-count: 0", "Accept-Encoding: gzip", "Connection: close",
			"x-client-request-id: 5", "Accept: text/event-stream",
		}},
		{body: cc(`"temperature":0.5`), lines: []string{"Content-Type: application/json; charset=utf-8"}},
	} {
		others = append(others, g.Go(harness.Chat, c.body, c.lines...))
	}
	following(t, g, len(others))
	close(gate)
	wantText(t, first.Answer(), number(1), "executed", "")
	for _, p := range others {
		wantText(t, p.Answer(), number(1), "coalesced", "twin")
	}
	wantCalls(t, u, 1)
}

// Who the client is comes from its gateway key, whatever the request says.
func TestB057TwoUsersNeverShare(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL(), harness.Keys(), harness.Config{"dedupe.mode": "always"})
	k1, k2 := harness.Bearer(harness.K1), harness.Bearer(harness.K2)
	posing := []string{k2, "X-User: alice", "X-Tenant-Id: alice", "OpenAI-Organization: alice", "X-Forwarded-User: alice"}
	for _, c := range []struct {
		name  string
		lines []string
	}{{"derived", nil}, {"explicit", []string{"Idempotency-Key: same"}}} {
		before := u.N()
		a := g.Go(harness.Chat, said(c.name, `"user":"alice"`), append(c.lines, k1)...)
		u.Call(before + 1)
		b := g.Go(harness.Chat, said(c.name, `"user":"alice"`), append(c.lines, posing...)...)
		u.Call(before + 2)
		gate <- struct{}{}
		gate <- struct{}{}
		wantText(t, a.Answer(), number(before+1), "executed", "")
		wantText(t, b.Answer(), number(before+2), "executed", "")
		if got := g.Chat(said(c.name, `"user":"alice"`), append(c.lines, k1)...); got.Text() != number(before+1) {
			t.Errorf("%s: alice's repeat got %q", c.name, got.Text())
		}
		if got := g.Chat(said(c.name, `"user":"alice"`), append(c.lines, posing...)...); got.Text() != number(before+2) {
			t.Errorf("%s: bob's repeat got %q", c.name, got.Text())
		}
		wantCalls(t, u, before+2)
	}
	close(gate)
	// Names that would be equal if they were merely put one after the other.
	before := u.N()
	g.Chat(cc(), k1, "Oncegate-User: a:b", "Oncegate-Nonce: c")
	g.Chat(cc(), k1, "Oncegate-User: a", "Oncegate-Nonce: b:c")
	wantCalls(t, u, before+2)
}

// On an open listener the credential that came tells users apart.
func TestB057TwoUsersOfAnOpenListener(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	wantText(t, g.Chat(cc(), "Authorization: Bearer one"), number(1), "executed", "")
	wantText(t, g.Chat(cc(), "Authorization: Bearer two"), number(2), "executed", "")
	wantText(t, g.Chat(cc()), number(3), "executed", "")
	wantText(t, g.Chat(cc(), "x-api-key: one"), number(1), "replayed", "within_ttl")
}

func TestB059CutOffAnswersAreNotKeptAsGood(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"length", "content_filter"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			u.Choose(func(c *up.Call) up.Step {
				if c.Field("stream").Bool() {
					return up.SSE(up.Chunk(number(c.N)), up.FinishBy(reason), up.Done)
				}
				return up.Status(200, strings.Replace(up.Completion(number(c.N)), `"stop"`, `"`+reason+`"`, 1))
			})
			g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
			// Never a mere duplicate's answer, but a retry's and a key's.
			wantText(t, g.Chat(cc()), number(1), "executed", "")
			wantText(t, g.Chat(cc(), marks[0]), number(1), "replayed", "retry_marked")
			wantText(t, g.Chat(cc()), number(2), "executed", "")
			wantText(t, g.Chat(cc(), "Idempotency-Key: k"), number(3), "executed", "")
			wantText(t, g.Chat(cc(), "Idempotency-Key: k"), number(3), "replayed", "key")
			wantOutcome(t, g.Chat(cc(stream)), 200, "executed", "")
			wantOutcome(t, g.Chat(cc(stream)), 200, "executed", "")
			wantOutcome(t, g.Chat(cc(stream), marks[0]), 200, "replayed", "retry_marked")
			wantCalls(t, u, 5)
		})
	}
	t.Run("cut by the upstream", func(t *testing.T) {
		t.Parallel()
		for name, step := range map[string]up.Step{
			"reset":        up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Pause(50*time.Millisecond), up.RST),
			"no finish":    up.SSE(up.Chunk("a")),
			"bare [DONE]":  up.SSE(up.Chunk("a"), up.Done),
			"cut mid-line": up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Bytes(`data: {"choi`), up.FIN),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				u := up.New(t, step)
				g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
				for i := range 3 {
					lines := [][]string{nil, marks[:1], {"Idempotency-Key: k"}}[i]
					a := g.Try("POST", harness.Chat, cc(stream), lines...)
					if a.Outcome() != "executed" && a.Outcome() != "failed" {
						t.Errorf("%v: outcome %q", lines, a.Outcome())
					}
				}
				a := g.Try("POST", harness.Chat, cc(stream), "Idempotency-Key: k")
				if a.Outcome() == "replayed" {
					t.Error("a stream that never finished was replayed")
				}
				wantCalls(t, u, 4)
			})
		}
	})
}

func TestB060ReplayKeepsEverything(t *testing.T) {
	t.Parallel()
	answer := `{"id":"chatcmpl-9","object":"chat.completion","created":1700000000,"model":"m1-2025","choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"because","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}`
	u := up.New(t, up.Status(200, answer,
		"x-request-id: req_77", "openai-processing-ms: 812", "openai-version: 2020-10-01", "openai-organization: org-secret",
		"x-ratelimit-remaining-requests: 5", "anthropic-ratelimit-requests-remaining: 5", "Set-Cookie: a=b", "x-custom: 1"))
	g := harness.Start(t, u.URL())
	first := g.Chat(cc(), "Idempotency-Key: k1")
	wantOutcome(t, first, 200, "executed", "")
	again := g.Chat(cc(), "Idempotency-Key: k1")
	wantOutcome(t, again, 200, "replayed", "key")
	if first.Body != answer || again.Body != answer {
		t.Errorf("bodies differ:\n%s\n%s\n%s", answer, first.Body, again.Body)
	}
	if again.Header.Get("Idempotent-Replayed") != "true" || again.Header.Get("Age") == "" {
		t.Errorf("not marked as a replay: %v", again.Header)
	}
	for name, want := range map[string][2]string{ // the leader's, the replay's
		"X-Request-Id":                           {"req_77", "req_77"},
		"Openai-Processing-Ms":                   {"812", "812"},
		"Openai-Version":                         {"2020-10-01", "2020-10-01"},
		"Content-Type":                           {"application/json", "application/json"},
		"Openai-Organization":                    {"org-secret", ""},
		"X-Ratelimit-Remaining-Requests":         {"5", ""},
		"Anthropic-Ratelimit-Requests-Remaining": {"5", ""},
		"X-Custom":                               {"1", ""},
		"Set-Cookie":                             {"", ""},
	} {
		if got := [2]string{first.Header.Get(name), again.Header.Get(name)}; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, a := range map[string]*harness.Answer{"first": first, "again": again} {
		if got := a.Header.Get("Oncegate-Target"); got != "up/m1" {
			t.Errorf("%s: Oncegate-Target %q", name, got)
		}
		if got := a.Header.Get("Oncegate-Attempts"); got != "1" {
			t.Errorf("%s: Oncegate-Attempts %q", name, got)
		}
	}
	wantCalls(t, u, 1)
	if saved := g.Metrics().Sum("oncegate_saved_requests_total", `reason="key"`); saved != 1 {
		t.Errorf("%v requests saved, want 1", saved)
	}
}

func TestB061TTLReallyEnds(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.ttl.chat": "3s"})
	begun := time.Now()
	wantText(t, g.Chat(cc(), "Idempotency-Key: k"), number(1), "executed", "")
	g.Stop() // what has an explicit key is on disk before its last byte goes out
	g.Restart()
	if time.Since(begun) < 2500*time.Millisecond {
		wantText(t, g.Chat(cc(), "Idempotency-Key: k"), number(1), "replayed", "key")
	}
	// Asking does not extend the life.
	harness.Eventually(t, 8*time.Second, "the record ends", func() bool {
		return g.Chat(cc(), "Idempotency-Key: k").Outcome() != "replayed"
	})
	if d := time.Since(begun); d < 2950*time.Millisecond {
		t.Errorf("it ended after %v", d)
	}
	wantCalls(t, u, 2)
}

func TestB061TTLOfZeroIsRefused(t *testing.T) {
	t.Parallel()
	for _, ttl := range []string{"0s", "-1s"} {
		t.Run(ttl, func(t *testing.T) {
			t.Parallel()
			code, out := harness.Refuse(t, up.Refused(t), harness.Config{"dedupe.ttl.chat": ttl})
			if code != 2 || !strings.Contains(out, "ttl") {
				t.Errorf("exit status %d: %s", code, out)
			}
		})
	}
}

func TestB062InterruptedWriterLaterReader(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string][]string{"derived": nil, "explicit": {"Idempotency-Key: k"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t, up.Hang(30*time.Second), up.OK("after the crash"))
			g := harness.Start(t, u.URL(), harness.Config{"dedupe.ttl.chat": "24h"})
			g.Go(harness.Chat, cc(), lines...)
			u.Call(1)
			g.Kill9()
			g.Restart()
			begun := time.Now()
			a := g.Chat(cc(), lines...)
			wantText(t, a, "after the crash", "executed", "")
			if d := time.Since(begun); d > 3*time.Second {
				t.Errorf("it took %v, the lease is 2 s", d)
			}
			wantCalls(t, u, 2)
			harness.Eventually(t, 5*time.Second, "the lost attempt is booked as ambiguous", func() bool {
				return g.Metrics().Sum("oncegate_upstream_attempts_total", `billing="ambiguous"`) == 1
			})
		})
	}
}

// Answers with an explicit key, and answers that a client was left without,
// outlive a crash.
func TestB062SettledOutlivesACrash(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	gate := make(chan struct{})
	u.Choose(func(c *up.Call) up.Step {
		if strings.Contains(string(c.Body), "left") {
			return up.Seq(up.Gate(gate), echo(c))
		}
		return echo(c)
	})
	g := harness.Start(t, u.URL())
	wantText(t, g.Chat(cc(), "Idempotency-Key: k"), number(1), "executed", "")
	g.Kill9()
	g.Restart()
	wantText(t, g.Chat(cc(), "Idempotency-Key: k"), number(1), "replayed", "key")

	p := g.Go(harness.Chat, said("left"))
	u.Call(2)
	p.Leave()
	close(gate)
	settled(t, g, 1)
	g.Stop() // the undelivered are written behind: a clean stop waits for that
	g.Restart()
	wantText(t, g.Chat(said("left")), number(2), "replayed", "owed")
	wantCalls(t, u, 2)
}

// Hundreds of equal streams at once: one call, and each gets every byte.
func TestManyFollowersOfOneStream(t *testing.T) {
	t.Parallel()
	const many = 300
	gate := make(chan struct{})
	var items []string
	for i := range 40 {
		items = append(items, up.Chunk(fmt.Sprintf("%03d ", i)))
	}
	u := up.New(t, up.Seq(up.Open(), up.Events(items[:20]...), up.Gate(gate), up.Events(items[20:]...), up.Events(up.Finish(), up.Done)))
	g := harness.Start(t, u.URL())
	first := g.Go(harness.Chat, cc(stream))
	u.Call(1)
	var all []*harness.Pending
	for range many {
		all = append(all, g.Go(harness.Chat, cc(stream)))
	}
	following(t, g, many)
	close(gate)
	want := first.Answer().Body
	if n := len(harness.Data(want)); n != 42 {
		t.Fatalf("the leader got %d events", n)
	}
	for _, p := range all {
		if a := p.Answer(); a.Body != want || a.Outcome() != "coalesced" {
			t.Fatalf("a follower got %q %q", a.Outcome(), a.Body)
		}
	}
	wantCalls(t, u, 1)
}
