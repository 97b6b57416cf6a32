package cache

import (
	"testing"
	"time"
)

// TestDecideWrite is the table of DESIGN.md 3 as a claim of a write meets it.
func TestDecideWrite(t *testing.T) {
	fp := [32]byte{1}
	write := func(w Write) Claim { return Claim{Explicit: true, Fingerprint: fp, Write: &w} }
	plain := write(Write{})
	other := write(Write{})
	other.Fingerprint = [32]byte{2}
	aged := write(Write{Aged: true})
	knowingly := write(Write{Knowingly: true})
	otherKnowingly := other
	otherKnowingly.Write = &Write{Knowingly: true}
	again := write(Write{Again: time.Minute})
	within := write(Write{Within: time.Minute})
	otherWithin := other
	otherWithin.Write = &Write{Within: time.Minute}

	in := func(s State) View { return View{State: s, Fingerprint: fp} }
	lapsed := func(v View) View { v.Lapsed = true; return v }
	doubt := func(v View) View { v.Doubt = true; return v }
	kept := func(v View) View { v.Kept = true; return v }
	sent := func(v View, d time.Duration) View { v.Sent = d; return v }
	age := func(v View, d time.Duration) View { v.Age = d; return v }
	const minute = time.Minute

	lead, mismatch := Decision{Role: Lead}, Decision{Role: Mismatch}
	follow := Decision{Role: Follow, Share: ByKey}
	replay := Decision{Role: Replay, Share: ByKey}
	gone := Decision{Role: Gone, Share: ByKey}
	inDoubt := Decision{Role: InDoubt}
	rerun := Decision{Role: Lead, Again: true}
	found := func(d Decision) Decision { d.Lapsed = true; return d }
	for _, row := range []struct {
		name  string
		claim Claim
		view  View
		want  Decision
	}{
		{"absent", plain, View{}, lead},
		{"absent, knowingly", knowingly, View{}, lead},
		{"absent, within", within, View{}, lead},
		{"absent, aged", aged, View{}, Decision{Role: Aged}},
		{"aged and knowingly: the word is about an unknown outcome", write(Write{Aged: true, Knowingly: true}), View{}, Decision{Role: Aged}},
		{"released", plain, in(Released), lead},
		{"released, with other params: it was never used", other, in(Released), lead},

		{"claimed", plain, in(Claimed), follow},
		{"claimed, aged: it is known", aged, in(Claimed), follow},
		{"claimed, knowingly: nothing is unknown", knowingly, in(Claimed), follow},
		{"claimed, with other params", other, in(Claimed), mismatch},
		{"claimed and lapsed: nothing was sent", plain, lapsed(in(Claimed)), lead},
		{"claimed and lapsed, with other params: it was never used", other, lapsed(in(Claimed)), lead},

		{"dispatched", plain, in(Dispatched), follow},
		{"dispatched, knowingly: it runs", knowingly, in(Dispatched), follow},
		{"dispatched, again: it runs", again, in(Dispatched), follow},
		{"dispatched, within", within, age(in(Dispatched), time.Hour), follow},
		{"dispatched, with other params", other, in(Dispatched), mismatch},
		{"dispatched and lapsed", plain, lapsed(in(Dispatched)), found(inDoubt)},
		{"dispatched and lapsed, aged", aged, lapsed(in(Dispatched)), found(inDoubt)},
		{"dispatched and lapsed, knowingly", knowingly, lapsed(in(Dispatched)), found(rerun)},
		{"dispatched and lapsed, again in time", again, lapsed(sent(in(Dispatched), minute-1)), found(rerun)},
		{"dispatched and lapsed, again too late", again, lapsed(sent(in(Dispatched), minute)), found(inDoubt)},
		{"dispatched and lapsed, with other params", otherKnowingly, lapsed(in(Dispatched)), mismatch},

		{"unknown", plain, in(Unknown), inDoubt},
		{"unknown, young: only who says again", plain, sent(in(Unknown), 0), inDoubt},
		{"unknown, aged", aged, in(Unknown), inDoubt},
		{"unknown outlasts the window", within, age(in(Unknown), time.Hour), inDoubt},
		{"unknown, knowingly", knowingly, sent(in(Unknown), 1000*time.Hour), rerun},
		{"unknown, again in time", again, sent(in(Unknown), minute-1), rerun},
		{"unknown, again too late", again, sent(in(Unknown), minute), inDoubt},
		{"unknown, with other params", other, in(Unknown), mismatch},
		{"unknown, knowingly with other params", otherKnowingly, in(Unknown), mismatch},

		{"claimed again", plain, doubt(in(Claimed)), follow},
		{"claimed again, knowingly", knowingly, doubt(in(Claimed)), follow},
		{"claimed again and lapsed", plain, lapsed(doubt(in(Claimed))), inDoubt},
		{"claimed again and lapsed, with other params", other, lapsed(doubt(in(Claimed))), mismatch},
		{"claimed again and lapsed, knowingly", knowingly, lapsed(doubt(in(Claimed))), rerun},
		{"claimed again and lapsed, again in time", again, lapsed(doubt(sent(in(Claimed), minute-1))), rerun},
		{"claimed again and lapsed, again too late", again, lapsed(doubt(sent(in(Claimed), minute))), inDoubt},
		{"dispatched again and lapsed", plain, lapsed(doubt(in(Dispatched))), found(inDoubt)},

		{"completed", plain, kept(in(Completed)), replay},
		{"completed, aged: it is known", aged, kept(in(Completed)), replay},
		{"completed, knowingly: nothing is unknown", knowingly, kept(in(Completed)), replay},
		{"completed, again: nothing is unknown", again, kept(in(Completed)), replay},
		{"completed, with other params", other, kept(in(Completed)), mismatch},
		{"completed, within", within, kept(age(in(Completed), minute-1)), replay},
		{"completed, within is over", within, kept(age(in(Completed), minute)), lead},
		{"completed, within is over, with other params", otherWithin, kept(age(in(Completed), minute)), lead},
		{"completed, however old", plain, kept(age(in(Completed), 1000*time.Hour)), replay},
		{"completed, without an answer", plain, in(Completed), gone},
		{"completed, without an answer, knowingly", knowingly, in(Completed), gone},
		{"tombstone", plain, in(Tombstone), gone},
		{"tombstone, aged: it is known", aged, in(Tombstone), gone},
		{"tombstone, with other params", other, in(Tombstone), mismatch},
		{"tombstone, within", within, age(in(Tombstone), minute-1), gone},
		{"tombstone, within is over", within, age(in(Tombstone), minute), lead},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := Decide(row.claim, row.view); got != row.want {
				t.Errorf("%+v\non %+v\nis   %+v\nwant %+v", *row.claim.Write, row.view, got, row.want)
			}
		})
	}
}

// TestWritesRunOnce: whatever a claim and a record are like, nothing leads that
// may have been sent unless its caller said so or the upstream deduplicates,
// and nothing that completed is run again but by its window.
func TestWritesRunOnce(t *testing.T) {
	const ages = 2 * time.Minute
	for state := Absent; state <= Tombstone; state++ {
		if state == Failed {
			continue // no write's
		}
		for bits := range 1 << 9 {
			bit := func(n int) bool { return bits>>n&1 > 0 }
			v := View{State: state, Lapsed: bit(0), Doubt: bit(1), Kept: bit(2)}
			w := Write{Knowingly: bit(3), Aged: bit(4)}
			if bit(5) {
				w.Again = time.Minute
			}
			if bit(6) {
				w.Within = time.Minute
			}
			if bit(7) {
				v.Sent, v.Age = ages, ages
			}
			c := Claim{Explicit: true, Write: &w}
			if bit(8) {
				c.Fingerprint = [32]byte{1}
			}
			d := Decide(c, v)
			if d.Role == 0 || d.TakeDebt || (d.Role == Follow || d.Role == Replay) && d.Share != ByKey {
				t.Errorf("%+v on %+v is %+v", w, v, d)
			}
			maySent := state == Dispatched || state == Unknown || state == Claimed && v.Doubt
			ran := state == Completed || state == Tombstone
			switch {
			case d.Role != Lead:
				if d.Again {
					t.Errorf("%+v on %+v runs again and does not lead: %+v", w, v, d)
				}
			case d.Again != maySent:
				t.Errorf("%+v on %+v leads, again %v", w, v, d.Again)
			case maySent && !w.Knowingly && !(w.Again > 0 && v.Sent < w.Again),
				maySent && bit(8),
				ran && !(w.Within > 0 && v.Age >= w.Within),
				(state == Claimed || state == Dispatched) && !v.Lapsed,
				state == Absent && w.Aged:
				t.Errorf("%+v on %+v leads", w, v)
			}
			if bit(8) && (d.Role == Follow || d.Role == Replay || d.Role == Gone || d.Role == InDoubt) {
				t.Errorf("with other params %+v on %+v is %+v", w, v, d)
			}
		}
	}
}
