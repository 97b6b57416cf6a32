package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var pages = []struct {
	name, path string
	full       []string // what the page says where there is something
	empty      string   // and where there is nothing
}{
	{"overview", "/", []string{"Saved in the last 24 hours", "requests not sent", "duplicate writes prevented", "3 in doubt", "Calls with a price", "96.1%", "Billed and saved", "Outcomes", "Upstream errors", "Overhead and upstream time", "6.4 s", "Retries that say so", "Would have been billed"}, "Three steps"},
	{"requests", "/requests", []string{"replayed", "retry_marked", "meta-llama/llama-4-maverick", "unpriced", "client left", "Older →"}, "No request came in this range"},
	{"record", "/records/" + key(0), []string{"Ran once on openai/gpt-4.1 after one retry", "Attempt 1", "503", "412 ms of 0 to 500 ms", "Attempt 2", "Given to others 3 times", "Input, from the provider's prompt cache", "$0.004486"}, "No such record"},
	{"doubt", "/doubt", []string{"POST /v1/payments", "1 d 2 h", "It happened", "It did not happen", "Ask the probe", "Decided before"}, "No write is in doubt"},
	{"tools", "/tools", []string{"payments", "https://api.acmepay.example", "1,841", "2 in doubt"}, "No tool is configured"},
	{"targets", "/targets", []string{"failures in a row; half open in 6.4 s", "Held, key 1", "8,120", "auth.admin_token", "(secret)", "config.yaml:5"}, "Configuration in force"},
	{"ledger", "/ledger", []string{"CSV", "JSON", "What if", "$800.00", "$42.00", "Models without a price", "meta-llama/llama-4-maverick", "28 days old"}, "Nothing is booked in this range"},
}

// Each page, full and empty, by day and by night, with a console that is silent.
func TestPages(t *testing.T) {
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			for _, light := range []string{"light", "dark"} {
				p := open(t, newFake(t), shade(light))
				p.visit(page.path)
				p.want("main", page.full...)
				p.shot(page.name + "-" + light)
				p.accessible()
			}
		})
		t.Run(page.name+" empty", func(t *testing.T) {
			f := newFake(t)
			f.empty = true
			p := open(t, f)
			p.expected = []string{"404"}
			p.visit(page.path)
			p.want("main", page.empty)
			p.shot(page.name + "-empty")
			p.accessible()
		})
	}
}

// Nothing, zero and a fault look different: where the store is away there is no
// figure, and no page says that there is nothing.
func TestFaults(t *testing.T) {
	for _, page := range pages {
		f := newFake(t)
		f.broken = true
		p := open(t, f)
		p.expected = []string{"503"}
		p.visit(page.path)
		p.want("main", "This could not be read.", "the store can't be read: connection refused", "Try again")
		got := p.text("main")
		for _, never := range []string{"$0", "No request", "No write", "No tool", "Nothing is booked", page.empty} {
			if strings.Contains(got, never) && never != "Configuration in force" {
				t.Errorf("%s says %q where nothing could be read:\n%s", page.path, never, got)
			}
		}
		if page.name == "overview" {
			p.shot("overview-fault")
			f.mu.Lock()
			f.broken = false
			f.mu.Unlock()
			p.do(chromedp.Click(".fault button"))
			p.until(`document.querySelector(".figure")`)
		}
	}
}

// accessible fails for what axe finds serious.
func (p *tab) accessible() {
	p.t.Helper()
	script, err := os.ReadFile("testdata/axe-4.14.1.min.js")
	if err != nil {
		p.t.Fatal(err)
	}
	p.do(chromedp.Evaluate[chromedp.Void](string(script) + ";void 0"))
	found, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((v) => ({impact: v.impact, id: v.id, help: v.help, nodes: v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160) + " | " + n.failureSummary)}))))`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	var violations []struct {
		Impact, ID, Help string
		Nodes            []string
	}
	if err := json.Unmarshal([]byte(found), &violations); err != nil {
		p.t.Fatal(err)
	}
	for _, v := range violations {
		if v.Impact == "serious" || v.Impact == "critical" {
			p.t.Errorf("axe, %s: %s: %s\n%s", v.Impact, v.ID, v.Help, strings.Join(v.Nodes, "\n"))
		}
	}
}

// One page load is at most eight requests.
func TestRequestsOfAPageLoad(t *testing.T) {
	p := open(t, newFake(t))
	for _, page := range pages {
		p.mu.Lock()
		p.requests = nil
		p.mu.Unlock()
		p.visit(page.path)
		p.until(`document.querySelector(".dot.on")`)
		p.mu.Lock()
		if n := len(p.requests); n > 8 || n < 3 {
			t.Errorf("%s: %d requests:\n%s", page.path, n, strings.Join(p.requests, "\n"))
		}
		p.mu.Unlock()
	}
}

const overflow = `document.documentElement.scrollWidth - document.documentElement.clientWidth`

// On a narrow screen nothing is cut off: what is wide scrolls by itself.
func TestNarrow(t *testing.T) {
	p := open(t, newFake(t), chromedp.EmulateViewport(360, 740))
	for _, page := range pages {
		p.visit(page.path)
		if got := p.eval(overflow); got != "0" {
			t.Errorf("%s is %s px too wide on a screen of 360", page.path, got)
		}
		for _, what := range []string{".menu li a", ".deeds button"} { // where to go, and what there is to decide
			if got := p.eval(`[...document.querySelectorAll("` + what + `")].filter((e) => e.getBoundingClientRect().right > innerWidth).length`); got != "0" {
				t.Errorf("%s: %s of %s are out of sight on a screen of 360", page.path, got, what)
			}
		}
		p.shot(page.name + "-narrow")
	}
}

func TestRightToLeft(t *testing.T) {
	p := open(t, newFake(t))
	for _, page := range pages {
		p.visit(page.path)
		p.eval(`document.documentElement.dir = "rtl"`)
		if got := p.eval(overflow); got != "0" {
			t.Errorf("%s is %s px too wide from right to left", page.path, got)
		}
		if got := p.eval(`document.querySelector(".menu").getBoundingClientRect().left > document.querySelector("main").getBoundingClientRect().left`); got != "true" {
			t.Errorf("%s: from right to left the menu is on the left", page.path)
		}
		p.shot(page.name + "-rtl")
	}
}

// B094: what others typed is text, wherever it stands.
func TestForeignText(t *testing.T) {
	const run = "window.P=1"
	for _, foul := range []string{
		`"><img src=x onerror=` + run + `>`, `</script><script>` + run + `</script>`, "javascript:" + run, `{{constructor.constructor('` + run + `')()}}`,
		"\u202e\u2066evil\u202e" + strings.Repeat("ก", 10), strings.Repeat("<b>long</b>", 1000), `__proto__`, `'; ` + run + `; //`,
	} {
		t.Run(fmt.Sprintf("%.12q", foul), func(t *testing.T) {
			f := newFake(t)
			f.foul = foul
			p := open(t, f)
			for _, path := range []string{"/", "/requests", "/records/" + key(0), "/doubt", "/tools", "/targets", "/ledger?by=model", "/requests/req_1"} {
				p.visit(path)
				if got := p.eval("window.P"); got != "undefined" {
					t.Fatalf("%s: it ran", path)
				}
				if got := p.eval(`document.querySelectorAll("img, script:not([src]), iframe, main b > b, a[href^='javascript:']").length`); got != "0" {
					t.Errorf("%s: %s elements were made of it", path, got)
				}
				if !strings.Contains(p.eval(`document.querySelector("main").textContent`), foul[:min(len(foul), 30)]) {
					t.Errorf("%s: it is not shown as it was typed:\n%.500s", path, p.text("main"))
				}
				if got := p.eval(overflow); got != "0" {
					t.Errorf("%s: it makes the page %s px too wide", path, got)
				}
				if got := p.eval(`Math.max(...[...document.querySelectorAll("main bdi")].map((e) => e.textContent.length))`); len(got) > 3 {
					t.Errorf("%s: a text of %s characters is shown whole", path, got)
				}
			}
		})
	}
}

// Filters that others typed reach the API as they are, slashes and all.
func TestForeignTextInTheAddress(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit(`/requests?model=` + "meta-llama%2Fllama-4%20%26%3F%23&q=%22%3E%3Cimg+src%3Dx+onerror%3Dwindow.P%3D1%3E&user=%3Cscript%3E")
	if p.eval("window.P") != "undefined" {
		t.Error("it ran")
	}
	_, got := f.askedFor("/api/requests")
	if got.Get("model") != "meta-llama/llama-4 &?#" || got.Get("user") != "<script>" || got.Get("q") != `"><img src=x onerror=window.P=1>` {
		t.Errorf("asked was %v", got)
	}
	if names := []string{"model", "user"}; !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(p.text(".filters"), n) }) {
		t.Errorf("the filters are not shown: %s", p.text(".filters"))
	}
}
