package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"oncegate/test/up"
)

// What a write is decided by is in sight, however long its path is: buttons that
// are cut off after their first word all read alike.
func TestDecisionsAreInSight(t *testing.T) {
	p, g := real(t, up.New(t, up.Cut))
	if a := g.Post("/tools/pay/v1/accounts/acct_1MtwBwLkdIwHu7ix/payment_intents/pi_3MtwBwLkdIwHu7ix28a3tqPa/capture", `{}`, "Idempotency-Key: k", "Oncegate-User: user_4711"); a.Status != 424 {
		t.Fatal(a.Status, a.Body)
	}
	p.visit("/doubt")
	p.until(`document.querySelector("tr.row .deeds button")`)
	p.shot("wide-doubt")
	for _, width := range []int64{1360, 1100} {
		p.do(chromedp.EmulateViewport(width, 900))
		if got := p.eval(`[...document.querySelectorAll("tr.row .deeds button")].filter((b) => b.getBoundingClientRect().right > b.closest(".scroll").getBoundingClientRect().right + 1).map((b) => b.textContent).join()`); got != "" {
			t.Errorf("out of sight at %s px: %s", p.eval(`innerWidth`), got)
		}
	}
}
