package local

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

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
