package browser

import (
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// A call that was billed, nobody knows how much, is no $0: neither in the foot of
// the savings, nor in the chart. And nothing was saved, priced or not, where
// nothing was shared.
func TestUnpricedCallsWereBilled(t *testing.T) {
	payee := up.New(t, up.Status(200, `{"id":"x","object":"chat.completion","model":"nobody-knows-it","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`))
	p, g := real(t, payee)
	if a := g.Post(harness.Chat, `{"model":"nobody-knows-it","messages":[{"role":"user","content":"hi"}]}`); a.Status != 200 {
		t.Fatal(a.Status, a.Body)
	}
	p.visit("/")
	p.until(`document.querySelector(".savings tfoot")`)
	cell := func(n string) string {
		return p.eval(`document.querySelector(".savings tfoot tr").cells[` + n + `].innerText`)
	}
	if billed, saved := cell("3"), cell("4"); billed != "unpriced" || saved != "$0" {
		t.Errorf("all requests: billed %q, saved %q; above them stands %q", billed, saved, p.text(".beside"))
	}
	if got := p.eval(`document.querySelector("#money, [aria-labelledby=h-money], .chart")?.closest("section").innerText`); got == "" || strings.Contains(got, "Nothing was billed") || strings.Contains(got, "Billed $0") {
		t.Errorf("the chart says: %s", got)
	}
}
