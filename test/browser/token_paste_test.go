package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// What is pasted as a token may hold what no header can carry, such as a space of
// no width from a chat, or quotation marks of a mail. That is no token, and is said
// so; the page must not take the gateway for gone, and never ask again.
func TestTokenThatNoHeaderCanCarry(t *testing.T) {
	f := newFake(t)
	f.token = "admin-4Kd8"
	p := open(t, f)
	p.expected = []string{"401"}
	p.do(chromedp.Navigate(p.base + "/tools"))
	p.until(`document.querySelector("input[type=password]")`)
	p.eval(`(document.querySelector("input[type=password]").value = "\u201cadmin-4Kd8\u201d", document.querySelector("form").requestSubmit())`)
	p.until(`document.querySelector(".fault")`)
	if got := p.eval(`!!document.querySelector("input[type=password]")`); got != "true" {
		t.Errorf("the page asks for no token any more, and says:\n%s", p.text("main"))
	}
	p.want(".fault", "a character in it that no token can have")
	p.do(chromedp.Navigate(p.base + "/tools"))
	p.until(`document.querySelector("input[type=password]")`)
	p.do(chromedp.SendKeys("input[type=password]", "admin-4Kd8"+kb.Enter))
	p.settled()
	p.want("main", "payments")
}
