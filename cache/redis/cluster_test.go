package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/cachetest"
	"oncegate/cache/redis/redistest"
)

// One cluster for all that is a cluster's own.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, nil)
	for _, c := range []struct {
		name string
		run  func(*testing.T, redistest.Cluster)
	}{
		{"a node follows another", func(t *testing.T, servers redistest.Cluster) {
			follows(t, mustOpen(t, servers.URL(), Options{}), mustOpen(t, servers.URL(), Options{}))
		}},
		{"braces in keys steer nothing", bracesInKeys},
		{"a step goes where its slot went", movedAndAsk},
		{"one server of three is away", oneAway},
		{"another's secret", otherSecret},
		{"history", historyOnCluster},
		{"writes run once", func(t *testing.T, servers redistest.Cluster) {
			for _, server := range servers {
				killing(t, server)
			}
			quiet := Options{KeepLost: true, Oops: func(string, error) {}}
			runsOnce(t, nil, 60, mustOpen(t, servers.URL(), quiet), mustOpen(t, servers.URL(), quiet))
			cachetest.WriteHistory(t, 60, mustOpen(t, servers.URL(), quiet), mustOpen(t, servers.URL(), quiet))
		}},
		{"a durable step goes where its slot went", durableMoves},
		{"a server's replicas", replicasOnCluster},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers.Do("flushall")
			c.run(t, servers)
		})
	}
}

func historyOnCluster(t *testing.T, servers redistest.Cluster) {
	for _, server := range servers {
		killing(t, server)
	}
	cachetest.History(t, 120, mustOpen(t, servers.URL(), Options{KeepLost: true}), mustOpen(t, servers.URL(), Options{KeepLost: true}))
}

func otherSecret(t *testing.T, servers redistest.Cluster) {
	s := mustOpen(t, servers.URL(), Options{})
	secret := mustSecret(t, s)
	for n := range s.dogs {
		s.dogs[n].goAway(errors.New("a test says so"))
	}
	replaced(t, s, secret, owner(t, servers, secretKey), servers.URL())
}

// B078. Keys are HMACs: whatever their bytes are, they are written in hex.
func bracesInKeys(t *testing.T, servers redistest.Cluster) {
	s := mustOpen(t, servers.URL(), Options{})
	for n, braces := range []string{"{x}", "}{", "{}{s3}", "{s1}:{s2}"} {
		var k cache.Key
		copy(k[1:], braces)
		k[0] = byte(n)
		c := claim(0)
		c.Key = k
		h := mustClaim(t, s, c, cache.Lead)
		if err := s.Append(t.Context(), h, 0, frames("a")); err != nil {
			t.Error(err)
		}
		if _, _, err := s.Read(t.Context(), h, 0); err != nil {
			t.Error(err)
		}
		if err := s.Settle(t.Context(), h, answer("a")); err != nil {
			t.Error(err)
		}
		if err := s.Owe(t.Context(), h, cache.NewNonce(), lease); err != nil {
			t.Error(err)
		}
		for _, name := range []string{recordName(k), logName(h), fencesName(tag(k)), probeName(tag(k))} {
			if want := fmt.Sprintf("oncegate:{s%d}:", n); !strings.HasPrefix(name, want) || strings.Count(name, "{") != 1 {
				t.Errorf("the name %s has not the tag %s", name, want)
			}
		}
	}
}

// owner is the server that has a key's slot.
func owner(t *testing.T, servers redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	for _, s := range servers {
		if err := s.Client().Exists(t.Context(), key).Err(); err == nil {
			return s
		}
	}
	t.Fatal("nobody has the slot of ", key)
	return nil
}

// While a slot is moved, and after it, its steps are done once, where it is.
func movedAndAsk(t *testing.T, servers redistest.Cluster) {
	s := mustOpen(t, servers.URL(), Options{})
	c := claim(5)
	mustClaim(t, s, claim(5), cache.Lead)
	name := recordName(c.Key)
	from := owner(t, servers, name)
	to := servers[0]
	if from == to {
		to = servers[1]
	}
	slot := from.Do("cluster", "keyslot", name)
	id := func(s *redistest.Server) any { return s.Do("cluster", "myid") }
	to.Do("cluster", "setslot", slot, "importing", id(from))
	from.Do("cluster", "setslot", slot, "migrating", id(to))
	// For what is at neither the server says ASK. A step whose keys are not all
	// at one of the two can't be made: it is away until the slot has moved.
	tryAgain := func(c cache.Claim) {
		t.Helper()
		if _, err := s.Claim(t.Context(), c); !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), "TRYAGAIN") || waiting(s) != 0 {
			t.Errorf("a claim: %v", err)
		}
	}
	tryAgain(claim(5))
	if err := s.probe(tag(c.Key)); err != nil {
		t.Error(err)
	}
	probed := func(server *redistest.Server) string {
		keys, _ := server.Do("cluster", "getkeysinslot", slot, 10).([]any)
		return fmt.Sprint(keys)
	}
	if !strings.Contains(probed(to), probeName(tag(c.Key))) || strings.Contains(probed(from), probeName(tag(c.Key))) {
		t.Errorf("the probe went to neither or both: %s and %s", probed(to), probed(from))
	}
	other := claim(5)
	other.Key[1]++
	tryAgain(other)
	from.Do("del", name, fencesName(tag(c.Key)), inflightName(tag(c.Key)))
	for _, server := range servers {
		server.Do("cluster", "setslot", slot, "node", id(to))
	}
	h := mustClaim(t, s, c, cache.Lead) // MOVED
	if g, err := s.Claim(t.Context(), c); err != nil || g.Fence != h.Fence {
		t.Errorf("sent again: %+v, %v", g, err)
	}
	if err := s.Settle(t.Context(), h, answer("a")); err != nil {
		t.Error(err)
	}
	if n, _ := to.Do("exists", name).(int64); n != 1 {
		t.Error("the record is not where its slot went")
	}
}

// A step that waits for replicas is done once, where its slot is.
func durableMoves(t *testing.T, servers redistest.Cluster) {
	s := mustOpen(t, servers.URL(), Options{Replicas: 1, Oops: func(string, error) {}})
	still(t, s)
	other := mustOpen(t, servers.URL(), Options{})
	h, _, err := sends(t, s, 6)
	wasLost(t, "a dispatch without replicas", err)
	for range 2 {
		from := owner(t, servers, recordName(h.Key))
		to := servers[0]
		if from == to {
			to = servers[1]
		}
		slot := from.Do("cluster", "keyslot", recordName(h.Key))
		for _, key := range append(writeNames[tag(h.Key)], recordName(h.Key)) {
			from.Do("del", key)
		}
		for _, server := range servers {
			server.Do("cluster", "setslot", slot, "node", to.Do("cluster", "myid"))
		}
		next := mustClaim(t, other, write(6), cache.Lead) // and this one does not know that it went
		n := cache.NewNonce()
		wasLost(t, "a dispatch without replicas", s.Dispatch(t.Context(), next, n))
		if got, _ := to.Do("hget", recordName(h.Key), "sender").(string); got != nonce(n) {
			t.Errorf("where the slot went it was dispatched by %q", got)
		}
	}
}

// What the other servers have goes on.
func oneAway(t *testing.T, servers redistest.Cluster) {
	servers.Do("config", "set", "cluster-require-full-coverage", "no")
	s := mustOpen(t, servers.URL(), Options{Oops: func(string, error) {}})
	for n := range byte(tags) {
		mustClaim(t, s, claim(n), cache.Lead)
	}
	paused := owner(t, servers, recordName(claim(0).Key))
	paused.Pause()
	resume := context.AfterFunc(t.Context(), paused.Continue)
	defer resume()
	for s.away(0) == nil {
		if _, err := s.Claim(t.Context(), claim(0)); !errors.Is(err, cache.ErrAway) {
			t.Fatalf("%v", err)
		}
	}
	var gone, there int
	begin := time.Now()
	for n := range byte(tags) {
		onPaused := owned(s, n) == paused.Addr
		if _, err := s.Claim(t.Context(), claim(n)); onPaused != errors.Is(err, cache.ErrAway) {
			t.Errorf("tag %d, on the paused server %v: %v", n, onPaused, err)
		}
		if onPaused {
			gone++
		} else {
			there++
		}
	}
	if took := time.Since(begin); gone < 2 || there < 2 || took > timeout {
		t.Errorf("%d tags are away, %d are there, after %v", gone, there, took)
	}
	paused.Continue()
}

func owned(s *Store, tag byte) string {
	node, err := s.client.cluster.MasterForKey(context.Background(), fencesName(int(tag)))
	if err != nil {
		return ""
	}
	return node.Options().Addr
}
