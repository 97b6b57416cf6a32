package test

import (
	"strconv"
	"testing"
	"time"

	"oncegate/cache/redis/redistest"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// On a cluster a record and all that belongs to it have one tag, whatever a
// client writes into its key: a step that the cluster refused would show as a
// request that was bypassed.
func TestNodesB078Cluster(t *testing.T) {
	t.Parallel()
	url := redistest.StartCluster(t, nil).URL()
	for name, run := range map[string]func(*testing.T, *up.Server, *harness.Gateway, *harness.Gateway){
		"ten at once": func(t *testing.T, u *up.Server, a, b *harness.Gateway) {
			tenAtOnce(t, u, a, b, rounds(t, 20), 20*time.Millisecond)
		},
		"ten streamed at once": func(t *testing.T, u *up.Server, a, b *harness.Gateway) {
			tenStreamedAtOnce(t, u, a, b, rounds(t, 10))
		},
		"the lease outlives the work": func(t *testing.T, u *up.Server, a, b *harness.Gateway) { leaseOutlivesWork(t, u, a, b, nil) },
		"the leader is killed":        leaderIsKilled,
		"explicit keys": func(t *testing.T, u *up.Server, a, b *harness.Gateway) {
			for _, name := range []string{"k", "{x}", "{}", "a{b}c{}", "}{", "{s0}", "{s1}:{s2}"} {
				explicitKey(t, u, a, b, name)
			}
		},
		"debts": twoDebts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := up.New(t)
			a, b := pair(t, u, url)
			run(t, u, a, b)
		})
	}
}

// The nodes' clocks and the store's differ by ten minutes, either way, and the
// store's jumps back by an hour during a call: what counts of a lease or a
// retention is its length.
func TestNodesB080Clocks(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ten minutes behind": 10 * time.Minute, "ten minutes ahead": -10 * time.Minute} {
		t.Run("the nodes are "+name, func(t *testing.T) {
			t.Parallel()
			clock := redistest.NewClock(t)
			clock.Pass(ahead)
			url := clock.Start().URL()
			for name, run := range map[string]func(*testing.T, *up.Server, *harness.Gateway, *harness.Gateway){
				"the lease outlives the work": func(t *testing.T, u *up.Server, a, b *harness.Gateway) { leaseOutlivesWork(t, u, a, b, nil) },
				"the leader is killed":        leaderIsKilled,
				"debts":                       twoDebts,
				"retention": func(t *testing.T, u *up.Server, a, b *harness.Gateway) {
					u.Choose(echo)
					lines := []string{"Idempotency-Key: clocks", "Oncegate-TTL: 3s"}
					wantText(t, a.Chat(said("retention"), lines...), number(1), "executed", "")
					begun := time.Now()
					ans := b.Chat(said("retention"), lines...)
					wantText(t, ans, number(1), "replayed", "key")
					if age, err := strconv.Atoi(ans.Header.Get("Age")); err != nil || age < 0 || age > 3 {
						t.Errorf("Age: %s", ans.Header.Get("Age"))
					}
					harness.Eventually(t, 10*time.Second, "the answer has had its time", func() bool {
						return b.Chat(said("retention"), lines...).Outcome() == "executed"
					})
					if d := time.Since(begun); d < 2500*time.Millisecond {
						t.Errorf("what is kept for 3 s was gone after %v", d)
					}
					wantCalls(t, u, 2)
				},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					u := up.New(t)
					a, b := pair(t, u, url)
					run(t, u, a, b)
				})
			}
		})
	}
	t.Run("the store's jumps", func(t *testing.T) {
		t.Parallel()
		clock := redistest.NewClock(t)
		url := clock.Start().URL()
		t.Run("during a call", func(t *testing.T) {
			u := up.New(t)
			a, b := pair(t, u, url)
			leaseOutlivesWork(t, u, a, b, func() { clock.Pass(-time.Hour) })
		})
		t.Run("before its leader is killed", func(t *testing.T) {
			u := up.New(t)
			a, b := pair(t, u, url)
			leaderIsKilled(t, u, a, b)
		})
	})
}
