package browser

import "testing"

// A ledger of thousands of users is no page of thousands of lines: it says how
// many more there are, and has all of them in its sum and in the CSV.
func TestLedgerOfManyUsers(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit("/ledger?by=user")
	all := p.text("tfoot")
	f.users = 2001
	p.visit("/ledger?by=user")
	p.want("main", "1,801 more are in the CSV, and in the sum.")
	if got := p.eval(`document.querySelector("tbody").rows.length`); got != "200" {
		t.Errorf("it has %s lines", got)
	}
	if got := p.text("tfoot"); got != all {
		t.Errorf("the foot is %q, not %q", got, all)
	}
}
