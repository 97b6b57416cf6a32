package redis

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// A claim whose holder died is booked by who takes it over, or once it is
// forgotten: once, and no other is.
func TestForgottenClaimsAreBooked(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	server := clock.Start()
	nodes := make([]*Store, 2)
	for n := range nodes {
		nodes[n] = mustOpen(t, "redis://"+server.Addr, Options{})
		still(t, nodes[n])
	}
	s := nodes[0]
	at := clock.Now()
	lapses := func(k byte, what string) cache.Claim {
		c := claim(k)
		c.Lapses = []cache.Line{{At: at, Series: cache.Series{Model: what}, Figures: cache.Figures{Ambiguous: 1}}}
		return c
	}
	sweep := func() account {
		t.Helper()
		var both sync.WaitGroup
		for _, node := range nodes {
			both.Go(func() {
				if err := node.ledger.sweep(); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if err := s.ledger.fold(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		return folded(t, s)
	}
	want := account{}
	dies := func(what string) { want.add(cache.Minute, nil, lapses(0, what).Lapses...) }

	mustClaim(t, s, lapses(1, "dead"), cache.Lead)
	mustClaim(t, s, lapses(2, "dead"), cache.Lead)
	renewed := mustClaim(t, s, lapses(3, "renewed"), cache.Lead)
	late := mustClaim(t, s, lapses(4, "late"), cache.Lead)
	mustClaim(t, s, lapses(5, "taken over"), cache.Lead)
	noted := mustClaim(t, s, lapses(7, "first"), cache.Lead)
	further := append(lapses(7, "first").Lapses, lapses(7, "further").Lapses...)
	if err := s.Note(noted, further); err != nil { // in place of what the claim said
		t.Error(err)
	}
	done := mustClaim(t, s, lapses(6, "settled"), cache.Lead)
	if err := s.Settle(t.Context(), done, answer("a")); err != nil {
		t.Fatal(err)
	}
	if n := inFlight(server); n != 6 {
		t.Errorf("%d are in flight, want 6", n)
	}
	clock.Pass(lease + linger - time.Second)
	sweep().same(t, "before they are forgotten", want)
	if _, err := s.Renew(t.Context(), renewed, lease); err != nil {
		t.Error(err)
	}
	if err := s.Settle(t.Context(), late, answer("a")); err != nil {
		t.Error(err)
	}
	if g, err := s.Claim(t.Context(), claim(7)); err != nil || !g.Lapsed {
		t.Errorf("%+v, %v", g, err)
	} else if err := s.Settle(t.Context(), cache.Hold{Key: claim(7).Key, Fence: g.Fence}, answer("a")); err != nil {
		t.Error(err)
	}
	want.add(cache.Minute, nil, further...)
	if err := s.Note(noted, further); !errors.Is(err, cache.ErrFenced) {
		t.Errorf("a note of an old fence: %v", err)
	}
	taker := lapses(5, "taker")
	for range 2 {
		if g, err := s.Claim(t.Context(), taker); err != nil || !g.Lapsed {
			t.Errorf("%+v, %v", g, err)
		}
	}
	dies("taken over") // by who takes it over
	if n := inFlight(server); n != 4 {
		t.Errorf("%d are in flight, want 4", n)
	}
	clock.Pass(2 * time.Second)
	dies("dead")
	dies("dead")
	sweep().same(t, "forgotten", want)
	sweep().same(t, "forgotten, again", want)
	clock.Pass(lease + linger)
	dies("renewed")
	dies("taker")
	sweep().same(t, "later", want)
	if err := s.Settle(t.Context(), renewed, answer("a")); !errors.Is(err, cache.ErrFenced) {
		t.Errorf("settled after it was swept: %v", err)
	}
	mustClaim(t, s, claim(1), cache.Lead)
	server.Do("zadd", inflightName(7), 1, "what is no claim", 2, "")
	sweep().same(t, "with what is no claim", want)
	if n := inFlight(server); n != 1 {
		t.Errorf("%d are in flight, want 1", n)
	}
}

func inFlight(server *redistest.Server) (all int64) {
	for n := range tags {
		some, _ := server.Do("zcard", inflightName(n)).(int64)
		all += some
	}
	return all
}

// So it is on a cluster, and with a claim whose lapse was sent twice.
func TestForgottenOnACluster(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	servers := redistest.StartCluster(t, clock)
	s := mustOpen(t, servers.URL(), Options{})
	still(t, s)
	want := account{}
	for n := range 2 * byte(tags) {
		c := claim(n)
		c.Lapses = []cache.Line{line(clock.Now(), strings.Repeat("m", int(n)), 1)}
		for range 2 {
			mustClaim(t, s, c, cache.Lead)
		}
		want.add(cache.Minute, nil, c.Lapses...)
	}
	clock.Pass(lease + linger)
	for range 2 {
		if err := errors.Join(s.ledger.sweep(), s.ledger.fold(t.Context(), true)); err != nil {
			t.Fatal(err)
		}
	}
	folded(t, s).same(t, "on a cluster", want)
}
