package browser

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Once the gateway is back, pages that could not be read are read anew. To wait
// for somebody's request, so that the figures differ, may take all night.
func TestFaultsGoWhenTheGatewayIsBack(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.expected = []string{"503"}
	p.visit("/tools")
	p.until(`document.querySelector(".dot.on")`)
	f.mu.Lock()
	f.broken = true
	f.mu.Unlock()
	f.events <- "" // the stream breaks off
	p.until(`!document.querySelector(".dot.on")`)
	p.do(chromedp.Click(`//nav//a[starts-with(text(), "Targets")]`))
	p.until(`document.querySelector(".fault")`)
	f.mu.Lock()
	f.broken = false
	f.mu.Unlock()
	p.until(`document.querySelector(".dot.on")`) // and it is heard that it is back
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if p.eval(`!document.querySelector(".fault")`) == "true" {
			return
		}
	}
	t.Errorf("it is back for 15 s, and live, and the page says:\n%s", p.text("main"))
}

// So they do where only the store was away, and the stream went on all the time.
func TestFaultsGoWhenTheStoreIsBack(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.expected = []string{"503"}
	p.visit("/tools")
	p.until(`document.querySelector(".dot.on")`)
	f.mu.Lock()
	f.broken = true
	f.mu.Unlock()
	p.do(chromedp.Click(`//nav//a[text()="Ledger"]`))
	p.until(`document.querySelectorAll(".fault").length === 3`)
	f.mu.Lock()
	f.broken = false
	f.mu.Unlock()
	p.until(`!document.querySelector(".fault") && document.querySelector("tfoot")`)
}
