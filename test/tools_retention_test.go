package test

import (
	"encoding/hex"
	"fmt"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// uuid7 is a UUIDv7 of that time (RFC 9562, section 5.7).
func uuid7(at time.Time) string {
	b := make([]byte, 16)
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6], b[7], b[8], b[15] = 0x7a, 0xbc, 0x9d, 0xef
	h := hex.EncodeToString(b)
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
}

// expired is the answer to a key older than what used keys are remembered for.
var expired = problem{412, "key_expired", "false", "refused", "key_expired", ""}

// The answer goes first, the memory of its key later. Then a key that tells
// its age is refused, and only one that does not can be taken for new.
func TestToolsRetentionAndTombstone(t *testing.T) {
	t.Parallel()
	const ttl, tombstone = 2 * time.Second, 7 * time.Second
	b := openBank(t, nil, harness.Config{"dedupe.ttl.tool": ttl.String(), "dedupe.ttl.tombstone": tombstone.String()})
	dated := uuid7(time.Now())
	var settled time.Time
	for n, key := range []string{"k", dated} {
		settled = time.Now() // or later
		wantReceipt(t, b.pay(key, order), n+1, "executed", "")
		wantReceipt(t, b.pay(key, order), n+1, "replayed", "key")
	}
	b.api.Script(b.lost)
	unknown.wantTool(t, b.pay("doubt", order)) // it is remembered until somebody knows
	b.api.Script(b.paid)
	gone := func(key string, n int) {
		t.Helper()
		var a *harness.Answer
		harness.Eventually(t, harness.Patience, "the answer goes", func() bool {
			a = b.pay(key, order)
			return a.Outcome() != "replayed"
		})
		wantGone(t, a, 201, receipt(n))
		reused.wantTool(t, b.pay(key, `{"amount":11}`))
	}
	gone(dated, 2)
	if d := time.Since(settled); d < ttl {
		t.Errorf("the answer was gone after %v, it is kept for %v", d, ttl)
	}
	gone("k", 1)
	b.wantRuns(3)
	var a *harness.Answer
	harness.Eventually(t, 2*harness.Patience, "the key is forgotten", func() bool {
		a = b.pay(dated, order)
		return a.Status != 410
	})
	expired.wantTool(t, a)
	if d := time.Since(settled); d < tombstone {
		t.Errorf("the key was forgotten after %v, it is remembered for %v", d, tombstone)
	}
	harness.Eventually(t, 2*harness.Patience, "the other key is forgotten", func() bool {
		a = b.pay("k", order)
		return a.Status != 410
	})
	wantReceipt(t, a, 4, "executed", "")
	unknown.wantTool(t, b.pay("doubt", order))
	b.wantRuns(4)
}

// A key that is older than the memory was perhaps used: it runs nothing.
func TestToolsOldKeyRunsNothing(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	old := uuid7(time.Now().Add(-8 * 24 * time.Hour)) // the default is 7 days
	for _, key := range []string{old, `"` + old + `"`} {
		expired.wantTool(t, b.pay(key, order))
	}
	wantUnseen(t, b.api, 0)
	// A recent one is a key like others, and so is what only looks like one.
	wantReceipt(t, b.pay(uuid7(time.Now().Add(-6*24*time.Hour)), order), 1, "executed", "")
	wantReceipt(t, b.pay(uuid7(time.Now().Add(time.Hour)), order), 2, "executed", "")
	wantReceipt(t, b.pay("018f0000-0000-4000-8000-000000000000", order), 3, "executed", "") // version 4
	wantReceipt(t, b.pay(old+"-x", order), 4, "executed", "")
	// Nor does a read look at it.
	b.api.Script(b.runsThen(up.Status(200, "[]")))
	if a := b.Get(pay, "Idempotency-Key: "+old); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	// Completions are not held to it: running one again costs cents.
	b.api.Script(up.OK("hello"))
	if a := b.Chat(cc(), "Idempotency-Key: "+old); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A caller may ask for less time.
func TestToolsAskedTTL(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	wantReceipt(t, b.pay("k", order, "Oncegate-TTL: 1s"), 1, "executed", "")
	harness.Eventually(t, harness.Patience, "the answer goes", func() bool { return b.pay("k", order).Status == 410 })
	b.wantRuns(1)
}
