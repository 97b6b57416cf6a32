package redis

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// loseClaims gives a store whose claims' answers are lost while lose is true.
func loseClaims(t *testing.T, o Options) (s, other *Store, lose *atomic.Bool) {
	server := redistest.Start(t)
	p := redistest.NewProxy(t, server.Addr)
	lose = new(atomic.Bool)
	p.Lose(func(reply []byte) bool { return lose.Load() && strings.HasPrefix(string(reply), "*5\r\n:") })
	s = mustOpen(t, "redis://"+p.Addr, o)
	// The script is known and a connection is there.
	mustClaim(t, s, claim(99), cache.Lead)
	return s, mustOpen(t, "redis://"+server.Addr, Options{}), lose
}

func TestLostClaimIsGivenBack(t *testing.T) {
	t.Parallel()
	s, other, lose := loseClaims(t, Options{})
	lose.Store(true)
	if _, err := s.Claim(t.Context(), claim(1)); !errors.Is(err, cache.ErrAway) {
		t.Fatalf("a lost claim: %v", err)
	}
	lose.Store(false)
	eventually(t, 2*time.Second, "it is given back", func() bool { return waiting(s) == 0 })
	mustClaim(t, other, claim(1), cache.Lead) // long before its lease lapses
}

// A claim that arrives after it was given back leads nothing.
func TestLostClaimLandsLate(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	for _, landedBefore := range []bool{false, true} { // another's record is there, or none
		c := claim(byte(len(t.Name())))
		if landedBefore {
			mustClaim(t, s, claim(c.Key[0]), cache.Lead)
		}
		s.GiveBack(c, nil)
		eventually(t, 2*time.Second, "it is given back", func() bool { return waiting(s) == 0 })
		if _, err := s.Claim(t.Context(), c); !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), "new nonce") {
			t.Errorf("a claim that was given back: %v", err)
		}
	}
}

// A call that ran without the store settles into its claim, if that landed.
func TestBypassedCallSettles(t *testing.T) {
	t.Parallel()
	s, other, lose := loseClaims(t, Options{KeepLost: true})
	lose.Store(true)
	c := claim(1)
	if _, err := s.Claim(t.Context(), c); !errors.Is(err, cache.ErrAway) {
		t.Fatalf("a lost claim: %v", err)
	}
	lose.Store(false)
	mustClaim(t, other, claim(1), cache.Follow) // it is kept for the call
	set := answer("bypassed")
	s.GiveBack(c, &set)
	eventually(t, 2*time.Second, "it is settled", func() bool { return waiting(s) == 0 })
	again := claim(1)
	again.Retry = true
	g, err := other.Claim(t.Context(), again)
	if err != nil || g.Role != cache.Replay || text(g.Result.Frames) != "bypassed" {
		t.Errorf("%+v, %v", g, err)
	}

	// One that did not land changes nothing, and never does.
	never := claim(2)
	mustClaim(t, other, claim(2), cache.Lead)
	s.GiveBack(never, &set)
	eventually(t, 2*time.Second, "it is heard", func() bool { return waiting(s) == 0 })
	mustClaim(t, other, claim(2), cache.Follow)
}

// A call that ran without the store keeps its claim meanwhile, if that landed.
func TestBypassedCallIsRenewed(t *testing.T) {
	t.Parallel()
	s, other, lose := loseClaims(t, Options{KeepLost: true})
	lose.Store(true)
	c := claim(1)
	if _, err := s.Claim(t.Context(), c); !errors.Is(err, cache.ErrLost) {
		t.Fatalf("a lost claim: %v", err)
	}
	lose.Store(false)
	for range 2 { // its answer may be lost too
		h, leads, err := s.Landed(c)
		if err != nil || !leads || h != mustClaim(t, other, claim(1), cache.Follow) {
			t.Fatalf("landed: %v, %v, %v", h, leads, err)
		}
		if _, err := s.Renew(t.Context(), h, lease); err != nil {
			t.Error(err)
		}
	}
	never := claim(2)
	for range 2 {
		if _, leads, err := s.Landed(never); leads || err != nil {
			t.Errorf("one that did not land leads: %v, %v", leads, err)
		}
	}
	if _, err := s.Claim(t.Context(), never); !errors.Is(err, cache.ErrAway) {
		t.Errorf("and lands after all: %v", err)
	}
}

// Close gives back what it still can.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	s, other, lose := loseClaims(t, Options{KeepLost: true})
	lose.Store(true)
	c := claim(1)
	_, _ = s.Claim(t.Context(), c)
	lose.Store(false)
	s.GiveBack(c, nil)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	mustClaim(t, other, claim(1), cache.Lead)
}
