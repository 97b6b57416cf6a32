package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"oncegate/test/up"
)

// Who decides all of the last page is not told that no write is in doubt: two
// hundred are, on the page before, and there is a way back to it.
func TestTheLastPageOfDoubtsIsDecided(t *testing.T) {
	p, g := real(t, up.New(t, up.Cut))
	for n := range 201 {
		if a := g.Post("/tools/pay/v1/payments", `{"amount":10}`, fmt.Sprint("Idempotency-Key: k", n)); a.Status != 424 {
			t.Fatal(a.Status, a.Body)
		}
	}
	p.visit("/doubt")
	p.until(`document.querySelectorAll("tr.row").length === 200`)
	p.do(chromedp.Click(`.pages a`))
	p.until(`document.querySelectorAll("tr.row").length === 1`)
	p.do(chromedp.Click(`tr.row .deeds button`), chromedp.SendKeys("dialog input", "seen"), chromedp.Click("dialog .main"))
	p.until(`document.querySelector("dialog .good")`)
	p.do(chromedp.Click("dialog .main"))
	p.until(`!document.querySelector("dialog") && document.querySelectorAll("tr.row").length !== 1`)
	if got := p.text("main .answer"); p.eval(`document.querySelectorAll("tr.row").length`) == "0" && strings.Contains(got, "No write is in doubt") {
		t.Errorf("200 are in doubt, and the page says %q", got)
	}
	p.do(chromedp.Click(`//a[text()="To the first page"]`))
	p.until(`document.querySelectorAll("tr.row").length === 200`)
}
