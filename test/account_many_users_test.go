package test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// However many users there are, the account tells models and keys apart that are
// in the configuration, as the metrics do: only the users become "other".
func TestAccountOfManyUsers(t *testing.T) {
	t.Parallel()
	const users = 3000
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Plain, harness.Keys(), harness.Config{"models": []any{harness.Model("m1", "up"), harness.Model("m2", "up")}})
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		wg.Go(func() {
			for n := next.Add(1); n <= users; n = next.Add(1) {
				key := []string{harness.K1, harness.K2}[n%2]
				body := fmt.Sprintf(`{"model":"m%d","user":"user-%d","messages":[{"role":"user","content":"hi"}]}`, 1+n%2, n)
				if a := g.Chat(body, harness.Bearer(key)); a.Status != 200 {
					t.Errorf("%d %s", a.Status, a.Body)
				}
			}
		})
	}
	wg.Wait()
	for by, names := range map[string][]string{"key": {"alice", "bob"}, "model": {"m1", "m2"}} {
		r := account(t, g, by)
		for _, name := range names {
			if n := group(r, name).Requests; n != users/2 {
				t.Errorf("by %s: %s has %d requests, not %d; other has %d", by, name, n, users/2, group(r, "other").Requests)
			}
		}
	}
}
