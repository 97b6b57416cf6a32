package test

import (
	"strings"
	"testing"
)

// Of two who decide the same write the later one is told that it was decided. To
// say that there was no such write, that it was never sent or belongs to a
// completion, is no such answer, and untrue.
func TestToolsTheLaterVerdictIsTold(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for _, first := range []string{"executed", "not-executed"} {
		b.api.Script(b.lost)
		record := b.pay(first, order).Header.Get("Oncegate-Key")
		if a := b.resolve(record, `{"as":"`+first+`","reason":"I saw it","actor":"ada"}`); a.Status != 200 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		a := b.resolve(record, `{"as":"executed","reason":"I saw it too","actor":"kim"}`)
		if a.Status != 409 || a.Field("error.code").String() != "outcome_not_unknown" || strings.Contains(a.Body, "never sent") {
			t.Errorf("after %q: %d %s", first, a.Status, a.Body)
		}
	}
}
