package local

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

// writeOf is a claim of the nth write.
func writeOf(n int) cache.Claim {
	c := claimOf(n, true)
	c.Write = &cache.Write{About: cache.About{Tool: "payments", Method: "POST", Path: "/v1/payments", Principal: "research"}}
	return c
}

func writeDone(n, size int) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Keep: 5 * time.Minute, Memory: time.Hour, Disk: true,
		Result: cache.Result{State: cache.Completed, Frames: answer(n, size), Status: 201, Size: int64(size), Sum: [32]byte{byte(n)}},
	}
}

func writeReleased() cache.Settlement {
	return cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}}
}

func leadWrite(t testing.TB, s *Store, c cache.Claim) cache.Hold {
	t.Helper()
	g := claimRole(t, s, c)
	if g.Role != cache.Lead {
		t.Fatalf("got %+v, want to lead", g)
	}
	return cache.Hold{Key: c.Key, Fence: g.Fence}
}

func sendWrite(t testing.TB, s *Store, c cache.Claim) cache.Hold {
	t.Helper()
	h := leadWrite(t, s, c)
	if err := s.Dispatch(t.Context(), h, cache.NewNonce()); err != nil {
		t.Fatal(err)
	}
	return h
}

func settleAs(t testing.TB, s *Store, h cache.Hold, set cache.Settlement) {
	t.Helper()
	if err := s.Settle(t.Context(), h, set); err != nil {
		t.Fatal(err)
	}
}

func wantRole(t testing.TB, s *Store, when string, c cache.Claim, want cache.Role) cache.Grant {
	t.Helper()
	g := claimRole(t, s, c)
	if g.Role != want {
		t.Errorf("%s: role %d, want %d", when, g.Role, want)
	}
	return g
}

func (s *Store) count(t testing.TB, what string) (n int) {
	t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM " + what).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWritesLeaveMemory: what is on disk need not be in memory, and is there
// again when it is asked for, its nonces too.
func TestWritesLeaveMemory(t *testing.T) {
	const bound, size, n = 1 << 20, 20_000, 200
	s := mustOpen(t, t.TempDir(), Options{MemoryBytes: bound})
	var holds []cache.Hold
	var sets []cache.Settlement
	unknown := cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Unknown, Status: 502}}
	for i := range n {
		set := writeDone(i, size)
		if i%4 == 0 {
			set = unknown
			set.Nonce = cache.NewNonce()
		}
		h := sendWrite(t, s, writeOf(i))
		settleAs(t, s, h, set)
		holds, sets = append(holds, h), append(sets, set)
		if used := s.used.Load(); used > bound {
			t.Fatalf("%d bytes are held", used)
		}
	}
	if inMemory(s) == n {
		t.Error("all of it is still in memory")
	}
	for i := range n {
		settleAs(t, s, holds[i], sets[i]) // sent again
		if i%4 == 0 {
			if g := wantRole(t, s, "evicted", writeOf(i), cache.InDoubt); g.Result.Status != 502 {
				t.Errorf("what is known of it is %+v", g.Result)
			}
			continue
		}
		g := wantRole(t, s, "evicted", writeOf(i), cache.Replay)
		if !bytes.Equal(g.Result.Frames[1].Data, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("the answer of %d is another", i)
		}
		if used := s.used.Load(); used > bound {
			t.Fatalf("%d bytes are held", used)
		}
	}
	if d, err := s.Doubts(t.Context()); err != nil || d["payments"] != n/4 {
		t.Errorf("doubts: %v, %v", d, err)
	}
	// Many that meet one that is not there have it read once, and none of them
	// leads.
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range 20 {
				want := cache.Replay
				if i%4 == 0 {
					want = cache.InDoubt
				}
				if g, err := s.Claim(t.Context(), writeOf(i)); err != nil || g.Role != want {
					t.Errorf("role %d, %v", g.Role, err)
				}
			}
		})
	}
	wg.Wait()
}

func inMemory(s *Store) (n int) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		n += len(sh.writes)
		sh.mu.Unlock()
	}
	return n
}

// TestWritesAreSwept: the answer leaves the disk, then the row; memory is
// given back; what is unknown stays.
func TestWritesAreSwept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir(), Options{})
		const n = 3*sweepRows + 1
		for i := range n {
			settleAs(t, s, sendWrite(t, s, writeOf(i)), writeDone(i, 100))
		}
		settleAs(t, s, sendWrite(t, s, writeOf(n)), cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Unknown}})
		leadWrite(t, s, writeOf(n+1)) // and nobody hears of it again
		h := sendWrite(t, s, writeOf(n+2))
		check(t, s.Withdraw(t.Context(), h, cache.NewNonce()))
		settleAs(t, s, sendWrite(t, s, writeOf(n+3)), writeReleased())
		if all, kept := s.count(t, "writes"), s.count(t, "writes WHERE frames IS NOT NULL"); all != n+2 || kept != n {
			t.Errorf("%d rows, %d with answers", all, kept)
		}
		time.Sleep(5*time.Minute + expireEvery + sweepEvery)
		if all, kept := s.count(t, "writes"), s.count(t, "writes WHERE frames IS NOT NULL"); all != n+2 || kept != 0 {
			t.Errorf("after retention %d rows, %d with answers", all, kept)
		}
		time.Sleep(15 * time.Minute)
		if got := inMemory(s); got != 0 {
			t.Errorf("%d are in memory", got)
		}
		if used := s.used.Load(); used != 0 {
			t.Errorf("%d bytes are held of nothing", used)
		}
		if all := s.count(t, "writes"); all != n+1 {
			t.Errorf("%d rows, when claims were forgotten", all)
		}
		time.Sleep(45 * time.Minute)
		if all := s.count(t, "writes"); all != 1 {
			t.Errorf("%d rows at last", all)
		}
		wantRole(t, s, "unknown", writeOf(n), cache.InDoubt)
		for _, i := range []int{0, n - 1, n + 1, n + 2, n + 3} {
			leadWrite(t, s, writeOf(i))
		}
	})
}

// TestLargeAnswers: 8 MiB come back as they were, and the list does not read
// them.
func TestLargeAnswers(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	const size = 8 << 20
	for i := range 3 {
		settleAs(t, s, sendWrite(t, s, writeOf(i)), writeDone(i, size))
	}
	check(t, s.Close())
	s = mustOpen(t, dir, Options{MemoryBytes: size})
	page, _, err := s.Records(t.Context(), cache.Filter{}, "", 10)
	if err != nil || len(page) != 3 || page[0].Size != size || page[0].State != cache.Completed {
		t.Errorf("it lists %+v, %v", page, err)
	}
	for i := range 3 {
		g := wantRole(t, s, "large", writeOf(i), cache.Replay)
		if !bytes.Equal(g.Result.Frames[1].Data, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Errorf("the answer of %d is another", i)
		}
	}
}
