package redis

import (
	"errors"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// Who takes a call over is told where its latest attempt went.
func TestTakeoverNamesTheTarget(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	server := clock.Start()
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	takeover := func(n byte, target string) (cache.Hold, cache.Claim) {
		t.Helper()
		c := claim(n)
		c.Target = "next/*"
		g, err := s.Claim(t.Context(), c)
		if err != nil || !g.Lapsed || g.Target != target {
			t.Fatalf("%+v, %v, want the target %q", g, err, target)
		}
		if again, err := s.Claim(t.Context(), c); err != nil || again.Target != target {
			t.Errorf("sent again: %+v, %v", again, err)
		}
		return cache.Hold{Key: c.Key, Fence: g.Fence}, c
	}
	first := claim(1)
	first.Target = "a/*"
	old := mustClaim(t, s, first, cache.Lead)
	noted := claim(2)
	noted.Target = "a/*"
	if err := s.Note(mustClaim(t, s, noted, cache.Lead), "b/*"); err != nil {
		t.Error(err)
	}
	mustClaim(t, s, claim(3), cache.Lead)

	clock.Pass(lease + time.Second)
	takeover(1, "a/*")
	takeover(2, "b/*")
	takeover(3, "")
	if err := s.Note(old, "c/*"); !errors.Is(err, cache.ErrFenced) {
		t.Errorf("a note of an old fence: %v", err)
	}
	clock.Pass(lease + time.Second)
	h, _ := takeover(1, "next/*")

	// One that ended says nothing to the next.
	if err := s.Settle(t.Context(), h, answer("x")); err != nil {
		t.Fatal(err)
	}
	if g, err := s.Claim(t.Context(), claim(1)); err != nil || g.Role != cache.Lead || g.Lapsed || g.Target != "" {
		t.Errorf("%+v, %v", g, err)
	}
}
