package redis

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"pgregory.net/rapid"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// TestDecidesAsDecide puts a record into any state by hand, and holds what the
// script makes of a claim against cache.Decide.
func TestDecidesAsDecide(t *testing.T) {
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	raw := server.Client()
	ctx := context.Background()
	names := map[cache.State]string{cache.Dispatched: "dispatched", cache.Completed: "completed", cache.Failed: "failed", cache.Released: "released"}
	rapid.Check(t, func(rt *rapid.T) {
		var k cache.Key
		copy(k[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "key"))
		v := cache.View{
			State:       cache.State(rapid.IntRange(int(cache.Absent), int(cache.Released)).Draw(rt, "state")),
			Fingerprint: [32]byte{byte(rapid.IntRange(0, 2).Draw(rt, "printed"))},
			Lapsed:      rapid.Bool().Draw(rt, "lapsed"),
			Cut:         rapid.Bool().Draw(rt, "cut"),
			Owed:        rapid.Bool().Draw(rt, "owed"),
		}
		c := cache.Claim{
			Key: k, Nonce: cache.NewNonce(), Lease: time.Minute,
			Fingerprint: [32]byte{byte(rapid.IntRange(0, 2).Draw(rt, "print"))},
			Explicit:    rapid.Bool().Draw(rt, "explicit"),
			Mode:        cache.Mode(rapid.IntRange(int(cache.Off), int(cache.Always)).Draw(rt, "mode")),
			Retry:       rapid.Bool().Draw(rt, "retry"),
		}
		now := time.Now().UnixMilli()
		lease := now + 60_000
		if v.Lapsed {
			lease = now
		}
		owed := "1000" // one that no longer counts
		if v.Owed {
			owed += " 99000000000000"
		}
		name := recordName(k)
		raw.Del(ctx, name)
		if v.State != cache.Absent {
			if err := raw.HSet(ctx, name, "state", names[v.State], "fence", "7", "print", v.Fingerprint[:], "leader", hex.EncodeToString(make([]byte, 16)),
				"lapsed", "0", "lease", lease, "cut", flag(v.Cut), "owed", owed, "settled", now, "frames", cache.EncodeFrames(nil)).Err(); err != nil {
				rt.Fatal(err)
			}
		}
		if v.State != cache.Dispatched {
			v.Lapsed = false
		}
		want := cache.Decide(c, v)
		got, err := s.Claim(ctx, c)
		if err != nil {
			rt.Fatal(err)
		}
		if got.Role != want.Role || got.Share != want.Share || got.Lapsed != want.Lapsed {
			rt.Fatalf("%+v on %+v: the script says %+v, Decide %+v", c, v, got, want)
		}
		if got.Role == cache.Lead && got.Fence <= 7 || got.Role != cache.Lead && got.Fence != 7 {
			rt.Fatalf("%+v has the fence %d", got, got.Fence)
		}
		if got.Role != cache.Lead {
			left := raw.HGet(ctx, name, "owed").Val()
			if taken := v.Owed && left == ""; taken != want.TakeDebt {
				rt.Fatalf("took a debt: %v, want %v; left %q", taken, want.TakeDebt, left)
			}
		}
		again, err := s.Claim(ctx, c)
		if err != nil || again.Role != got.Role || again.Fence != got.Fence || again.Share != got.Share || again.Lapsed != got.Lapsed {
			rt.Fatalf("sent again it is %+v, %v, was %+v", again, err, got)
		}
	})
}

// TestFencesRiseOverALoss: a server that comes back empty, or without its last
// writes, repeats no fence.
func TestFencesRiseOverALoss(t *testing.T) {
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	lead := func() cache.Fence {
		t.Helper()
		g, err := s.Claim(t.Context(), cache.Claim{Key: cache.Key{1}, Nonce: cache.NewNonce(), Lease: time.Minute})
		if err != nil || g.Role != cache.Lead {
			t.Fatalf("%+v, %v", g, err)
		}
		return g.Fence
	}
	first := lead()
	server.Do("flushall")
	if second := lead(); second <= first {
		t.Errorf("fence %d came after %d", second, first)
	}
	// A counter beyond the clock goes on from where it is, digit by digit.
	server.Do("del", recordName(cache.Key{1}))
	server.Do("set", fencesName(1), "9007199254740993")
	if third := lead(); third != 9007199254740994 {
		t.Errorf("after 2^53 + 1 came %d", third)
	}
}
