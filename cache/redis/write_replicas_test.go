package redis

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// replica starts one of a server, and waits until it is connected.
func replica(t *testing.T, of *redistest.Server) *redistest.Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(of.Addr)
	r := redistest.Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	of.Do("config", "set", "repl-diskless-sync-delay", "0")
	online(t, of)
	return r
}

// online waits until a server has a replica that acknowledges.
func online(t *testing.T, server *redistest.Server) {
	t.Helper()
	cn := server.Client().Conn()
	defer cn.Close()
	eventually(t, 10*time.Second, "a replica acknowledges", func() bool {
		set := cn.Set(t.Context(), probeName(0), 1, time.Minute).Err()
		n, err := cn.Wait(t.Context(), 1, 100*time.Millisecond).Result()
		return set == nil && err == nil && n == 1
	})
}

// sends takes a write through the one-way door.
func sends(t *testing.T, s *Store, k byte) (h cache.Hold, n cache.Nonce, err error) {
	t.Helper()
	h, n = mustClaim(t, s, write(k), cache.Lead), cache.NewNonce()
	return h, n, s.Dispatch(t.Context(), h, n)
}

// The tests of this file run before those that run together: replicas have 300 ms.
func TestReplicas(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	r := replica(t, server)
	s := mustOpen(t, server.URL(), Options{Replicas: 1, Oops: func(string, error) {}})
	still(t, s)
	mustSecret(t, s)
	eventually(t, 5*time.Second, "it is strict", func() bool { return s.Durability() == "strict" })

	h, _, err := sends(t, s, 1) // the script is sent whole at first
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := r.Do("hget", recordName(h.Key), "state").(string); got != "dispatched" {
		t.Errorf("at the replica it is %q", got)
	}
	server.Do("config", "resetstat")
	if err := s.Settle(t.Context(), h, executed("a")); err != nil {
		t.Fatal(err)
	}
	if n, _ := r.Do("exists", answerName(h.Key)).(int64); n != 1 {
		t.Error("the replica has no answer")
	}
	h, _, err = sends(t, s, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Settle(t.Context(), h, ended(cache.Unknown)); err != nil {
		t.Fatal(err)
	}
	if err := s.Resolve(t.Context(), h.Key, cache.Resolution{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}}); err != nil {
		t.Fatal(err)
	}
	if n := server.Calls("wait"); n < 4 {
		t.Errorf("of a dispatch, two settlements and a resolution, %d waited", n)
	}
	if err := s.Settle(t.Context(), h, executed("late")); !errors.Is(err, cache.ErrFenced) {
		t.Errorf("a refusal is one, replicas or not: %v", err)
	}

	// A replica that stands still confirms nothing, and so nothing is sent. What
	// needs none goes on, and the server is not away.
	settled := mustClaim(t, s, write(3), cache.Lead)
	if err := s.Dispatch(t.Context(), settled, cache.NewNonce()); err != nil {
		t.Fatal(err)
	}
	r.Pause()
	for k := byte(10); k < 10+2*failuresAway; k++ {
		begin := time.Now()
		h, _, err := sends(t, s, k)
		wasLost(t, "a dispatch that no replica has", err)
		if took := time.Since(begin); took > stepTimeout || !errors.Is(err, errUnacknowledged) {
			t.Errorf("after %v: %v", took, err)
		}
		if got := s.Durability(); !strings.HasPrefix(got, "relaxed: 0 replicas answer") {
			t.Error(got)
		}
		if k == 10 {
			wasLost(t, "its release", s.Settle(t.Context(), h, ended(cache.Released)))
			mustClaim(t, s, write(10), cache.Lead) // the master has it
		}
	}
	mustClaim(t, s, claim(1), cache.Lead)
	if err := s.Settle(t.Context(), mustClaim(t, s, claim(2), cache.Lead), answer("a")); err != nil {
		t.Errorf("a completion: %v", err)
	}
	if err := s.away(0); err != nil {
		t.Error(err)
	}
	set := executed("late")
	wasLost(t, "a settlement that no replica has", s.Settle(t.Context(), settled, set))
	wasLost(t, "and sent again", s.Settle(t.Context(), settled, set)) // though that changes nothing
	r.Continue()
	eventually(t, 5*time.Second, "it is acknowledged", func() bool { return s.Settle(t.Context(), settled, set) == nil })
	if n, _ := r.Do("exists", answerName(settled.Key)).(int64); n != 1 {
		t.Error("it is acknowledged, and the replica has no answer")
	}
	if got := s.Durability(); got != "strict" {
		t.Error(got)
	}

	// Who asks for more than there are is told.
	two := mustOpen(t, server.URL(), Options{Replicas: 2, Oops: func(string, error) {}})
	mustSecret(t, two)
	if got := two.Durability(); got != "relaxed: 1 replicas answer, store.replicas is 2" {
		t.Error(got)
	}
}

// A step that is sent again is confirmed by who has what it wrote, not by who has
// what its connection wrote.
func TestSentAgainWaitsForWhatItWrote(t *testing.T) {
	server := redistest.Start(t)
	r := replica(t, server)
	quiet := Options{Replicas: 1, Oops: func(string, error) {}}
	s, other := mustOpen(t, server.URL(), quiet), mustOpen(t, server.URL(), quiet)
	still(t, s)
	still(t, other)
	h, n := mustClaim(t, s, write(1), cache.Lead), cache.NewNonce()
	if _, _, err := sends(t, other, 2); err != nil { // a connection that wrote what is confirmed
		t.Fatal(err)
	}
	r.Pause()
	wasLost(t, "a dispatch", s.Dispatch(t.Context(), h, n))
	wasLost(t, "the same from elsewhere", other.Dispatch(t.Context(), h, n))
	r.Continue()
	eventually(t, 5*time.Second, "it is confirmed", func() bool { return other.Dispatch(t.Context(), h, n) == nil })
}

func TestReplicasOfASentinelsMaster(t *testing.T) {
	master := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	replica(t, master)
	sentinel := redistest.StartSentinel(t, "main", master)
	s := mustOpen(t, "redis+sentinel://"+sentinel.Addr+"/main", Options{Replicas: 1})
	mustSecret(t, s)
	master.Do("config", "resetstat")
	k := byte(0)
	eventually(t, 10*time.Second, "a replica confirms", func() bool { // a busy machine takes longer than a step may
		k++
		_, _, err := sends(t, s, k)
		return err == nil
	})
	if master.Calls("wait") == 0 || s.Durability() != "strict" {
		t.Errorf("it waited %d times; %s", master.Calls("wait"), s.Durability())
	}
}

// On a cluster each server has replicas of its own.
func replicasOnCluster(t *testing.T, servers redistest.Cluster) {
	s := mustOpen(t, servers.URL(), Options{Replicas: 1, Oops: func(string, error) {}})
	still(t, s)
	has := owner(t, servers, recordName(write(0).Key))
	r := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "900000000")
	id, _ := has.Do("cluster", "myid").(string)
	nodes, _ := has.Do("cluster", "nodes").(string) // id host:port@port ...
	_, after, _ := strings.Cut(nodes, id+" ")
	host, port, _ := net.SplitHostPort(has.Addr)
	_, bus, _ := strings.Cut(strings.Fields(after)[0], "@")
	r.Do("cluster", "meet", host, port, strings.Split(bus, ",")[0])
	eventually(t, 10*time.Second, "it is met", func() bool {
		nodes, _ := r.Do("cluster", "nodes").(string)
		return strings.Contains(nodes, id)
	})
	has.Do("config", "set", "repl-diskless-sync-delay", "0")
	eventually(t, 10*time.Second, "it is a replica", func() bool {
		return r.Client().Do(t.Context(), "cluster", "replicate", id).Err() == nil
	})
	online(t, has)
	confirmed, refused := 0, 0
	for k := range byte(tags) {
		h, n, err := sends(t, s, k)
		if owned(s, k) != has.Addr {
			wasLost(t, "a dispatch without a replica", err)
			refused++
			continue
		}
		eventually(t, 5*time.Second, "it is confirmed", func() bool { return s.Dispatch(t.Context(), h, n) == nil })
		confirmed++
	}
	if confirmed < 2 || refused < 2 {
		t.Errorf("%d were confirmed, %d refused", confirmed, refused)
	}
	if got := s.Durability(); !strings.Contains(got, "0 replicas answer") || strings.Contains(got, has.Addr+": 0 replicas") {
		t.Error(got)
	}
	r.Kill()
}
