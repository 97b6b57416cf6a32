package cache

import (
	"fmt"
	"testing"
)

// TestDecide is the table of DESIGN.md 3 and 4, row by row.
func TestDecide(t *testing.T) {
	fp := [32]byte{1}
	explicit := Claim{Explicit: true, Fingerprint: fp}
	other := Claim{Explicit: true, Fingerprint: [32]byte{2}}
	retry := Claim{Mode: Retries, Retry: true}
	retries, duplicates, always := Claim{Mode: Retries}, Claim{Mode: Duplicates}, Claim{Mode: Always}
	alwaysRetry := Claim{Mode: Always, Retry: true}

	absent, released := View{}, View{State: Released, Fingerprint: fp}
	flight := View{State: Dispatched}
	lapsed := View{State: Dispatched, Lapsed: true}
	done := View{State: Completed}
	cut := View{State: Completed, Cut: true}
	failed := View{State: Failed}
	owed := func(v View) View { v.Owed = true; return v }
	keyed := func(v View) View { v.Fingerprint = fp; return v }

	lead, twin, mismatch := Decision{Role: Lead}, Decision{Role: Twin}, Decision{Role: Mismatch}
	for i, row := range []struct {
		claim Claim
		view  View
		want  Decision
	}{
		{explicit, absent, lead},
		{explicit, released, lead},
		{other, released, lead}, // a released key was never used
		{retry, absent, lead},   // a retry of what nobody knows runs
		{retries, absent, lead},
		{always, absent, lead},

		{explicit, keyed(flight), Decision{Role: Follow, Share: ByKey}},
		{explicit, keyed(owed(flight)), Decision{Role: Follow, Share: ByKey}}, // takes no debt
		{explicit, keyed(done), Decision{Role: Replay, Share: ByKey}},
		{explicit, keyed(cut), Decision{Role: Replay, Share: ByKey}},
		{explicit, keyed(failed), Decision{Role: Replay, Share: ByKey}},
		{explicit, keyed(lapsed), Decision{Role: Lead, Lapsed: true}},
		{other, keyed(flight), mismatch}, // before "in flight"
		{other, keyed(lapsed), mismatch},
		{other, keyed(done), mismatch},
		{other, keyed(failed), mismatch},

		{retry, flight, Decision{Role: Follow, Share: RetryMarked}},
		{retry, owed(flight), Decision{Role: Follow, Share: RetryMarked}}, // takes no debt
		{retry, done, Decision{Role: Replay, Share: RetryMarked}},
		{retry, owed(done), Decision{Role: Replay, Share: RetryMarked}},
		{retry, cut, Decision{Role: Replay, Share: RetryMarked}},
		{retry, failed, Decision{Role: Replay, Share: RetryMarked}},
		{retry, lapsed, Decision{Role: Lead, Lapsed: true}},
		{alwaysRetry, cut, Decision{Role: Replay, Share: RetryMarked}},

		{retries, flight, twin},
		{retries, owed(flight), Decision{Role: Follow, Share: ByDebt, TakeDebt: true}},
		{retries, lapsed, Decision{Role: Lead, Lapsed: true}},
		{retries, owed(lapsed), Decision{Role: Lead, Lapsed: true}},
		{retries, done, lead},
		{retries, owed(done), Decision{Role: Replay, Share: ByDebt, TakeDebt: true}},
		{retries, owed(cut), Decision{Role: Replay, Share: ByDebt, TakeDebt: true}},
		{retries, failed, Decision{Role: Replay, Share: ByTwin}},

		{duplicates, flight, Decision{Role: Follow, Share: ByTwin}},
		{duplicates, owed(flight), Decision{Role: Follow, Share: ByDebt, TakeDebt: true}},
		{duplicates, done, lead}, // after a delivered answer, regenerate regenerates
		{duplicates, owed(done), Decision{Role: Replay, Share: ByDebt, TakeDebt: true}},
		{duplicates, failed, Decision{Role: Replay, Share: ByTwin}},

		{always, flight, Decision{Role: Follow, Share: ByTwin}},
		{always, done, Decision{Role: Replay, Share: WithinTTL}},
		{always, cut, lead}, // never a mere duplicate's answer
		{always, owed(cut), Decision{Role: Replay, Share: ByDebt, TakeDebt: true}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if got := Decide(row.claim, row.view); got != row.want {
				t.Errorf("%+v\non %+v\nis   %+v\nwant %+v", row.claim, row.view, got, row.want)
			}
		})
	}
}

// TestModesInclude: a mode shares at least what the one before it shares.
func TestModesInclude(t *testing.T) {
	shares := func(d Decision) bool { return d.Role == Follow || d.Role == Replay }
	for state := Absent; state <= Released; state++ {
		for bits := range 16 {
			v := View{State: state, Lapsed: bits&1 > 0, Cut: bits&2 > 0, Owed: bits&4 > 0}
			for mode := Retries; mode < Always; mode++ {
				less := Decide(Claim{Mode: mode, Retry: bits&8 > 0}, v)
				more := Decide(Claim{Mode: mode + 1, Retry: bits&8 > 0}, v)
				if shares(less) && !shares(more) {
					t.Errorf("mode %d shares %+v, mode %d does not", mode, v, mode+1)
				}
			}
		}
	}
}
