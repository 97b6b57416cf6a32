package local

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

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
