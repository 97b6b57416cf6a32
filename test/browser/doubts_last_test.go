package browser

import (
	"testing"

	"oncegate/test/up"
)

// A write that was answered with a 500 is in doubt, and something did come since
// it was sent. The list that the page is made of has no last event, so that it
// says of every write that there was none.
func TestLastEventOfADoubt(t *testing.T) {
	p, g := real(t, up.New(t, up.Fail(500, "broken")))
	if a := g.Post("/tools/pay/v1/payments", `{"amount":10}`, "Idempotency-Key: k"); a.Status != 424 {
		t.Fatal(a.Status, a.Body)
	}
	p.visit("/doubt")
	p.until(`document.querySelector("tr.row .last")`)
	if got := p.text("tr.row .last"); got == "sent, and nothing since" {
		t.Errorf("the last event of a write that was answered with 500 is %q", got)
	}
}
