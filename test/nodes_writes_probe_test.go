package test

import (
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// probing configures payments that can be asked for, whose absence is believed
// after a while. An attempt lasts six seconds at most, of which its caller waits
// for a part of one.
func probing(u *up.Server, absentAfter string) harness.Config {
	return paying(u, patient, harness.Map{
		"probe":  harness.Map{"get": "/v1/payments?ref={/ref}", "executed": "/data/0", "absent_after": absentAfter},
		"policy": harness.Map{"timeouts": harness.Map{"first_byte": "300ms", "total": "6s"}},
	})
}

// posts are the calls that would pay, and probes those that ask.
func posts(u *up.Server) (posts, probes int) {
	for _, c := range u.Calls() {
		if c.Method == "POST" {
			posts++
		} else {
			probes++
		}
	}
	return posts, probes
}

// What another node sent may still reach the API, for as long as an attempt
// lasts: that it is not there yet is not believed until then.
func TestNodesProbeWhileAnAttemptIsOpen(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	arrives := make(chan struct{})
	u.Choose(func(c *up.Call) up.Step {
		if c.Method == "GET" {
			return up.Status(200, `{"data":[]}`)
		}
		return up.Seq(up.Gate(arrives), up.Status(201, payment(1)))
	})
	_, a, b := nodes(t, u, probing(u, "1ms"))
	if first := charge(a, "k"); first.Status != 424 {
		t.Fatalf("%d %s", first.Status, first.Body)
	}
	_, before := posts(u)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		if ans := charge(b, "k", noWait); ans.Status != 424 {
			t.Fatalf("the other node: %d %s", ans.Status, ans.Body)
		}
	}
	if paid, asked := posts(u); paid != 1 || asked < before+2 {
		t.Errorf("%d payments were sent, and it was asked %d times", paid, asked-before)
	}
	close(arrives)
	wantPaid(t, soon(t, harness.Patience, b, "k", 201, 424), 1, "replayed")
	if paid, _ := posts(u); paid != 1 {
		t.Errorf("%d payments were sent", paid)
	}
}

// Past that it is: whoever asks.
func TestNodesProbeBelievesAbsence(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	came, dead := make(chan struct{}), make(chan struct{})
	u.Choose(func(c *up.Call) up.Step {
		paid, _ := posts(u)
		switch {
		case c.Method == "GET":
			return up.Status(200, `{"data":[]}`)
		case paid == 1:
			close(came)
			return up.Seq(up.Gate(dead), up.Cut)
		}
		return up.Status(201, payment(2))
	})
	_, a, b := nodes(t, u, probing(u, "1ms"))
	begun := time.Now()
	charges(a, "k")
	<-came
	a.Kill9()
	close(dead)
	wantPaid(t, soon(t, 4*harness.Patience, b, "k", 201, 424, 409), 2, "executed")
	if d := time.Since(begun); d < 6*time.Second {
		t.Errorf("another node believed it after %v", d)
	}
}

// How long an outcome has been unknown is told by one clock.
func TestNodesProbeClocks(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	clock.Pass(-10 * time.Minute)
	url := clock.Start().URL()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		if c.Method == "GET" {
			return up.Status(200, `{"data":[]}`)
		}
		return up.Cut
	})
	a, b := pair(t, u, url, probing(u, "1m"))
	for _, g := range []*harness.Gateway{a, b} {
		harness.Eventually(t, harness.Patience, "it is asked for", func() bool {
			if ans := charge(g, "k", noWait); ans.Status != 424 {
				t.Fatalf("%d %s", ans.Status, ans.Body)
			}
			_, asked := posts(u)
			return asked >= 3
		})
	}
	if paid, _ := posts(u); paid != 1 {
		t.Errorf("%d payments were sent", paid)
	}
}
