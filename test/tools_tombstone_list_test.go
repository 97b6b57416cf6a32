package test

import (
	"testing"

	"github.com/tidwall/gjson"
)

// A list and a record by itself tell the same state: that of a write that happened
// and whose answer nobody has is tombstone.
func TestToolsTombstoneIsListedAsOne(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	b.api.Script(b.lost)
	record := b.pay("k", order).Header.Get("Oncegate-Key")
	if a := b.resolve(record, `{"as":"executed","reason":"on the statement"}`); a.Status != 200 || a.Field("state").String() != "tombstone" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if got := gjson.Get(ask(t, b.Gateway, "/api/records/"+record), "state").String(); got != "tombstone" {
		t.Errorf("by itself it is %s", got)
	}
	for _, query := range []string{"", "?state=tombstone"} {
		list := gjson.Get(ask(t, b.Gateway, "/api/records"+query), "records")
		if got := list.Get(`#(key="` + record + `").state`).String(); got != "tombstone" {
			t.Errorf("%s: it is listed as %q", query, got)
		}
	}
}
