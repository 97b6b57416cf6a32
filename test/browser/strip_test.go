package browser

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// A breaker that is open is on the overview, however many targets there are.
func TestOpenBreakerOfManyTargets(t *testing.T) {
	payee := up.New(t)
	payee.Choose(func(c *up.Call) up.Step {
		if strings.Contains(string(c.Body), "m59") {
			return up.Fail(500, "broken")
		}
		return up.OK("hi")
	})
	var models []any
	for n := range 60 {
		models = append(models, harness.Model(fmt.Sprintf("m%02d", n), "up"))
	}
	g := harness.Start(t, payee.URL(), harness.Config{"models": models, "policy.attempts": 1, "policy.breaker": harness.Map{"consecutive": 3, "cooldown": "15s", "cooldown_cap": "15s"}})
	for n := range 60 {
		for i := range 5 {
			g.Post(harness.Chat, fmt.Sprintf(`{"model":"m%02d","messages":[{"role":"user","content":"%d"}]}`, n, i))
		}
	}
	res, err := http.Get("http://" + g.Admin + "/api/targets?limit=200")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if !strings.Contains(string(text), `"state":"open"`) {
		t.Fatalf("no breaker is open: %s", text)
	}
	p := open(t, newFake(t))
	p.base = "http://" + g.Admin
	p.visit("/")
	p.until(`document.querySelector(".strip li")`)
	if got := p.text(".strip"); !strings.Contains(got, "up/m59") {
		t.Errorf("%s breakers are shown, and not the one that is open", p.eval(`document.querySelectorAll(".strip li").length`))
	}
	p.want(".strip", "more")
	p.shot("strip")
	// Its card is on the first page of them, too.
	p.do(chromedp.Click(`.strip .open a`))
	p.until(`document.querySelector(".targets .target.open h2")?.innerText === "up/m59"`)
	p.do(chromedp.Click(`.pages a`))
	p.until(`document.querySelector(".pages a")?.innerText.includes("First") && document.querySelectorAll(".target").length < 50`)
}
