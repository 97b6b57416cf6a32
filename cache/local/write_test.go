package local

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

// TestWriteCrashPoints: as a kill after each step leaves the directory, what
// was acknowledged is there, and what may have been sent is unknown at once,
// not when a lease lapses.
func TestWriteCrashPoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		lapse := writeOf(1)
		lapse.Lapses = []cache.Line{numbered(1)}
		var h cache.Hold
		again := writeOf(1)
		again.Write.Knowingly = true
		for _, step := range []struct {
			what   string
			do     func()
			free   bool
			role   cache.Role // of a claim with the same params; of another Mismatch, unless it is free
			booked int64
			doubts int64
		}{
			{"claimed", func() { h = leadWrite(t, s, lapse) }, true, cache.Lead, 0, 0},
			{"dispatched", func() { check(t, s.Dispatch(t.Context(), h, cache.NewNonce())) }, false, cache.InDoubt, 1, 1},
			{"withdrawn", func() {
				check(t, s.Withdraw(t.Context(), h, cache.NewNonce()))
				check(t, s.flush(t.Context()))
			}, true, cache.Lead, 0, 0},
			{"released", func() { settleAs(t, s, h, writeReleased()) }, true, cache.Lead, 0, 0},
			{"dispatched anew", func() { lapse.Nonce = cache.NewNonce(); h = sendWrite(t, s, lapse) }, false, cache.InDoubt, 1, 1},
			{"unknown", func() {
				settleAs(t, s, h, cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Unknown, Status: 500}})
			}, false, cache.InDoubt, 0, 1},
			{"claimed again", func() { h = leadWrite(t, s, again) }, false, cache.InDoubt, 0, 1},
			{"dispatched again", func() { check(t, s.Dispatch(t.Context(), h, cache.NewNonce())) }, false, cache.InDoubt, 0, 1},
			{"withdrawn again", func() {
				check(t, s.Withdraw(t.Context(), h, cache.NewNonce()))
				check(t, s.flush(t.Context()))
			}, false, cache.InDoubt, 0, 1},
			{"released again", func() { settleAs(t, s, h, writeReleased()) }, false, cache.InDoubt, 0, 1},
			{"completed", func() { settleAs(t, s, h, writeDone(1, 10)) }, false, cache.Replay, 0, 0},
		} {
			step.do()
			left := mustOpen(t, copyDir(t, dir), Options{})
			other := writeOf(1)
			other.Fingerprint = [32]byte{2}
			role := cache.Mismatch
			if step.free {
				role = cache.Lead
			}
			if d, err := left.Doubts(t.Context()); err != nil || d["payments"] != step.doubts {
				t.Errorf("%s: doubts %v, %v", step.what, d, err)
			}
			if g := wantRole(t, left, step.what+", other params", other, role); g.Role == cache.Lead {
				settleAs(t, left, cache.Hold{Key: other.Key, Fence: g.Fence}, writeReleased())
			}
			wantRole(t, left, step.what, writeOf(1), step.role)
			if got := ledgerTotal(t, left, cache.Minute).Requests; got != step.booked {
				t.Errorf("%s: %d lines are booked, want %d", step.what, got, step.booked)
			}
			check(t, left.Close())
			left = mustOpen(t, left.dir, Options{})
			if got := ledgerTotal(t, left, cache.Minute).Requests; got != step.booked {
				t.Errorf("%s, and started again: %d lines are booked, want %d", step.what, got, step.booked)
			}
			check(t, left.Close())
		}
		check(t, s.Close())
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWriteKillNine: a killed process leaves every dispatch and settlement
// that had returned.
func TestWriteKillNine(t *testing.T) {
	if dir := os.Getenv("ONCEGATE_TEST_KILL_WRITES"); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWriteKillNine$")
	cmd.Env = append(os.Environ(), "ONCEGATE_TEST_KILL_WRITES="+dir)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	did := map[int]string{}
	for lines := bufio.NewScanner(out); len(did) < 300 && lines.Scan(); {
		var n int
		var what string
		if _, err := fmt.Sscanf(lines.Text(), "write %d %s", &n, &what); err == nil {
			did[n] = what
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(did) < 300 {
		t.Fatalf("it did %d", len(did))
	}
	s := mustOpen(t, dir, Options{})
	for n, what := range did {
		g := claimRole(t, s, writeOf(n))
		switch { // it may have come further than it told
		case what == "settled" && (g.Role != cache.Replay || g.Result.Frames[1].Data[0] != byte(n)),
			what == "dispatched" && g.Role != cache.InDoubt && g.Role != cache.Replay,
			what == "claimed" && g.Role != cache.Lead && g.Role != cache.InDoubt && g.Role != cache.Replay:
			t.Errorf("write %d was %s, and is role %d", n, what, g.Role)
		}
	}
}

// writeUntilKilled writes with a few at once, of which every third stays
// dispatched, and every seventh claimed.
func writeUntilKilled(t *testing.T, dir string) {
	s := mustOpen(t, dir, Options{})
	deadline := time.Now().Add(time.Minute) // should its parent be gone
	var wg sync.WaitGroup
	for writer := range 4 {
		wg.Go(func() {
			for n := writer; time.Now().Before(deadline); n += 4 {
				h := leadWrite(t, s, writeOf(n))
				fmt.Println("write", n, "claimed")
				if n%7 == 0 {
					continue
				}
				if err := s.Dispatch(context.Background(), h, cache.NewNonce()); err != nil {
					t.Error(err)
				}
				fmt.Println("write", n, "dispatched")
				if n%3 == 0 {
					continue
				}
				settleAs(t, s, h, writeDone(n, 500))
				fmt.Println("write", n, "settled")
			}
		})
	}
	wg.Wait()
}

// TestVersionTwo brings up a database that was made before there were records
// of writes.
func TestVersionTwo(t *testing.T) {
	b, err := os.ReadFile("testdata/version2.db")
	check(t, err)
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "oncegate.db"), b, 0o600))
	for round := 1; round <= 2; round++ {
		s := mustOpen(t, dir, Options{})
		// Kept for two hundred years, as is what was booked.
		if g := claimRole(t, s, claimOf(1, true)); g.Role != cache.Replay || len(g.Result.Frames) != 2 {
			t.Errorf("its record is %+v", g)
		}
		if got := ledgerTotal(t, s, cache.Day); got.Requests != 1 || got.Billed != 1 {
			t.Errorf("its ledger has %+v", got)
		}
		settleAs(t, s, sendWrite(t, s, writeOf(100+round)), writeDone(round, 10))
		for n := 1; n <= round; n++ {
			wantRole(t, s, "brought up", writeOf(100+n), cache.Replay)
		}
		check(t, s.Close())
	}
}

// TestAuditIsNotEdited: not by this program, and not with another one either.
func TestAuditIsNotEdited(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	for n := range 3 {
		settleAs(t, s, sendWrite(t, s, writeOf(n)), cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Unknown}})
		check(t, s.Resolve(t.Context(), writeOf(n).Key, cache.Resolution{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}, Actor: "ops"}))
	}
	for _, edit := range []string{
		"UPDATE audit SET step = '{}'", "UPDATE audit SET id = 9 WHERE id = 1", "DELETE FROM audit", "DELETE FROM audit WHERE id = 2",
		"INSERT OR REPLACE INTO audit (id, key, at, about, step) VALUES (1, x'00', 0, '{}', '{}')",
		"REPLACE INTO audit (id, key, at, about, step) VALUES (3, x'00', 0, '{}', '{}')",
	} {
		if _, err := s.db.Exec(edit); err == nil || !strings.Contains(err.Error(), "not edited") {
			t.Errorf("%s: %v", edit, err)
		}
	}
	page, _, err := s.Audits(t.Context(), "", 10)
	if err != nil || len(page) != 3 || page[0].Key != writeOf(2).Key || page[0].Actor != "ops" {
		t.Errorf("the audit is %+v, %v", page, err)
	}
}

// fillWrites has no row of a write written until it is told to.
func fillWrites(t testing.TB, s *Store) (free func()) {
	t.Helper()
	for _, when := range []string{"INSERT", "UPDATE", "DELETE"} {
		if _, err := s.db.Exec("CREATE TRIGGER full_" + when + " BEFORE " + when + " ON writes BEGIN SELECT RAISE(ABORT, 'no room'); END"); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		for _, when := range []string{"INSERT", "UPDATE", "DELETE"} {
			if _, err := s.db.Exec("DROP TRIGGER full_" + when); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestWriteDiskFails: a step that can't be written changes nothing, and is
// taken when it is sent again; what lapsed meanwhile is written and booked,
// once, when it can be.
func TestWriteDiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{Oops: func(step string, err error) { told.Add(1) }})
		fails := func(step string, err error) {
			t.Helper()
			if !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), "no room") {
				t.Errorf("%s: %v", step, err)
			}
		}
		ctx := t.Context()
		sent := sendWrite(t, s, writeOf(1))
		doubt := sendWrite(t, s, writeOf(2))
		lost := cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Unknown}}
		settleAs(t, s, doubt, lost)
		c := writeOf(3)
		c.Lapses = []cache.Line{numbered(1)}
		sendWrite(t, s, c)
		claim := leadWrite(t, s, writeOf(4))

		free := fillWrites(t, s)
		dispatch, settlement := cache.NewNonce(), writeDone(1, 10)
		resolution := cache.Resolution{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}, Actor: "ops"}
		fails("dispatch", s.Dispatch(ctx, claim, dispatch))
		wantRole(t, s, "not dispatched", writeOf(4), cache.Follow)
		settlement.Lines = []cache.Line{numbered(2)}
		fails("settle", s.Settle(ctx, sent, settlement))
		wantRole(t, s, "not settled", writeOf(1), cache.Follow)
		fails("settle sent again", s.Settle(ctx, sent, settlement))
		fails("resolve", s.Resolve(ctx, doubt.Key, resolution))
		wantRole(t, s, "not resolved", writeOf(2), cache.InDoubt)
		if page, _, err := s.Audits(ctx, "", 10); err != nil || len(page) != 0 {
			t.Errorf("the audit is %+v, %v", page, err)
		}
		_, err := s.Renew(ctx, sent, time.Hour)
		check(t, err)
		time.Sleep(16 * time.Second)
		wantRole(t, s, "lapsed", writeOf(3), cache.InDoubt)
		wantRole(t, s, "lapsed before it was dispatched", writeOf(4), cache.Lead)
		time.Sleep(10 * time.Second)
		if got := ledgerTotal(t, s, cache.Minute).Requests; got != 0 || told.Load() == 0 {
			t.Errorf("%d lines are booked, %d faults were told", got, told.Load())
		}

		free()
		check(t, s.Settle(ctx, sent, settlement))
		wantRole(t, s, "settled", writeOf(1), cache.Replay)
		check(t, s.Resolve(ctx, doubt.Key, resolution))
		check(t, s.Resolve(ctx, doubt.Key, resolution))
		wantRole(t, s, "resolved", writeOf(2), cache.Lead)
		if page, _, err := s.Audits(ctx, "", 10); err != nil || len(page) != 1 {
			t.Errorf("the audit is %+v, %v", page, err)
		}
		time.Sleep(2 * sweepEvery)
		if n := s.count(t, "writes WHERE state = 6 AND lost"); n != 1 {
			t.Errorf("%d lapsed ones are on disk, want 1", n)
		}
		check(t, s.Close())
		s = mustOpen(t, dir, Options{})
		wantRole(t, s, "lapsed", writeOf(3), cache.InDoubt)
		wantRole(t, s, "settled late", writeOf(1), cache.Replay)
		if got := ledgerTotal(t, s, cache.Minute).Requests; got != 2 {
			t.Errorf("%d lines are booked, want 2", got)
		}
		check(t, s.Close())
	})
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

// TestDamagedWrite: an answer that can't be read is gone, and never a reason
// to run again; a row that can't be read is no reason either.
func TestDamagedWrite(t *testing.T) {
	var told []string
	s := mustOpen(t, t.TempDir(), Options{MemoryBytes: 1, Oops: func(step string, err error) { told = append(told, step) }})
	for i := range 2 {
		settleAs(t, s, sendWrite(t, s, writeOf(i)), writeDone(i, 100))
	}
	exec := func(text string, k cache.Key) {
		t.Helper()
		_, err := s.db.Exec(text, k[:])
		check(t, err)
	}
	exec("UPDATE writes SET frames = x'0123' WHERE key = ?", writeOf(0).Key)
	exec("UPDATE writes SET trail = 'x' WHERE key = ?", writeOf(1).Key)
	if g := wantRole(t, s, "a damaged answer", writeOf(0), cache.Gone); g.Result.Status != 201 {
		t.Errorf("what is known of it is %+v", g.Result)
	}
	if len(told) != 1 {
		t.Errorf("told of %v", told)
	}
	if g, err := s.Claim(t.Context(), writeOf(1)); !errors.Is(err, cache.ErrAway) || !errors.Is(err, errDamaged) {
		t.Errorf("a damaged row gave %+v, %v", g, err)
	}
}

// TestWriteWallClockAtStart: a clock that was set back between two starts makes
// no answer live longer.
func TestWriteWallClockAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		settleAs(t, s, sendWrite(t, s, writeOf(1)), writeDone(1, 10))
		check(t, s.Close())
		// The clock was a day ahead then.
		db, err := sql.Open("sqlite", filepath.Join(dir, "oncegate.db"))
		check(t, err)
		const day = int64(24 * time.Hour)
		_, err = db.Exec("UPDATE writes SET claimed = claimed + ?1, dispatched = dispatched + ?1, settled = settled + ?1, expires = expires + ?1, forgotten = forgotten + ?1", day)
		check(t, errors.Join(err, db.Close()))
		s = mustOpen(t, dir, Options{})
		g := wantRole(t, s, "set back", writeOf(1), cache.Replay)
		if age := time.Since(g.Result.Settled); age < 0 || age > time.Second {
			t.Errorf("it settled %v ago", age)
		}
		time.Sleep(5 * time.Minute)
		wantRole(t, s, "set back, and kept no longer", writeOf(1), cache.Gone)
		check(t, s.Close())
	})
}

// TestDispatchIsSynced: what a dispatch waits for is a commit that was synced,
// and what nobody waits for is not.
func TestDispatchIsSynced(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	check(t, s.flush(t.Context()))
	if s.writer.synced {
		t.Error("it syncs what nobody waits for")
	}
	h := sendWrite(t, s, writeOf(1))
	if !s.writer.synced { // this one waited for it
		t.Error("a dispatch was not synced")
	}
	check(t, s.Withdraw(t.Context(), h, cache.NewNonce()))
	check(t, s.flush(t.Context()))
	if s.writer.synced {
		t.Error("it syncs what nobody waits for")
	}
}

// TestStartScansNoRows: what a start looks for, and what the sweeper does, is
// found by an index however many rows there are.
func TestStartScansNoRows(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	for query, args := range map[string]int{
		freeClaimed: 0, bookLapses: 0, doubtFlights: 3, countDoubts: 0, answersDue: 2, keysDue: 2,
	} {
		rows, err := s.db.Query("EXPLAIN QUERY PLAN "+query, make([]any, args)...)
		check(t, err)
		for rows.Next() {
			var id, parent, unused int
			var detail string
			check(t, rows.Scan(&id, &parent, &unused, &detail))
			if strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, "USING") {
				t.Errorf("%s: %s", query, detail)
			}
		}
		check(t, errors.Join(rows.Err(), rows.Close()))
	}
}
