package test

import (
	"fmt"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// retry marks a request as one, in each of the two ways.
var marks = []string{"Oncegate-Retry: 1", "x-stainless-retry-count: 2"}

func mode(m string) string { return "Oncegate-Dedupe: " + m }

func TestModeOff(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL())
	a := g.Go(harness.Chat, cc(), mode("off"))
	u.Call(1)
	b := g.Go(harness.Chat, cc(), mode("off"))
	u.Call(2)
	c := g.Go(harness.Chat, cc(), mode("off"), marks[0])
	u.Call(3)
	close(gate)
	for i, p := range []*harness.Pending{a, b, c} {
		wantOff(t, p.Answer(), number(i+1))
	}
	wantOff(t, g.Chat(cc(), mode("off"), marks[1]), number(4))
	// What ran without a record of its own is nobody's answer later.
	wantText(t, g.Chat(cc(), mode("always")), number(5), "executed", "")
	wantOff(t, g.Chat(cc(), mode("off")), number(6))
	wantCalls(t, u, 6)
}

// wantOff leaves the record's key open: what is private has none to show.
func wantOff(t *testing.T, a *harness.Answer, text string) {
	t.Helper()
	if a.Status != 200 || a.Text() != text || a.Outcome() != "executed" {
		t.Errorf("got %d %q %q, want %q executed", a.Status, a.Text(), a.Outcome(), text)
	}
}

func TestModeRetries(t *testing.T) {
	t.Parallel()
	for _, mark := range marks {
		t.Run(mark, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t)
			u.Choose(echoAfter(gate))
			g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "retries"})
			a := g.Go(harness.Chat, cc())
			u.Call(1)
			twin := g.Go(harness.Chat, cc()) // unmarked: it may be meant to run, and does privately
			u.Call(2)
			joined := g.Go(harness.Chat, cc(), mark)
			following(t, g, 1)
			close(gate)
			wantText(t, a.Answer(), number(1), "executed", "")
			wantOff(t, twin.Answer(), number(2))
			wantText(t, joined.Answer(), number(1), "coalesced", "retry_marked")
			wantText(t, g.Chat(cc(), mark), number(1), "replayed", "retry_marked")
			wantText(t, g.Chat(cc(), mark), number(1), "replayed", "retry_marked")
			wantText(t, g.Chat(cc()), number(3), "executed", "")
			wantText(t, g.Chat(cc(), mark), number(3), "replayed", "retry_marked")
			wantCalls(t, u, 3)
		})
	}
}

func TestModeDuplicates(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL())
	a := g.Go(harness.Chat, cc())
	u.Call(1)
	twin := g.Go(harness.Chat, cc())
	following(t, g, 1)
	joined := g.Go(harness.Chat, cc(), marks[0])
	following(t, g, 2)
	close(gate)
	wantText(t, a.Answer(), number(1), "executed", "")
	wantText(t, twin.Answer(), number(1), "coalesced", "twin")
	wantText(t, joined.Answer(), number(1), "coalesced", "retry_marked")
	// Delivered: asking again is asking for another answer.
	wantText(t, g.Chat(cc()), number(2), "executed", "")
	wantText(t, g.Chat(cc(), marks[0]), number(2), "replayed", "retry_marked")
	wantCalls(t, u, 2)
}

func TestModeAlways(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	wantText(t, g.Chat(cc()), number(1), "executed", "")
	wantText(t, g.Chat(cc()), number(1), "replayed", "within_ttl")
	wantText(t, g.Chat(cc(), marks[0]), number(1), "replayed", "retry_marked")
	// The reader's mode decides what it may take.
	wantText(t, g.Chat(cc(), mode("duplicates")), number(2), "executed", "")
	wantText(t, g.Chat(cc()), number(2), "replayed", "within_ttl")
	wantCalls(t, u, 2)
}

// The mode may differ by key and by model; a header wins over both.
func TestModeByKeyAndByModel(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	alice := harness.Key("alice", harness.K1)
	alice["dedupe"] = "always"
	calm := harness.Model("calm", "up")
	calm["dedupe"] = "always"
	g := harness.Start(t, u.URL(), harness.Config{
		"auth.keys": []any{alice, harness.Key("bob", harness.K2)},
		"models":    []any{calm, harness.Model("*", "up")},
	})
	asCalm := `{"model":"calm","messages":[]}`
	for _, c := range []struct {
		what, body, key string
		extra           []string
		calls           int
	}{
		{"alice's key shares always", cc(), harness.K1, nil, 1},
		{"bob's does not", cc(), harness.K2, nil, 2},
		{"the model does for bob", asCalm, harness.K2, nil, 1},
		{"the header wins over the key", said("x"), harness.K1, []string{mode("duplicates")}, 2},
	} {
		t.Run(c.what, func(t *testing.T) {
			before := u.N()
			for range 2 {
				if a := g.Chat(c.body, append(c.extra, harness.Bearer(c.key))...); a.Status != 200 {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			}
			wantCalls(t, u, before+c.calls)
		})
	}
}

// Each client that left without its answer leaves one debt, and each unmarked
// repeat takes one.
func TestDebtsAreTakenOnce(t *testing.T) {
	t.Parallel()
	for _, m := range []string{"retries", "duplicates"} {
		t.Run(m, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t)
			u.Choose(echoAfter(gate))
			g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": m})
			a := g.Go(harness.Chat, cc())
			u.Call(1)
			b := g.Go(harness.Chat, cc(), marks[0]) // joins in either mode
			following(t, g, 1)
			a.Leave()
			b.Leave()
			close(gate)
			settled(t, g, 1) // nobody waits, and the call is billed anyway: it ran to its end
			wantText(t, g.Chat(cc()), number(1), "replayed", "owed")
			wantText(t, g.Chat(cc()), number(1), "replayed", "owed")
			wantText(t, g.Chat(cc()), number(2), "executed", "")
			wantCalls(t, u, 2)
		})
	}
}

// A client that left is owed the answer while the call still runs, too.
func TestDebtIsTakenInFlight(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "retries"})
	a := g.Go(harness.Chat, cc())
	u.Call(1)
	a.Leave()
	again := g.Go(harness.Chat, cc())
	following(t, g, 1)
	close(gate)
	wantText(t, again.Answer(), number(1), "coalesced", "owed")
	wantText(t, g.Chat(cc()), number(2), "executed", "")
	wantCalls(t, u, 2)
}

// A delivered answer is owed to nobody: 'regenerate' regenerates.
func TestDeliveredAnswerIsNotOwed(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		if c.Field("stream").Bool() {
			return up.SSE(up.Chunk(number(c.N)), up.Finish(), up.Done)
		}
		return echo(c)
	})
	g := harness.Start(t, u.URL())
	for i := 1; i <= 3; i++ {
		wantText(t, g.Chat(cc()), number(i), "executed", "")
	}
	for i := 4; i <= 6; i++ {
		// A connection of its own that closes right after [DONE], as SDKs do.
		s := g.Open(harness.Chat, cc(stream))
		for s.Next() != up.Done {
		}
		s.Close()
		if want := number(i); words(harness.Data(s.Raw())) != want {
			t.Errorf("got %q, want %q", s.Raw(), want)
		}
	}
	wantCalls(t, u, 6)
}

// A stream that was cut on the way is owed from its beginning.
func TestDebtOfAStream(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		return up.Seq(up.Open(), up.Events(up.Chunk(number(c.N))), up.Gate(gate), up.Events(up.Chunk(" end"), up.Finish(), up.Done))
	})
	g := harness.Start(t, u.URL())
	s := g.Open(harness.Chat, cc(stream))
	s.Next()
	s.Leave()
	close(gate)
	settled(t, g, 1)
	a := g.Chat(cc(stream))
	wantOutcome(t, a, 200, "replayed", "owed")
	if got := words(harness.Data(a.Body)); got != number(1)+" end" {
		t.Errorf("got %q", got)
	}
	a = g.Chat(cc(stream))
	wantOutcome(t, a, 200, "executed", "")
	wantCalls(t, u, 2)
}

// Debts count for dedupe.owed only.
func TestDebtsExpire(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.owed": "700ms"})
	p := g.Go(harness.Chat, cc())
	u.Call(1)
	p.Leave()
	left := time.Now()
	close(gate)
	settled(t, g, 1)
	<-time.After(time.Until(left.Add(1500 * time.Millisecond))) // the debt's life is the scenario
	wantText(t, g.Chat(cc()), number(2), "executed", "")
}

func TestNonceAndUserEnterDerivedKeys(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always"})
	lines := [][]string{
		nil,
		{"Oncegate-Nonce: 1"}, {"Oncegate-Nonce: 2"},
		{"Oncegate-User: 1"}, {"Oncegate-User: 2"},
		{"Oncegate-User: 1", "Oncegate-Nonce: 2"}, {"Oncegate-User: 2", "Oncegate-Nonce: 1"},
		{"Oncegate-User: 12"}, {"Oncegate-Nonce: 12"},
		{"anthropic-beta: 1"}, {"openai-beta: 1"}, {"anthropic-version: 1"},
	}
	for i, l := range lines {
		wantText(t, g.Chat(cc(), l...), number(i+1), "executed", "")
	}
	for i, l := range lines {
		wantText(t, g.Chat(cc(), l...), number(i+1), "replayed", "within_ttl")
	}
	wantCalls(t, u, len(lines))
}

// What dedupe.ignore lists is forwarded, and does not count.
func TestIgnoredMembers(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.mode": "always", "dedupe.ignore": []any{"/metadata/trace_id"}})
	wantText(t, g.Chat(cc(`"metadata":{"trace_id":"a","team":"x"}`)), number(1), "executed", "")
	wantText(t, g.Chat(cc(`"metadata":{"trace_id":"b","team":"x"}`)), number(1), "replayed", "within_ttl")
	wantText(t, g.Chat(cc(`"metadata":{"trace_id":"a","team":"y"}`)), number(2), "executed", "")
	if got := u.Call(1).Field("metadata.trace_id").String(); got != "a" {
		t.Errorf("trace_id came upstream as %q", got)
	}
}

func TestTTLByHeader(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.ttl.max": "3s"})
	for _, c := range []struct{ ttl, name string }{{"1s", "shorter"}, {"1h", "over the maximum"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body, lines := said(c.name), []string{"Idempotency-Key: " + c.ttl, "Oncegate-TTL: " + c.ttl}
			begun := time.Now()
			first := g.Chat(body, lines...)
			wantOutcome(t, first, 200, "executed", "")
			wantText(t, g.Chat(body, lines...), first.Text(), "replayed", "key")
			var a *harness.Answer
			harness.Eventually(t, 8*time.Second, "the record ends", func() bool {
				a = g.Chat(body, lines...)
				return a.Outcome() != "replayed"
			})
			wantOutcome(t, a, 200, "executed", "")
			least := time.Second
			if c.ttl == "1h" {
				least = 3 * time.Second
			}
			if d := time.Since(begun); d < least-50*time.Millisecond || d > least+3*time.Second {
				t.Errorf("it was kept for %v, want %v", d, least)
			}
		})
	}
}

// Several images or voices of one prompt are asked for by equal requests at
// once.
func TestImagesAndSpeechDefaultToRetries(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct{ body, answer, typ string }{
		"/v1/images/generations": {`{"model":"m1","prompt":"a cat"}`, `{"created":1,"data":[{"b64_json":"aGk="}]}`, "application/json"},
		"/v1/audio/speech":       {`{"model":"m1","input":"hi","voice":"a"}`, "RIFF\x00\x01", "audio/wav"},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			u := up.New(t, up.Seq(up.Gate(gate), up.Status(200, c.answer, "Content-Type: "+c.typ)))
			g := harness.Start(t, u.URL())
			a := g.Go(path, c.body)
			u.Call(1)
			b := g.Go(path, c.body)
			u.Call(2)
			joined := g.Go(path, c.body, marks[0])
			following(t, g, 1)
			asked := g.Go(path, c.body, mode("duplicates"))
			following(t, g, 2)
			close(gate)
			for _, p := range []*harness.Pending{a, b} {
				wantOutcome(t, p.Answer(), 200, "executed", "")
			}
			got := joined.Answer()
			wantOutcome(t, got, 200, "coalesced", "retry_marked")
			if got.Body != c.answer || got.Header.Get("Content-Type") != c.typ {
				t.Errorf("the joined one got %q %q", got.Header.Get("Content-Type"), got.Body)
			}
			wantOutcome(t, asked.Answer(), 200, "coalesced", "twin")
			wantCalls(t, u, 2)
		})
	}
}

func TestExplicitKey(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(echoAfter(gate))
	g := harness.Start(t, u.URL(), harness.Keys())
	k1, k2 := harness.Bearer(harness.K1), harness.Bearer(harness.K2)
	a := g.Go(harness.Chat, cc(), k1, "Idempotency-Key: abc")
	u.Call(1)
	b := g.Go(harness.Chat, cc(), k1, `Idempotency-Key: "abc"; v=1`) // the same key, as a quoted string
	following(t, g, 1)
	c := g.Go(harness.Chat, cc(), k1, "Idempotency-Key: abc", mode("off")) // modes are for derived keys
	following(t, g, 2)
	close(gate)
	first := a.Answer()
	wantText(t, first, number(1), "executed", "")
	wantText(t, b.Answer(), number(1), "coalesced", "key")
	wantText(t, c.Answer(), number(1), "coalesced", "key")
	again := g.Chat(cc(), k1, "Idempotency-Key: abc")
	wantText(t, again, number(1), "replayed", "key")
	if again.Body != first.Body || again.Header.Get("Oncegate-Key") != first.Header.Get("Oncegate-Key") {
		t.Errorf("the replay differs: %q %q", again.Body, first.Body)
	}
	// Member order and white space are no other params.
	wantText(t, g.Chat(`{ "messages": [{"content":"hi", "role":"user"}],  "model":"m1" }`, k1, "Idempotency-Key: abc"), number(1), "replayed", "key")
	wantText(t, g.Chat(cc(), k1, "Idempotency-Key: abC"), number(2), "executed", "")
	wantText(t, g.Chat(cc(), k2, "Idempotency-Key: abc"), number(3), "executed", "")
	for _, c := range u.Calls() {
		if c.Get("Idempotency-Key") != "" {
			t.Errorf("the client's key went upstream: %s", c.Head)
		}
	}
	wantCalls(t, u, 3)
}

func TestExplicitKeyOfAStream(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(
		up.Open("x-request-id: req_1"), up.Bytes(": hello\n\n"), up.Events(up.Role(), up.Chunk("a")),
		up.Gate(gate), up.Events(up.Chunk("b"), up.Finish(), up.Usage(5, 2), up.Done)))
	g := harness.Start(t, u.URL())
	body := cc(stream, `"stream_options":{"include_usage":true}`)
	live := g.Open(harness.Chat, body, "Idempotency-Key: s1")
	live.Next()
	joined := g.Open(harness.Chat, body, "Idempotency-Key: s1")
	joined.Next() // the beginning is there while the call runs
	if o := joined.Header.Get("Oncegate-Outcome"); o != "coalesced" {
		t.Errorf("outcome %q", o)
	}
	close(gate)
	live.Rest()
	joined.Rest()
	replay := g.Chat(body, "Idempotency-Key: s1")
	wantOutcome(t, replay, 200, "replayed", "key")
	if ct := replay.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("Content-Type %q", ct)
	}
	want := harness.Data(live.Raw())
	if words(want) != "ab" || want[len(want)-1] != up.Done {
		t.Errorf("the live one got %q", live.Raw())
	}
	if joined.Raw() != live.Raw() || replay.Body != live.Raw() {
		t.Errorf("they differ:\nlive   %q\njoined %q\nreplay %q", live.Raw(), joined.Raw(), replay.Body)
	}
	if !live.Clean() || !joined.Clean() {
		t.Errorf("ends: %v, %v", live.End(), joined.End())
	}
	wantCalls(t, u, 1)
}

// An abandoned stream goes on for a while, for its retry to attach.
func TestLinger(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Gate(gate), up.Events(up.Chunk("b"), up.Finish(), up.Done)))
	g := harness.Start(t, u.URL())
	s := g.Open(harness.Chat, cc(stream))
	s.Next()
	s.Leave()
	again := g.Open(harness.Chat, cc(stream))
	if got := again.Next(); content(got) != "a" {
		t.Errorf("the retry does not get the beginning: %q", got)
	}
	if o, r := again.Header.Get("Oncegate-Outcome"), again.Header.Get("Oncegate-Reason"); o != "coalesced" || r != "owed" {
		t.Errorf("outcome %q, reason %q", o, r)
	}
	close(gate)
	if got := "a" + words(again.Rest()); got != "ab" {
		t.Errorf("the retry got %q", got)
	}
	wantCalls(t, u, 1)
}

func TestLingerEnds(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Seq(up.Open(), up.Events(up.Chunk("a")), up.Hang(time.Minute)))
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.linger": "700ms"})
	s := g.Open(harness.Chat, cc(stream))
	s.Next()
	s.Close()
	left := time.Now()
	if !u.Call(1).Left(4 * time.Second) {
		t.Fatal("the upstream was not let go")
	}
	if d := time.Since(left); d < 600*time.Millisecond {
		t.Errorf("it was let go after %v, before the linger's end", d)
	}
	again := g.Open(harness.Chat, cc(stream))
	again.Next()
	if o := again.Header.Get("Oncegate-Outcome"); o != "executed" {
		t.Errorf("a stream that was cut short answers a repeat: %q", o)
	}
	wantCalls(t, u, 2)
}

// The longer the input, the longer its record: base x floor(bytes/scale).
func TestTTLGrowsWithTheInput(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(echo)
	g := harness.Start(t, u.URL(), harness.Config{"dedupe.ttl": harness.Map{"chat": "1s", "long": "1s", "scale_bytes": 1000}})
	long := fmt.Sprintf("%05000d", 1)
	lines := []string{"Idempotency-Key: long"}
	begun := time.Now()
	wantText(t, g.Chat(said(long), lines...), number(1), "executed", "")
	harness.Eventually(t, 12*time.Second, "the record ends", func() bool { return g.Chat(said(long), lines...).Outcome() == "executed" })
	if d := time.Since(begun); d < 4900*time.Millisecond || d > 8*time.Second {
		t.Errorf("a record of 5 KB at a scale of 1 KB and a base of 1 s was kept for %v", d)
	}
}
