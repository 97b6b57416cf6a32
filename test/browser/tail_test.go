package browser

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The stream tells of four requests a second, and with each how many came before
// it that it does not tell of. Rows that stand under each other as if nothing was
// between them are a list that lies: the tail says what it leaves out, or has it.
func TestTailTellsOfWhatItLeavesOut(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit("/requests")
	p.until(`document.querySelector(".dot.on")`)
	for i, skipped := range []int{0, 4711} {
		r := f.request(i)
		r["place"], r["at"], r["skipped"] = fmt.Sprint("new-", i), f.now.Format(time.RFC3339), skipped
		b, _ := json.Marshal(r)
		f.events <- fmt.Sprintf("id: %d\nevent: request\ndata: %s\n\n", i, b)
	}
	p.until(`document.querySelectorAll("tr.row").length >= 52`)
	p.want("main", "4,711 more came and are not here")
	p.shot("tail")
	p.do(chromedp.Click(`//button[contains(., "load the newest")]`))
	p.until(`document.querySelectorAll("tr.row").length === 50 && !document.querySelector("main").innerText.includes("not here")`)
	// A filter may hold for those that are not told of, whatever the one is that is.
	p.visit("/requests?outcome=failed")
	p.until(`document.querySelector(".dot.on")`)
	r := f.request(0)
	r["place"], r["skipped"] = "new-3", 12
	b, _ := json.Marshal(r)
	f.events <- fmt.Sprintf("id: 3\nevent: request\ndata: %s\n\n", b)
	p.want("main", "12 more came, of any kind, and are not here")
}
