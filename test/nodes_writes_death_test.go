package test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// A leader that stands still past its lease after it dispatched: nobody else
// runs the write, and its late result is welcome.
func TestNodesWritesLeaderIsStopped(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"the answer comes after it woke": false, "the answer waits for it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			a, b := pair(t, u, redistest.Start(t).URL(), paying(u, patient))
			leaderOfWriteIsStopped(t, u, a, b, answered)
		})
	}
	// What it then hears is that nothing was done: that frees the record, and
	// its next attempt is one that the store knows of.
	t.Run("it was turned away", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(func(c *up.Call) up.Step {
			if c.N == 1 {
				return up.Seq(up.Gate(gate), up.Fail(429, "later", "Retry-After: 1"))
			}
			return paid(c)
		})
		a, b := pair(t, u, redistest.Start(t).URL(), paying(u, patient))
		first := charges(a, "k")
		u.Call(1)
		a.Pause()
		soon(t, takeover, b, "k", 424, 409)
		close(gate)
		a.Continue()
		wantPaid(t, first.Answer(), 2, "executed")
		for _, g := range []*harness.Gateway{b, a} {
			wantPaid(t, charge(g, "k"), 2, "replayed")
			wantListed(t, g)
		}
		wantWrites(t, u, 2, a, b)
	})
	// Who runs it again knowingly has the newer claim: the late result of the
	// older one changes nothing.
	t.Run("another runs it again, knowingly", func(t *testing.T) {
		t.Parallel()
		gate := make(chan struct{})
		u := up.New(t)
		u.Choose(func(c *up.Call) up.Step {
			if c.N == 1 {
				return up.Seq(up.Gate(gate), paid(c))
			}
			return paid(c)
		})
		a, b := pair(t, u, redistest.Start(t).URL(), paying(u, patient))
		first := charges(a, "k")
		u.Call(1)
		a.Pause()
		soon(t, takeover, b, "k", 424, 409)
		wantPaid(t, charge(b, "k", "Oncegate-Retry-Unknown: 1"), 2, "executed")
		a.Continue()
		close(gate)
		if ans := first.Answer(); ans.Status == 201 && ans.Body != payment(1) && ans.Body != payment(2) {
			t.Errorf("the woken one's client got %d %s", ans.Status, ans.Body)
		}
		idle(t, a)
		for _, g := range []*harness.Gateway{b, a} {
			ans := charge(g, "k")
			wantPaid(t, ans, 2, "replayed")
			if events := record(t, g, ans.Header.Get("Oncegate-Key")).Get("events").Array(); len(events) < 4 {
				t.Errorf("its events are %v", events)
			}
		}
		wantWrites(t, u, 2, a, b)
	})
}

func leaderOfWriteIsStopped(t *testing.T, u *up.Server, a, b *harness.Gateway, answered bool) {
	t.Helper()
	key, before, gate := "stopped", u.N(), make(chan struct{})
	u.Choose(paidAfter(gate))
	first := charges(a, key)
	u.Call(before + 1)
	waiting := charges(b, key)
	following(t, b, 1)
	a.Pause()
	begun := time.Now()
	inFlight.head(t, charge(b, key, noWait))
	unknown := soon(t, takeover, b, key, 424, 409)
	want424(t, unknown)
	if d := time.Since(begun); d < lease*2/3-100*time.Millisecond { // it is renewed each third of it
		t.Errorf("unknown after %v, the lease is %v", d, lease)
	}
	want424(t, waiting.Answer())
	if d := time.Since(begun); d > takeover {
		t.Errorf("who followed it knew after %v", d)
	}
	ans := charge(b, key)
	want424(t, ans)
	if ans.Took > time.Second {
		t.Errorf("unknown to a later one after %v", ans.Took)
	}
	wantListed(t, b, unknown.Header.Get("Oncegate-Key"))
	if answered {
		close(gate)
	}
	a.Continue()
	if !answered {
		close(gate)
	}
	wantPaid(t, first.Answer(), before+1, "executed")
	wantPaid(t, soon(t, 5*time.Second, b, key, 201, 424), before+1, "replayed")
	wantPaid(t, charge(a, key), before+1, "replayed")
	wantListed(t, b)
	wantWrites(t, u, before+1, a, b)
}

// ofStep chooses the commands that take one of the engine's steps of a write,
// which a server must have taken once before.
func ofStep(t *testing.T, name string) func(command []byte) bool {
	t.Helper()
	var text []byte
	for _, file := range []string{"preamble", "write_preamble", "write_" + name} {
		part, err := os.ReadFile(filepath.Join("..", "cache", "redis", "lua", file+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	sum := sha1.Sum(text) // which a script is run by
	hash := hex.EncodeToString(sum[:])
	return func(command []byte) bool { return strings.Contains(string(command), hash) }
}

// wait waits until something was held.
func wait(t *testing.T, came <-chan struct{}) {
	t.Helper()
	select {
	case <-came:
	case <-time.After(10 * time.Second):
		t.Fatal("what was to be held never came")
	}
}

// behind starts a node whose way to the server can be disturbed, and one whose
// can't. The first has made a payment with the key "warm".
func behind(t *testing.T, u *up.Server, r *redistest.Server) (way *redistest.Proxy, a, b *harness.Gateway) {
	t.Helper()
	u.Choose(paid)
	way = redistest.NewProxy(t, r.Addr)
	a = harness.Start(t, u.URL(), payer(u, "redis://"+way.Addr)...)
	b = harness.Start(t, u.URL(), payer(u, r.URL())...)
	wantPaid(t, soon(t, 10*time.Second, a, "warm", 201, 503), 1, "executed")
	return way, a, b
}

// A leader that stands still past its lease before it dispatched: another runs
// the write, and when the first wakes, it sends nothing.
func TestNodesWritesLeaderIsStoppedBeforeDispatch(t *testing.T) {
	t.Parallel()
	t.Run("on its way to the store", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		way, a, b := behind(t, u, redistest.Start(t))
		came, release := way.Hold(false, ofStep(t, "dispatch"))
		first := charges(a, "k")
		wait(t, came)
		a.Pause()
		inFlight.head(t, charge(b, "k", noWait))
		wantPaid(t, soon(t, takeover, b, "k", 201, 409), 2, "executed")
		release()
		a.Continue()
		sentNothing(t, first.Answer(), 2)
		idle(t, a)
		for _, g := range []*harness.Gateway{a, b} {
			wantPaid(t, charge(g, "k"), 2, "replayed")
		}
		wantWrites(t, u, 2, a, b)
	})
	// Between two attempts, the first of which the upstream turned away, a
	// write is claimed, not dispatched.
	t.Run("between two attempts", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		u.Choose(turnedAwayFirst)
		a, b := pair(t, u, redistest.Start(t).URL(), paying(u, patient))
		first := charges(a, "k")
		u.Call(1)
		claimed(t, a)
		a.Pause()
		wantPaid(t, soon(t, takeover, b, "k", 201, 409), 2, "executed")
		<-time.After(time.Until(u.Call(1).At.Add(turnedAway + 200*time.Millisecond))) // its next attempt is due
		a.Continue()
		sentNothing(t, first.Answer(), 2)
		idle(t, a)
		for _, g := range []*harness.Gateway{a, b} {
			wantPaid(t, charge(g, "k"), 2, "replayed")
		}
		wantWrites(t, u, 2, a, b)
	})
	t.Run("and is killed there", func(t *testing.T) {
		t.Parallel()
		u := up.New(t)
		way, a, b := behind(t, u, redistest.Start(t))
		came, release := way.Hold(false, ofStep(t, "dispatch"))
		charges(a, "k")
		wait(t, came)
		a.Kill9()
		way.Cut() // so that what was on its way never arrives
		release()
		wantPaid(t, soon(t, takeover, b, "k", 201, 409), 2, "executed")
		a.Restart()
		wantPaid(t, charge(a, "k"), 2, "replayed")
		wantWrites(t, u, 2, a, b)
	})
}

// turnedAway is how long turnedAwayFirst has its caller wait.
const turnedAway = 3 * time.Second

// turnedAwayFirst answers the first call that it should come again later.
func turnedAwayFirst(c *up.Call) up.Step {
	if c.N == 1 {
		return up.Fail(429, "later", fmt.Sprintf("Retry-After: %d", int(turnedAway.Seconds())))
	}
	return paid(c)
}

// claimed waits until a gateway's one write is claimed and not dispatched.
func claimed(t *testing.T, g *harness.Gateway) {
	t.Helper()
	harness.Eventually(t, time.Second, "it waits for its next attempt", func() bool { return len(recordsIn(t, g, "claimed", 10)) == 1 })
}

// sentNothing holds the answer of a node whose claim was taken over before it
// dispatched: it is the other's, or none.
func sentNothing(t *testing.T, a *harness.Answer, n int) {
	t.Helper()
	switch a.Status {
	case 201:
		if a.Outcome() == "executed" || a.Body != payment(n) {
			t.Errorf("the woken one's client got %d %s %s", a.Status, a.Outcome(), a.Body)
		}
	case 409, 503:
		if retry := a.Header.Get("X-Should-Retry"); retry != "true" {
			t.Errorf("%d with x-should-retry %q: %s", a.Status, retry, a.Body)
		}
	default:
		t.Errorf("the woken one's client got %d %s", a.Status, a.Body)
	}
}

// The process is killed while the upstream works: whoever asks is told that
// nobody knows, for as long as it takes, and nothing runs it again.
func TestNodesWritesLeaderIsKilled(t *testing.T) {
	t.Parallel()
	for name, followed := range map[string]bool{"followed": true, "not followed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			a, b := pair(t, u, redistest.Start(t).URL(), paying(u, patient))
			u.Script(up.Hang(30 * time.Second))
			charges(a, "k")
			u.Call(1)
			var waiting *harness.Pending
			if followed {
				waiting = charges(b, "k")
				following(t, b, 1)
			}
			a.Kill9()
			begun := time.Now()
			inFlight.head(t, charge(b, "k", noWait))
			if followed {
				a.Restart() // whose it was can't be told from one that is slow
				want424(t, waiting.Answer())
				if d := time.Since(begun); d > takeover+3*time.Second {
					t.Errorf("who followed it knew after %v", d)
				}
			} else { // by who asks next, and first after the lease
				<-time.After(time.Until(begun.Add(lease + 10*time.Millisecond)))
				want424(t, charge(b, "k"))
				a.Restart()
			}
			for _, g := range []*harness.Gateway{a, b, a} {
				ans := charge(g, "k")
				want424(t, ans)
				wantListed(t, g, ans.Header.Get("Oncegate-Key"))
			}
			wantWrites(t, u, 1, a, b)
		})
	}
}

// B072 with a clock: what nobody knows stays so, through retention and
// restart, until somebody says how it ended.
func TestNodesWritesB072StaysUnknown(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	r := clock.Start(durable...)
	u := up.New(t)
	g := harness.Start(t, u.URL(), payer(u, r.URL())...)
	u.Script(up.Hang(30*time.Second), up.Status(201, payment(2)))
	charges(g, "k")
	u.Call(1)
	g.Kill9()
	g.Restart()
	ans := soon(t, takeover, g, "k", 424, 409)
	for _, d := range []time.Duration{10 * time.Minute, 24 * time.Hour, 10 * 24 * time.Hour} {
		clock.Pass(d)
		want424(t, charge(g, "k"))
	}
	r.Restart()
	want424(t, soon(t, 10*time.Second, g, "k", 424, 503))
	wantListed(t, g, ans.Header.Get("Oncegate-Key"))
	wantWrites(t, u, 1, g)
	recordsCommand(t, g, "resolve", ans.Header.Get("Oncegate-Key"), "--as", "not-executed", "--reason", "the bank says so")
	wantPaid(t, charge(g, "k"), 2, "executed")
	wantPaid(t, charge(g, "k"), 2, "replayed")
	wantWrites(t, u, 2, g)
}

// What the upstream can be asked for settles what nobody knew.
func TestNodesWritesProbeAfterKill(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(knowsByRef)
	a, b := pair(t, u, redistest.Start(t).URL(), paying(u, patient, findable))
	for i, key := range []string{"found", "not-found"} {
		charges(a, key)
		u.Call(i + 1)
	}
	a.Kill9()
	soon(t, takeover, b, "not-found", 424, 409)
	wantFound(t, soon(t, 10*time.Second, b, "found", 200, 409, 424))
	a.Restart()
	wantFound(t, charge(a, "found"))
	lost := charge(a, "not-found")
	want424(t, lost)
	wantListed(t, a, lost.Header.Get("Oncegate-Key"))
	wantWrites(t, u, 2, a, b)
}
