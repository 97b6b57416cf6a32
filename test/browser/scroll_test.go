package browser

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// The next page of a list is read from its top. And who comes back from a row
// stands where they were.
func TestWhereTheReaderStands(t *testing.T) {
	p, g := real(t, up.New(t))
	for n := range 110 {
		g.Post(harness.Chat, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, n))
	}
	p.visit("/requests")
	p.until(`document.querySelectorAll("tr.row").length === 50`)
	p.do(chromedp.ScrollIntoView(`.pages a[rel=next]`), chromedp.Click(`.pages a[rel=next]`))
	p.until(`location.search.includes("cursor") && document.querySelector(".answer[aria-busy=false]")`)
	time.Sleep(300 * time.Millisecond)
	if y := p.eval(`scrollY`); y != "0" {
		t.Errorf("the next page is shown from %s px below its top", y)
	}
	p.eval(`(scrollTo(0, 900), 1)`)
	time.Sleep(300 * time.Millisecond)
	p.eval(`(document.querySelectorAll("tr.row th a")[20].click(), 1)`)
	p.until(`location.pathname.startsWith("/records/")`)
	p.settled()
	p.eval(`(history.back(), 1)`)
	p.until(`document.querySelectorAll("tr.row").length === 50`)
	time.Sleep(300 * time.Millisecond)
	if y := p.eval(`scrollY`); y != "900" {
		t.Errorf("back from a row at 900 px its reader stands at %s px", y)
	}
}
