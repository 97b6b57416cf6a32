package test

import (
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

const storePassword = "pw-store-Tq8Zr4Wn"

// durable are the settings of a server that keeps each command on disk before it
// answers, and is kept when it is killed.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// outage is a way for a store to be away, for all of its clients.
type outage struct {
	settings   []string // of the server
	away, back func(*redistest.Server)
	why        string // in the log
	loses      bool   // what it kept is gone afterwards
}

func outages(t *testing.T) map[string]outage {
	t.Helper()
	anothers := dumpOfAnother(t)
	dump := func(r *redistest.Server) string { return filepath.Join(r.Dir, "dump.rdb") }
	return map[string]outage{
		"refused": {
			settings: durable,
			away:     (*redistest.Server).Kill,
			back:     func(r *redistest.Server) { r.Restart() },
			why:      "connection refused",
		},
		"hanging": {away: (*redistest.Server).Pause, back: (*redistest.Server).Continue, why: "time"},
		"another password": {
			settings: append([]string{"--requirepass", storePassword}, durable...),
			away:     func(r *redistest.Server) { r.Restart("--requirepass", "another") },
			back:     func(r *redistest.Server) { r.Restart("--requirepass", storePassword) },
			why:      "WRONGPASS",
		},
		"another secret": {
			away: func(r *redistest.Server) {
				r.Kill()
				if err := os.WriteFile(dump(r), anothers, 0o600); err != nil {
					t.Error(err)
				}
				r.Restart()
			},
			back: func(r *redistest.Server) {
				r.Kill()
				if err := os.Remove(dump(r)); err != nil {
					t.Error(err)
				}
				r.Restart()
			},
			why:   "store.secret",
			loses: true,
		},
		"out of memory": {
			away: func(r *redistest.Server) { r.Do("CONFIG", "SET", "maxmemory", "1") },
			back: func(r *redistest.Server) { r.Do("CONFIG", "SET", "maxmemory", "0") },
			why:  "OOM",
		},
		"read-only": {
			away: func(r *redistest.Server) { r.Do("REPLICAOF", "127.0.0.1", "1") },
			back: func(r *redistest.Server) { r.Do("REPLICAOF", "NO", "ONE") },
			why:  "READONLY",
		},
		"loading": {
			settings: []string{"--enable-debug-command", "yes"},
			away: func(r *redistest.Server) {
				r.Do("DEBUG", "POPULATE", 60000)
				r.Do("SAVE")
				r.Restart("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024") // us a key
			},
			back: func(r *redistest.Server) { r.Do("CONFIG", "SET", "key-load-delay", "0") },
			why:  "LOADING",
		},
	}
}

// A store that is away leaves completions unprotected, and nothing more; they
// are protected again by themselves once it is back. B077: none of its errors
// is a verdict.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	for name, c := range outages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			r := redistest.Start(t, c.settings...)
			a, b := pair(t, u, r.URL())
			wantText(t, a.Chat(said("before")), "hello", "executed", "")

			c.away(r)
			// Three failures in a row show that it is away: each is a second at most.
			for i := range 3 {
				ans := a.Chat(said(fmt.Sprint("away ", i)))
				wantText(t, ans, "hello", "bypassed", "store_away")
				if ans.Took > 1500*time.Millisecond {
					t.Errorf("request %d took %v", i, ans.Took)
				}
			}
			quickest := time.Minute
			for i, lines := range [][]string{nil, {"Idempotency-Key: k"}, {"Idempotency-Key: k"}, {marks[0]}} {
				ans := a.Chat(said(fmt.Sprint("later ", min(i, 1))), lines...)
				wantText(t, ans, "hello", "bypassed", "store_away")
				quickest = min(quickest, ans.Took)
			}
			if quickest > 400*time.Millisecond { // each time-out takes longer
				t.Errorf("all later requests took %v or more", quickest)
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
				wantNone(t, "the log", g.Log(), storePassword)
			}
			if log := a.Log(); !strings.Contains(log, c.why) {
				t.Errorf("the log does not say %q: %s", c.why, log)
			}
		})
	}
}

// dumpOfAnother is what the disk of a server holds whose records were named
// with another secret.
func dumpOfAnother(t *testing.T) []byte {
	t.Helper()
	r := redistest.Start(t)
	harness.Start(t, up.New(t).URL(), harness.Config{"store.url": r.URL()})
	r.Do("SAVE")
	dump, err := os.ReadFile(filepath.Join(r.Dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	return dump
}

// A store that takes its time is not away.
func TestStoreAwayIsNotSlow(t *testing.T) {
	t.Parallel()
	const slow = 30 * time.Millisecond
	u := up.New(t)
	way := redistest.NewProxy(t, redistest.Start(t).Addr)
	a, b := pair(t, u, "redis://"+way.Addr)
	way.Delay(slow)
	tenAtOnce(t, u, a, b, 2, 10*slow)
	tenStreamedAtOnce(t, u, a, b, 2)
	u.Choose(func(*up.Call) up.Step { return up.OK("alone") })
	quickest, how := time.Minute, map[string]int{}
	for n := range 10 {
		ans := a.Chat(said(fmt.Sprint("slow ", n)))
		how[ans.Outcome()]++
		quickest = min(quickest, ans.Took)
	}
	if quickest < slow || quickest > 10*slow {
		t.Errorf("the quickest call took %v: two round trips of %v are due", quickest, slow)
	}
	if how["executed"] < 8 { // where the machine stands still, a step may time out
		t.Errorf("%v", how)
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
			r := redistest.Start(t)
			g := harness.Start(t, u.URL(), harness.Config{"store.url": r.URL(), "policy.timeouts.idle": "10s"})
			first := g.Go(harness.Chat, body)
			u.Call(1)
			second := g.Go(harness.Chat, body)
			following(t, g, 1)
			r.Kill()
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
		after func(*redistest.Server)
	}{
		"whole":               {cc(), (*redistest.Server).Kill},
		"streamed":            {cc(stream), (*redistest.Server).Kill},
		"hanging":             {cc(), (*redistest.Server).Pause},
		"back at once, empty": {cc(), func(r *redistest.Server) { r.Restart() }},
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

// Who was shown a part of an answer can only wait: the leader goes on, and so
// does the follower when the store is back within the lease.
func TestStoreAwayUnderAFollowedStream(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		if !c.Field("stream").Bool() {
			return up.OK("meanwhile")
		}
		return up.Seq(up.Open(), up.Events(up.Chunk("first")), up.Gate(gate), up.Events(up.Chunk(" and last"), up.Finish(), up.Done))
	})
	r, a, b := nodes(t, u, harness.Config{"policy.timeouts.idle": "20s", "store.lease": "15s"})
	leader := a.Open(harness.Chat, cc(stream))
	follower := b.Open(harness.Chat, cc(stream))
	for _, s := range []*harness.Stream{leader, follower} {
		if got := content(s.Next()); got != "first" {
			t.Fatalf("it begins with %q", got)
		}
	}
	r.Pause()
	for range 3 { // until both nodes hold it for away
		for _, g := range []*harness.Gateway{a, b} {
			g.Chat(said("meanwhile"))
		}
	}
	if got, more := follower.Piece(2 * time.Second); more {
		t.Errorf("it was given up: %q", got)
	}
	r.Continue()
	close(gate)
	for _, s := range []*harness.Stream{leader, follower} {
		s.Rest()
		if got := words(harness.Data(s.Raw())); got != "first and last" || !s.Clean() {
			t.Errorf("it got %q, %v", s.Raw(), s.End())
		}
	}
}

func TestStoreAwayWrongPasswordAtStart(t *testing.T) {
	t.Parallel()
	const password = "pw-wrong-Vb3Xs7Kd"
	u := up.New(t)
	r := redistest.Start(t, "--requirepass", "pw-right-Hn5Lc9Yf")
	url := strings.Replace(r.URL(), "pw-right-Hn5Lc9Yf", password, 1)
	code, log := harness.Refuse(t, u.URL(), harness.Config{"store.url": url})
	if code == 0 || !strings.Contains(log, "WRONGPASS") || !strings.Contains(log, "store.url") {
		t.Errorf("exit status %d, and it says %q", code, log)
	}
	wantNone(t, "the log", log, password)
}
