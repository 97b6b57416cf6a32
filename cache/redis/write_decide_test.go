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

// TestDecidesWritesAsDecide puts the record of a write into any state by hand,
// and holds what the script makes of a claim against cache.Decide.
func TestDecidesWritesAsDecide(t *testing.T) {
	server := redistest.Start(t)
	s := mustOpen(t, "redis://"+server.Addr, Options{})
	still(t, s)
	raw := server.Client()
	ctx := context.Background()
	names := map[cache.State]string{
		cache.Claimed: "claimed", cache.Dispatched: "dispatched", cache.Completed: "completed", cache.Tombstone: "completed",
		cache.Unknown: "unknown", cache.Released: "released",
	}
	// Ages have room on both sides of a bound for the time that this takes.
	ages := rapid.SampledFrom([]time.Duration{time.Minute, 10 * time.Minute})
	bound := rapid.SampledFrom([]time.Duration{0, 5 * time.Minute})
	rapid.Check(t, func(rt *rapid.T) {
		var k cache.Key
		copy(k[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "key"))
		v := cache.View{
			State:       rapid.SampledFrom([]cache.State{cache.Absent, cache.Claimed, cache.Dispatched, cache.Completed, cache.Tombstone, cache.Unknown, cache.Released}).Draw(rt, "state"),
			Fingerprint: [32]byte{byte(rapid.IntRange(0, 2).Draw(rt, "printed"))},
			Lapsed:      rapid.Bool().Draw(rt, "lapsed"),
			Doubt:       rapid.Bool().Draw(rt, "doubt"),
			Sent:        ages.Draw(rt, "sent"),
			Age:         ages.Draw(rt, "age"),
		}
		v.Kept = v.State == cache.Completed
		c := cache.Claim{
			Key: k, Nonce: cache.NewNonce(), Lease: time.Minute, Explicit: true,
			Fingerprint: [32]byte{byte(rapid.IntRange(0, 2).Draw(rt, "print"))},
			Write: &cache.Write{
				About: cache.About{Tool: "t"}, Again: bound.Draw(rt, "again"), Within: bound.Draw(rt, "within"),
				Knowingly: rapid.Bool().Draw(rt, "knowingly"), Aged: rapid.Bool().Draw(rt, "aged"),
			},
		}
		now := time.Now()
		lease := now.Add(time.Minute)
		if v.Lapsed {
			lease = now
		}
		flying := v.State == cache.Claimed || v.State == cache.Dispatched
		if !flying {
			v.Lapsed, v.Doubt = false, false
		}
		const first, latest = 1<<52 + 5, 1<<52 + 7
		doubts := writeNames[tag(k)][doubtsOfTools]
		name := recordName(k)
		raw.Del(ctx, name, answerName(k), doubts)
		if v.State != cache.Absent {
			fields := []any{"state", names[v.State], "fence", latest, "origin", first, "print", v.Fingerprint[:], "leader", hex.EncodeToString(make([]byte, 16)),
				"lapsed", "0", "lease", lease.UnixMilli(), "settled", now.Add(-v.Age).UnixMilli(), "sent", now.Add(-v.Sent).UnixMilli(), "tool", "t", "about", "{}"}
			if v.Doubt {
				fields = append(fields, "doubt", "1")
			}
			if err := raw.HSet(ctx, name, fields...).Err(); err != nil {
				rt.Fatal(err)
			}
		}
		if v.Kept {
			raw.Set(ctx, answerName(k), cache.EncodeFrames(frames("a")), 0)
		}
		if v.State == cache.Unknown {
			raw.HSet(ctx, doubts, "t", 1)
		}
		want := cache.Decide(c, v)
		got, err := s.Claim(ctx, c)
		if err != nil {
			rt.Fatal(err)
		}
		if got.Role != want.Role || got.Share != want.Share || got.Lapsed != want.Lapsed {
			rt.Fatalf("%+v %+v on %+v: the script says %+v, Decide %+v", c, c.Write, v, got, want)
		}
		origin := cache.Fence(first)
		if want.Role == cache.Lead && !want.Again {
			origin = got.Fence
		}
		if v.State == cache.Absent && want.Role != cache.Lead {
			origin = 0
		}
		if got.Origin != origin || (got.Role == cache.Lead) != (got.Fence > latest) {
			rt.Fatalf("%+v of %+v: the origin is not %d", got, want, origin)
		}
		rec, err := s.Record(ctx, k)
		if want.Again {
			if err != nil || rec.State != cache.Claimed || rec.Dispatched.UnixMilli() != now.Add(-v.Sent).UnixMilli() {
				rt.Fatalf("run again it is %+v, %v", rec, err)
			}
		}
		// Unknown is what was, unless it runs, and what lapsed in doubt.
		unknown := !want.Again && (v.State == cache.Unknown || v.Lapsed && (v.State == cache.Dispatched || v.Doubt))
		if n, _ := raw.HGet(ctx, doubts, "t").Int(); (n == 1) != unknown || (rec.State == cache.Unknown) != unknown {
			rt.Fatalf("%+v on %+v left state %d, and %d are counted as unknown", want, v, rec.State, n)
		}
		again, err := s.Claim(ctx, c)
		if err != nil || again.Role != got.Role || again.Fence != got.Fence || again.Share != got.Share || again.Lapsed != got.Lapsed || again.Origin != got.Origin {
			rt.Fatalf("sent again it is %+v, %v, was %+v", again, err, got)
		}
	})
}

// An aged key that was lost on its way leaves nothing that makes it free.
func TestLostAgedClaim(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, redistest.Start(t).URL(), Options{})
	aged := func() cache.Claim {
		c := write(1)
		c.Write.Aged = true
		return c
	}
	s.GiveBack(aged(), nil)
	eventually(t, 2*time.Second, "it is given back", func() bool { return waiting(s) == 0 })
	mustClaim(t, s, aged(), cache.Aged)
	mustClaim(t, s, write(1), cache.Lead)
}
