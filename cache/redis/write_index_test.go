package redis

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// keyed is a claim of a write whose key begins with n, in shards by turns.
func keyed(n int) cache.Claim {
	c := write(0)
	c.Key[0], c.Key[1], c.Key[2] = byte(n), byte(n>>8), byte(n*7)
	return c
}

// id is what the indexes call a record.
func id(k cache.Key) string { return hex.EncodeToString(k[:]) }

func listing(t *testing.T, s *Store, f cache.Filter, limit int) (all []cache.Record, pages int) {
	t.Helper()
	for cursor := ""; ; {
		page, next, err := s.Records(t.Context(), f, cursor, limit)
		if err != nil || len(page) > limit {
			t.Fatalf("%d records, %v", len(page), err)
		}
		pages++
		if all = append(all, page...); next == "" {
			return all, pages
		}
		cursor = next
	}
}

// However many records are of one moment, a list has each once.
func TestListOfOneMoment(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, server.URL(), Options{})
	still(t, s)
	const many = 40 * listAhead // some shards have more of a moment than are read at once
	raw := server.Client()
	var want []cache.Key
	for n := range many {
		c := keyed(n)
		if n%3 == 0 {
			c.Key[0] = 16 // most in one shard
			c.Key[1], c.Key[3] = byte(n), byte(n>>8)
		}
		h := mustClaim(t, s, c, cache.Lead)
		want = append(want, c.Key)
		at := float64(1e12 + n/1500) // two moments
		raw.ZAdd(t.Context(), writeNames[tag(h.Key)][allWrites], redis.Z{Score: at, Member: id(h.Key)})
	}
	for _, limit := range []int{7, 200} {
		all, pages := listing(t, s, cache.Filter{}, limit)
		var got []cache.Key
		for _, r := range all {
			got = append(got, r.Key)
		}
		for _, keys := range [][]cache.Key{got, want} {
			slices.SortFunc(keys, func(a, b cache.Key) int { return slices.Compare(a[:], b[:]) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %d it lists %d records, want %d", limit, len(got), len(want))
		}
		if pages != (many+limit-1)/limit {
			t.Errorf("by %d there are %d pages of %d records", limit, pages, many)
		}
	}
}

// What goes by itself leaves the indexes, swept or listed.
func TestIndexesForget(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"swept", "listed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			clock := redistest.NewClock(t)
			server := clock.Start()
			s := mustOpen(t, server.URL(), Options{})
			still(t, s)
			tidy := func() {
				t.Helper()
				if how == "swept" {
					for range 8 { // some of each shard at once
						if err := s.ledger.sweep(); err != nil {
							t.Fatal(err)
						}
					}
				} else {
					listing(t, s, cache.Filter{}, 200)
				}
			}
			const each = 3 * sweepMost
			for n := range each {
				done := mustClaim(t, s, keyed(4*n), cache.Lead)
				if err := s.Dispatch(t.Context(), done, cache.NewNonce()); err != nil {
					t.Fatal(err)
				}
				set := executed("a")
				set.Memory = time.Duration(1+rand.IntN(100)) * time.Minute
				if err := s.Settle(t.Context(), done, set); err != nil {
					t.Fatal(err)
				}
				mustClaim(t, s, keyed(4*n+1), cache.Lead) // and its holder dies
				released := mustClaim(t, s, keyed(4*n+2), cache.Lead)
				if err := s.Settle(t.Context(), released, ended(cache.Released)); err != nil {
					t.Fatal(err)
				}
			}
			unknown := mustClaim(t, s, keyed(3), cache.Lead)
			if err := s.Dispatch(t.Context(), unknown, cache.NewNonce()); err != nil {
				t.Fatal(err)
			}
			sizes := func() (all [tags]string, total int64) {
				for t := range tags {
					for _, index := range []int{inflightWrites, allWrites, unknownWrites, endsOfWrites} {
						n, _ := server.Do("zcard", writeNames[t][index]).(int64)
						all[t] += fmt.Sprint(" ", n)
						total += n
					}
				}
				return all, total
			}
			tidy()
			if all, n := sizes(); n != 2*each+2*each+2 {
				t.Errorf("before anything went, the indexes have %q", all)
			}
			clock.Pass(linger + lease + time.Minute)
			tidy()
			if stateOf(t, s, unknown.Key) != cache.Unknown {
				t.Error("what was dispatched is not unknown")
			}
			clock.Pass(2 * sweepFor)
			tidy()
			if how == "listed" { // the sweeper has the rest
				for range 8 {
					if err := s.sweepWrites(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if all, n := sizes(); n != 2 {
				t.Errorf("all is gone but one unknown outcome, and the indexes have %q", all)
			}
			if d, err := s.Doubts(t.Context()); err != nil || d["payments"] != 1 {
				t.Errorf("doubts: %v, %v", d, err)
			}
		})
	}
}

// However long nobody looks, nothing that may have been sent is forgotten.
func TestWhatWasSentNeverExpires(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	s := mustOpen(t, clock.Start().URL(), Options{})
	still(t, s)
	knowingly := func(k byte) cache.Claim {
		c := write(k)
		c.Write.Knowingly = true
		return c
	}
	for k := range byte(4) {
		h, _, err := sends(t, s, k)
		if err != nil {
			t.Fatal(err)
		}
		if k > 0 {
			if err := s.Settle(t.Context(), h, ended(cache.Unknown)); err != nil {
				t.Fatal(err)
			}
		}
		if k > 1 { // run again: claimed, or withdrawn
			h = mustClaim(t, s, knowingly(k), cache.Lead)
		}
		if k > 2 {
			err := s.Dispatch(t.Context(), h, cache.NewNonce())
			if err = errors.Join(err, s.Withdraw(t.Context(), h, cache.NewNonce())); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Renew(t.Context(), h, lease); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.Pass(1000 * time.Hour)
	for k := range byte(4) {
		mustClaim(t, s, write(k), cache.InDoubt)
	}
	if d, err := s.Doubts(t.Context()); err != nil || d["payments"] != 4 {
		t.Errorf("doubts: %v, %v", d, err)
	}
}

// The audit of all shards is one list, whatever happened in one moment.
func TestAuditOfOneMoment(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := mustOpen(t, server.URL(), Options{})
	still(t, s)
	raw := server.Client()
	const many = 300
	for n := range many {
		k := keyed(n).Key
		stamp := fmt.Sprintf("1700000000000-%d", n/40)
		if n%2 == 0 {
			stamp = fmt.Sprintf("%d-0", 1700000000000+n/32)
		}
		name := writeNames[tag(k)][auditOfWrites]
		if raw.Do(t.Context(), "xadd", name, stamp, "id", id(k), "about", "{}", "step", "1 rerun 4503599627370497 0 {}").Err() != nil {
			raw.Do(t.Context(), "xadd", name, "*", "id", id(k), "about", "{}", "step", "1 rerun 4503599627370497 0 {}")
		}
	}
	for _, limit := range []int{1, 7, 100} {
		seen := map[cache.Key]bool{}
		for cursor := ""; ; {
			page, next, err := s.Audits(t.Context(), cursor, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("%d entries, %v", len(page), err)
			}
			for _, a := range page {
				if seen[a.Key] {
					t.Fatalf("by %d, %x comes twice", limit, a.Key[:3])
				}
				seen[a.Key] = true
			}
			if cursor = next; next == "" {
				break
			}
		}
		if len(seen) != many {
			t.Errorf("by %d it has %d entries", limit, len(seen))
		}
	}
}

// The rights that the messages ask for are enough for writes.
func TestWritesByAccessList(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "root", "--appendonly", "yes", "--appendfsync", "always")
	server.Do("acl", "setuser", "gate", "on", ">pw", "~oncegate:*", "&oncegate:*", "+@all", "-@admin", "+config|get")
	s := mustOpen(t, "redis://gate:pw@"+server.Addr, Options{Replicas: 1})
	mustSecret(t, s)
	h, _, err := sends(t, s, 1)
	wasLost(t, "a dispatch without a replica", err)
	if err := s.Withdraw(t.Context(), h, cache.NewNonce()); err != nil {
		t.Error(err)
	}
	alone := mustOpen(t, "redis://gate:pw@"+server.Addr, Options{})
	h, _, err = sends(t, alone, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Settle(t.Context(), h, ended(cache.Unknown)); err != nil {
		t.Error(err)
	}
	if err := alone.Resolve(t.Context(), h.Key, cache.Resolution{Nonce: cache.NewNonce(), Result: executed("a").Result, Keep: time.Minute, Actor: "a", Reason: "two\nlines \"and\" é"}); err != nil {
		t.Error(err)
	}
	if a, _, err := alone.Audits(t.Context(), "", 9); err != nil || len(a) != 1 || a[0].Reason != "two\nlines \"and\" é" {
		t.Errorf("%+v, %v", a, err)
	}
	if all, _ := listing(t, alone, cache.Filter{}, 9); len(all) != 2 {
		t.Errorf("%+v", all)
	}
	if err := alone.sweepWrites(); err != nil {
		t.Error(err)
	}
}
