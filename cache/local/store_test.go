package local

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"oncegate/cache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func claimOf(n int, explicit bool) cache.Claim {
	c := cache.Claim{
		Key: cache.Key{byte(n), byte(n >> 8), byte(n >> 16), 9}, Nonce: cache.NewNonce(),
		Mode: cache.Always, Lease: 15 * time.Second, Explicit: explicit,
	}
	if explicit {
		c.Fingerprint = [32]byte{1}
	}
	return c
}

func answer(n, size int) []cache.Frame {
	return []cache.Frame{
		{Kind: cache.HeadFrame, Head: &cache.Head{Status: 200}},
		{Kind: cache.BodyFrame, Data: bytes.Repeat([]byte{byte(n)}, size)},
	}
}

func completedAs(frames []cache.Frame, disk bool) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Keep: 5 * time.Minute, Debt: 2 * time.Minute, Disk: disk,
		Result: cache.Result{State: cache.Completed, Frames: frames},
	}
}

// run claims, leads and settles.
func run(t testing.TB, s *Store, c cache.Claim, set cache.Settlement) cache.Hold {
	t.Helper()
	g, err := s.Claim(t.Context(), c)
	if err != nil || g.Role != cache.Lead {
		t.Fatalf("claim: %+v, %v", g, err)
	}
	h := cache.Hold{Key: c.Key, Fence: g.Fence}
	if err := s.Settle(t.Context(), h, set); err != nil {
		t.Fatalf("settle: %v", err)
	}
	return h
}

func claimRole(t testing.TB, s *Store, c cache.Claim) cache.Grant {
	t.Helper()
	g, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (s *Store) rows(t testing.TB) (n int) {
	t.Helper()
	if err := s.db.QueryRow("SELECT count(*) FROM records").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMemoryIsBounded: what is evicted is read from disk again where it was
// promised, and is gone where it was not.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, size, n = 1 << 20, 20_000, 200
		s := mustOpen(t, t.TempDir(), Options{MemoryBytes: bound})
		for i := range n {
			run(t, s, claimOf(i, true), completedAs(answer(i, size), true))
			run(t, s, claimOf(n+i, false), completedAs(answer(i, size), false))
			if used := s.used.Load(); used > bound {
				t.Fatalf("%d bytes are held", used)
			}
		}
		for i := range n {
			g := claimRole(t, s, claimOf(i, true))
			if g.Role != cache.Replay || !bytes.Equal(g.Result.Frames[1].Data, bytes.Repeat([]byte{byte(i)}, size)) {
				t.Fatalf("explicit key %d: role %d", i, g.Role)
			}
			if used := s.used.Load(); used > bound {
				t.Fatalf("%d bytes are held", used)
			}
		}
		if g := claimRole(t, s, claimOf(n, false)); g.Role != cache.Lead {
			t.Errorf("the oldest derived record is still there: %+v", g)
		}
		// One larger than all of it is answered too.
		run(t, s, claimOf(3*n, true), completedAs(answer(1, 2*bound), true))
		if g := claimRole(t, s, claimOf(3*n, true)); g.Role != cache.Replay || len(g.Result.Frames[1].Data) != 2*bound {
			t.Errorf("a large answer: %+v", g.Role)
		}
		if used := s.used.Load(); used > bound {
			t.Errorf("%d bytes are held", used)
		}
		time.Sleep(5*time.Minute + sweepEvery)
		if used := s.used.Load(); used != 0 {
			t.Errorf("%d bytes are held of nothing", used)
		}
	})
}

// TestManyReadOneBody: claims that meet an evicted body all get it.
func TestManyReadOneBody(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{MemoryBytes: 1})
	run(t, s, claimOf(1, true), completedAs(answer(7, 50_000), true))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			g, err := s.Claim(t.Context(), claimOf(1, true))
			if err != nil || g.Role != cache.Replay || len(g.Result.Frames[1].Data) != 50_000 {
				t.Errorf("%v, %v", g.Role, err)
			}
		})
	}
	wg.Wait()
}

// TestSweep: expired records leave memory and disk.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustOpen(t, t.TempDir(), Options{})
		for i := range 3 * sweepBatch {
			c := claimOf(0, i%2 == 0)
			c.Key[1] = byte(i) // all in one shard
			run(t, s, c, completedAs(answer(i, 10), i%2 == 0))
		}
		claimRole(t, s, claimOf(5000, false)) // never settled
		if n := s.rows(t); n != 3*sweepBatch/2 {
			t.Fatalf("%d rows", n)
		}
		time.Sleep(5*time.Minute + 2*sweepEvery)
		synctest.Wait()
		if n := s.rows(t); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		time.Sleep(forgetFlight)
		for i := range s.shards {
			sh := &s.shards[i]
			sh.mu.Lock()
			if len(sh.records)+len(sh.deadlines) > 0 || sh.flights.first != nil || sh.recent.first != nil {
				t.Errorf("shard %d holds %d records, %d deadlines", i, len(sh.records), len(sh.deadlines))
			}
			sh.mu.Unlock()
		}
	})
}

// TestOnlyPromisedRecordsTouchTheDisk: a unique derived request has no SQL.
func TestOnlyPromisedRecordsTouchTheDisk(t *testing.T) {
	synctest.Test(t, onlyPromisedRecordsTouchTheDisk)
}

func onlyPromisedRecordsTouchTheDisk(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	before := s.writer.batches.Load()
	for i := range 100 {
		run(t, s, claimOf(i, false), completedAs(answer(i, 10), false))
		claimRole(t, s, claimOf(i, false))
		failed := completedAs(answer(i, 10), true)
		failed.Result.State = cache.Failed
		run(t, s, claimOf(1000+i, true), failed)
	}
	if n := s.writer.batches.Load() - before; n != 0 {
		t.Errorf("the writer wrote %d times", n)
	}
	run(t, s, claimOf(5000, true), completedAs(answer(1, 10), true))
	if n := s.writer.batches.Load() - before; n != 1 {
		t.Errorf("the writer wrote %d times, want once", n)
	}
}

// TestReplacedRecordLeavesTheDisk: an owed answer that a duplicate replaced
// does not come back after a crash.
func TestReplacedRecordLeavesTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		set := completedAs(answer(1, 10), false)
		set.Owed = []time.Time{time.Now()}
		c := claimOf(1, false)
		c.Mode = cache.Duplicates
		run(t, s, c, set)
		synctest.Wait()
		if n := s.rows(t); n != 1 {
			t.Fatalf("%d rows", n)
		}
		c.Nonce = cache.NewNonce()
		if g := claimRole(t, s, c); g.Share != cache.ByDebt {
			t.Fatalf("%+v", g)
		}
		c.Nonce = cache.NewNonce()
		run(t, s, c, completedAs(answer(2, 10), false))
		synctest.Wait()
		if n := s.rows(t); n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// TestDiskFails: a failed commit is told to who settles, and the answer is
// kept in memory.
func TestDiskFails(t *testing.T) {
	var told []string
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Oops: func(step string, err error) { told = append(told, step) }})
	if _, err := s.db.Exec("CREATE TRIGGER full BEFORE INSERT ON records WHEN length(new.frames) > 5000 BEGIN SELECT RAISE(ABORT, 'no room'); END"); err != nil {
		t.Fatal(err)
	}
	c := claimOf(1, true)
	g := claimRole(t, s, c)
	err := s.Settle(t.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, completedAs(answer(1, 9000), true))
	if err == nil || !strings.Contains(err.Error(), "no room") || !strings.Contains(err.Error(), "memory only") {
		t.Errorf("the error is %v", err)
	}
	if g := claimRole(t, s, claimOf(1, true)); g.Role != cache.Replay {
		t.Errorf("but it answers repeats: %+v", g)
	}
	run(t, s, claimOf(2, true), completedAs(answer(1, 10), true)) // others go on
	if _, err := s.db.Exec("DROP TRIGGER full"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || len(told) > 0 {
		t.Errorf("%v, %v", err, told)
	}
}

// TestOneBadChangeTakesNoOtherWithIt: a batch that fails is done one by one.
func TestOneBadChangeTakesNoOtherWithIt(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	if _, err := s.db.Exec("CREATE TRIGGER full BEFORE INSERT ON records WHEN length(new.frames) > 5000 BEGIN SELECT RAISE(ABORT, 'no room'); END"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			size := 10
			if i%8 == 0 {
				size = 9000
			}
			c := claimOf(i, true)
			g, err := s.Claim(context.Background(), c)
			if err != nil {
				t.Error(err)
			}
			err = s.Settle(context.Background(), cache.Hold{Key: c.Key, Fence: g.Fence}, completedAs(answer(i, size), true))
			if (err != nil) != (size > 5000) {
				t.Errorf("%d bytes: %v", size, err)
			}
		})
	}
	wg.Wait()
	if n := s.rows(t); n != 56 {
		t.Errorf("%d rows, want 56", n)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		start := time.Now()
		_, err := Open(dir, Options{LockWait: 2 * time.Second})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d", os.Getpid())) {
			t.Fatalf("a second start: %v", err)
		}
		if waited := time.Since(start); waited < 2*time.Second || waited > 3*time.Second {
			t.Errorf("it waited %v", waited)
		}
		time.AfterFunc(time.Second, func() { s.Close() })
		second := mustOpen(t, dir, Options{LockWait: time.Minute})
		if waited := time.Since(start); waited > 4*time.Second {
			t.Errorf("the directory was free after 3 s, and opened after %v", waited)
		}
		second.Close()
	})
}

func TestSecretOverride(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{Secret: []byte("given")})
	if b, _ := s.Secret(t.Context()); string(b) != "given" {
		t.Errorf("the secret is %q", b)
	}
	s.Close()
	if b, _ := mustOpen(t, dir, Options{}).Secret(t.Context()); len(b) != 32 || string(b) == "given" {
		t.Errorf("without the option it is %d bytes", len(b))
	}
}

func TestFilesAreNobodyElses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a?b#c%20", "data")
	s := mustOpen(t, dir, Options{})
	run(t, s, claimOf(1, true), completedAs(answer(1, 10), true))
	if _, err := s.Journal().Begin(cache.Hold{}, "a/b"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 4 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v, %v", e.Name(), info.Mode(), err)
		}
	}
}

// TestUnusableDatabase: the error names the file and says what to do.
func TestUnusableDatabase(t *testing.T) {
	make := func(t *testing.T) (dir, file string) {
		dir = t.TempDir()
		s := mustOpen(t, dir, Options{})
		for i := range 50 {
			run(t, s, claimOf(i, true), completedAs(answer(i, 3000), true))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return dir, filepath.Join(dir, "oncegate.db")
	}
	change := func(file, stmt string) error {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.Exec(stmt)
		return err
	}
	for _, c := range []struct {
		name  string
		spoil func(file string) error
		want  []string
	}{
		{"not a database", func(file string) error {
			return os.WriteFile(file, bytes.Repeat([]byte("notes\n"), 1000), 0o600)
		}, []string{"not this program's", "store.url"}},
		{"another program's", func(file string) error {
			return errors.Join(os.Remove(file), change(file, "CREATE TABLE t (x); INSERT INTO t VALUES (1)"))
		}, []string{"another program", "store.url"}},
		{"a later version's", func(file string) error {
			return change(file, "UPDATE meta SET value = 99 WHERE name = 'schema'")
		}, []string{"version 99", "up to 3", "later version"}},
		{"cut short", func(file string) error { return os.Truncate(file, 8192) }, []string{"damaged", "move it"}},
		{"overwritten", func(file string) error {
			b, err := os.ReadFile(file)
			for i := 4096; i < len(b); i++ {
				b[i] = 0x5a
			}
			return errors.Join(err, os.WriteFile(file, b, 0o600))
		}, []string{"damaged", "move it"}},
		{"without its secret", func(file string) error { return change(file, "DELETE FROM meta WHERE name = 'secret'") },
			[]string{"damaged", "no secret"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, file := make(t)
			if err := c.spoil(file); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, Options{})
			if err == nil {
				s.Close()
				t.Fatal("it opened")
			}
			for _, want := range append(c.want, file) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not say %q", err, want)
				}
			}
			// And the directory is let go.
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			os.Remove(file + "-wal")
			os.Remove(file + "-shm")
			mustOpen(t, dir, Options{})
		})
	}
}

// TestDamagedAnswer: one that can't be read is told, dropped, and run again.
func TestDamagedAnswer(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	run(t, s, claimOf(1, true), completedAs(answer(1, 10), true))
	run(t, s, claimOf(2, true), completedAs(answer(2, 10), true))
	if _, err := s.db.Exec("UPDATE records SET frames = substr(frames, 1, 10) WHERE key = ?", keyOf(1)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	var told []string
	s = mustOpen(t, dir, Options{Oops: func(step string, err error) { told = append(told, err.Error()) }})
	if g := claimRole(t, s, claimOf(1, true)); g.Role != cache.Lead {
		t.Errorf("it is %+v", g)
	}
	if len(told) != 1 || !strings.Contains(told[0], "damaged") {
		t.Errorf("told: %q", told)
	}
	if g := claimRole(t, s, claimOf(2, true)); g.Role != cache.Replay {
		t.Errorf("the other is %+v", g)
	}
}

func keyOf(n int) []byte { k := claimOf(n, true).Key; return k[:] }

// TestWallClockAtStart: a record that was settled in what is now the future
// lives no longer than it was settled for.
func TestWallClockAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		set := completedAs(answer(1, 10), true)
		set.Owed = []time.Time{time.Now()}
		run(t, s, claimOf(1, true), set)
		run(t, s, claimOf(2, true), completedAs(answer(2, 10), true))
		// As if the clock had been set back by a day, and on by an hour.
		day, hour := int64(24*time.Hour), int64(time.Hour)
		for n, shift := range map[int]int64{1: day, 2: -hour} {
			if _, err := s.db.Exec("UPDATE records SET settled = settled + ? WHERE key = ?", shift, keyOf(n)); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		s = mustOpen(t, dir, Options{})
		g := claimRole(t, s, claimOf(1, true))
		if g.Role != cache.Replay || time.Since(g.Result.Settled) > time.Second {
			t.Errorf("%+v", g)
		}
		if g := claimRole(t, s, claimOf(2, true)); g.Role != cache.Lead {
			t.Errorf("an hour later it is %+v", g)
		}
		time.Sleep(5 * time.Minute)
		if g := claimRole(t, s, claimOf(1, true)); g.Role != cache.Lead {
			t.Errorf("after its retention it is %+v", g)
		}
	})
}

// TestFencesAreReserved: the block is extended long before it is used up.
func TestFencesAreReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		s.fence.Add(fenceBlock/2 + 5)
		time.Sleep(sweepEvery)
		synctest.Wait()
		s.fence.Add(fenceBlock / 2) // beyond the first block
		last := claimRole(t, s, claimOf(1, false)).Fence
		s.Close()
		s = mustOpen(t, dir, Options{})
		if next := claimRole(t, s, claimOf(1, false)).Fence; next <= last {
			t.Errorf("fence %d after %d", next, last)
		}
	})
}

// TestWhileOnItsWayToDisk: until a settlement is on disk its record is in
// flight, and what comes meanwhile is not lost.
func TestWhileOnItsWayToDisk(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	begin := func(n int) (cache.Hold, cache.Settlement) {
		c := claimOf(n, true)
		h := cache.Hold{Key: c.Key, Fence: claimRole(t, s, c).Fence}
		set := completedAs(answer(n, 10), true)
		set.Lines = []cache.Line{numbered(n)}
		return h, set
	}
	errs := make(chan error, 8)
	settle := func(ctx context.Context, h cache.Hold, set cache.Settlement) {
		errs <- s.Settle(ctx, h, set)
	}
	pending := func(h cache.Hold) bool {
		sh := s.shard(h.Key)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		return sh.records[h.Key].pending != nil
	}
	tx, err := s.db.Begin() // the writer waits for it
	if err != nil {
		t.Fatal(err)
	}
	one, set := begin(1)
	two, late := begin(3)
	three, unheard := begin(2)
	ctx, cancel := context.WithCancel(t.Context())
	overtaken := make(chan error, 1)
	go settle(t.Context(), one, set)
	go func() { overtaken <- s.Settle(t.Context(), two, late) }()
	go settle(ctx, three, unheard)
	for !pending(one) || !pending(two) || !pending(three) {
		select {
		case err := <-errs:
			t.Fatalf("settled before it was on disk: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-errs; !errors.Is(err, cache.ErrAway) {
		t.Errorf("a caller that waits no longer got %v", err)
	}
	if g := claimRole(t, s, claimOf(1, true)); g.Role != cache.Follow {
		t.Errorf("a duplicate got %+v", g)
	}
	go settle(t.Context(), one, set) // sent again
	if err := s.Owe(t.Context(), one, cache.NewNonce(), time.Minute); err != nil {
		t.Fatal(err)
	}
	// The lease of the second lapses, and another leads before it is there.
	sh := s.shard(two.Key)
	sh.mu.Lock()
	sh.records[two.Key].lease = time.Now()
	sh.mu.Unlock()
	if g := claimRole(t, s, claimOf(3, true)); g.Role != cache.Lead || !g.Lapsed {
		t.Errorf("after the lease: %+v", g)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Errorf("settle: %v", err)
		}
	}
	if err := <-overtaken; !errors.Is(err, cache.ErrFenced) {
		t.Errorf("a settlement that was overtaken: %v", err)
	}
	hasFirst(t, s, "without that of the overtaken one", 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	hasFirst(t, s, "after a restart", 2)
	if n := s.rows(t); n != 2 {
		t.Errorf("%d rows, want the first and the third", n)
	}
	unmarked := claimOf(1, false)
	unmarked.Mode = cache.Retries
	if g := claimRole(t, s, unmarked); g.Share != cache.ByDebt {
		t.Errorf("the debt is gone: %+v", g)
	}
}
