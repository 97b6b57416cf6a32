package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// restarts are what a write goes through when its process ends, on one node of
// any store. dead is how long a dead process's calls may look alive.
var restarts = map[string]func(t *testing.T, u *up.Server, g *harness.Gateway, dead time.Duration){
	"its client has left": writeIsAbandoned,
	"it is killed":        writeIsKilled,
	"it is stopped":       writesAreDrained,
}

func TestWritesRestart(t *testing.T) {
	t.Parallel()
	for name, run := range restarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			run(t, u, harness.Start(t, u.URL(), paying(u, patient)), 0)
		})
	}
}

func TestNodesWritesRestart(t *testing.T) {
	t.Parallel()
	for name, run := range restarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			run(t, u, harness.Start(t, u.URL(), payer(u, redistest.Start(t).URL())...), takeover)
		})
	}
}

// writeIsAbandoned: a client that leaves ends its waiting, not the write.
func writeIsAbandoned(t *testing.T, u *up.Server, g *harness.Gateway, _ time.Duration) {
	t.Helper()
	gate := make(chan struct{})
	u.Choose(paidAfter(gate))
	p := charges(g, "k")
	u.Call(1)
	p.Leave()
	if u.Call(1).Left(300 * time.Millisecond) {
		t.Fatal("the upstream's connection was closed")
	}
	close(gate)
	wantPaid(t, soon(t, 5*time.Second, g, "k", 201, 409), 1, "replayed")
	for name, restart := range map[string]func(){"a stop": g.Stop, "a crash": g.Kill9} {
		restart()
		g.Restart()
		ans := charge(g, "k")
		wantPaid(t, ans, 1, "replayed")
		if ans.Header.Get("Age") == "" {
			t.Errorf("after %s there is no Age", name)
		}
	}
	wantWrites(t, u, 1, g)
}

// writeIsKilled: what was dispatched when its process was killed is unknown,
// and what was only claimed is free.
func writeIsKilled(t *testing.T, u *up.Server, g *harness.Gateway, dead time.Duration) {
	t.Helper()
	gate := make(chan struct{})
	defer close(gate)
	u.Choose(func(c *up.Call) up.Step {
		switch key := c.Field("ref").String(); {
		case key == "dispatched":
			return up.Seq(up.Gate(gate), paid(c))
		case key == "claimed" && c.N == 3:
			return up.Fail(429, "later", "Retry-After: 5")
		}
		return paid(c)
	})
	wantPaid(t, charge(g, "settled"), 1, "executed")
	charges(g, "dispatched")
	u.Call(2)
	charges(g, "claimed")
	u.Call(3)
	claimed(t, g)
	g.Kill9()
	g.Restart()
	if dead == 0 { // at once: one process has the store
		want424(t, charge(g, "dispatched", noWait))
	} else {
		want424(t, soon(t, dead, g, "dispatched", 424, 409))
	}
	wantPaid(t, charge(g, "settled"), 1, "replayed")
	if dead == 0 {
		wantPaid(t, charge(g, "claimed", noWait), 4, "executed")
	} else {
		wantPaid(t, soon(t, dead, g, "claimed", 201, 409), 4, "executed")
	}
	g.Kill9()
	g.Restart()
	ans := charge(g, "dispatched")
	want424(t, ans)
	wantListed(t, g, ans.Header.Get("Oncegate-Key"))
	wantPaid(t, charge(g, "claimed"), 4, "replayed")
	wantWrites(t, u, 4, g)
}

// writesAreDrained: a process that is asked to stop brings its writes home.
func writesAreDrained(t *testing.T, u *up.Server, g *harness.Gateway, _ time.Duration) {
	t.Helper()
	const writes = 5
	gate := make(chan struct{})
	u.Choose(paidAfter(gate))
	var all []*harness.Pending
	for i := range writes {
		all = append(all, charges(g, fmt.Sprint("k-", i)))
		u.Call(i + 1)
	}
	all[writes-1].Leave()
	g.Term()
	harness.Eventually(t, 5*time.Second, "the drain", func() bool {
		a := g.Try("GET", "/readyz", "")
		return a.Err != nil || a.Status == 503
	})
	close(gate)
	for i, p := range all[:writes-1] {
		wantPaid(t, p.Answer(), i+1, "executed")
	}
	if code := g.Exit(10 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	g.Restart()
	for i := range all {
		wantPaid(t, charge(g, fmt.Sprint("k-", i)), i+1, "replayed")
	}
	wantWrites(t, u, writes, g)
	wantListed(t, g)
}

// A write that outlasts the grace is unknown to the next process.
func TestWritesBeyondTheGrace(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Hang(time.Minute), up.Status(201, payment(2)))
	g := harness.Start(t, u.URL(), paying(u, patient), harness.Config{"server.shutdown_grace": "1s"})
	p := charges(g, "k")
	u.Call(1)
	g.Term()
	asked := time.Now()
	if a := p.Result(); a.Err == nil && a.Status != 424 {
		t.Errorf("its client got %d %s", a.Status, a.Body)
	}
	g.Exit(5 * time.Second)
	if d := time.Since(asked); d < 900*time.Millisecond {
		t.Errorf("it ended after %v, the grace is 1 s", d)
	}
	g.Restart()
	ans := charge(g, "k")
	want424(t, ans)
	wantListed(t, g, ans.Header.Get("Oncegate-Key"))
	wantWrites(t, u, 1, g)
}

// B072: a crash with a write in flight is never a silent second run, and names
// the way out.
func TestWritesB072CrashInFlight(t *testing.T) {
	t.Parallel()
	u := up.New(t, up.Hang(30*time.Second), up.Status(201, payment(2)))
	g := harness.Start(t, u.URL(), paying(u, patient))
	charges(g, "k")
	u.Call(1)
	g.Kill9()
	g.Restart()
	ans := charge(g, "k")
	want424(t, ans)
	if !strings.Contains(ans.Body, "records") {
		t.Errorf("the way to resolve it is not told: %s", ans.Body)
	}
	<-time.After(lease + 200*time.Millisecond)
	want424(t, charge(g, "k"))
	wantWrites(t, u, 1, g)
	key := ans.Header.Get("Oncegate-Key")
	wantListed(t, g, key)
	if out := recordsCommand(t, g, "show", key); !strings.Contains(out, key) || !strings.Contains(out, "unknown") {
		t.Errorf("shown is %s", out)
	}
	recordsCommand(t, g, "resolve", key, "--as", "not-executed", "--reason", "it never got there")
	wantListed(t, g)
	wantPaid(t, charge(g, "k"), 2, "executed")
	wantWrites(t, u, 2, g)
}

// A probe that finds what was done settles what a crash left unknown; one that
// does not find it says nothing.
func TestWritesProbeAfterKill(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(knowsByRef)
	g := harness.Start(t, u.URL(), paying(u, patient, findable))
	for i, key := range []string{"found", "not-found"} {
		charges(g, key)
		u.Call(i + 1)
	}
	g.Kill9()
	g.Restart()
	wantFound(t, soon(t, 10*time.Second, g, "found", 200, 424))
	lost := charge(g, "not-found")
	want424(t, lost)
	wantListed(t, g, lost.Header.Get("Oncegate-Key"))
	wantWrites(t, u, 2, g)
}

// findable has the tool ask the upstream of knowsByRef for what nobody knows.
var findable = harness.Map{"probe": harness.Map{"get": "/v1/payments?ref={/ref}", "executed": "/data/0"}}

// knowsByRef never answers a write, and knows that "found" was done.
func knowsByRef(c *up.Call) up.Step {
	switch {
	case c.Method != "GET":
		return up.Hang(30 * time.Second)
	case strings.HasSuffix(c.Target, "?ref=found"):
		return up.Status(200, `{"data":[{"id":"pay_found"}]}`)
	}
	return up.Status(200, `{"data":[]}`)
}

// wantFound says that an answer should be what the probe found.
func wantFound(t *testing.T, a *harness.Answer) {
	t.Helper()
	id := gjson.Get(a.Body, "data.0.id").String() + gjson.Get(a.Body, "id").String()
	if a.Status != 200 || a.Outcome() != "replayed" || id != "pay_found" {
		t.Errorf("the probe settled it as %d %s %s", a.Status, a.Outcome(), a.Body)
	}
}
