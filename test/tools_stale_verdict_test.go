package test

import (
	"encoding/json"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// Two people look at the same write in doubt. One says that it did not happen,
// its caller repeats it, and that run is in doubt too. What the other has found
// out is about the first run: the page sends the fence that the list gave it, and
// a list that gives none lets the verdict fall on a run that nobody looked at.
func TestToolsAVerdictIsOfTheRunThatWasListed(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(up.Cut, b.lost, b.paid) // the first did not happen, the second did
	record := b.pay("k", order).Header.Get("Oncegate-Key")
	seen := b.unknowns().Get(`#(key="` + record + `")`) // by the one who thinks longer
	if a := b.resolve(record, `{"as":"not-executed","reason":"no trace of it","actor":"ada"}`); a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	unknown.wantTool(t, b.pay("k", order))

	said := harness.Map{"as": "not-executed", "reason": "no trace of it", "actor": "kim"}
	if fence := seen.Get("fence"); fence.Exists() { // as web/app/doubt.js has it
		said["fence"] = fence.Uint()
	}
	text, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	if a := b.resolve(record, string(text)); a.Status != 409 {
		t.Errorf("what was found out of the first run was taken for the second: %d %s", a.Status, a.Body)
	}
	unknown.wantTool(t, b.pay("k", order))
	b.wantRuns(1)
}
