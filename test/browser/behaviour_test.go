package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func (p *tab) press(keys string) { p.t.Helper(); p.do(chromedp.KeyEvent(keys)) }

const focus = "document.activeElement"

// Everything by the keyboard alone: search, rows, a record, and back.
func TestKeyboard(t *testing.T) {
	p := open(t, newFake(t))
	p.visit("/requests")
	p.press("j")
	p.press("j")
	p.press("j")
	p.press("k")
	if got := p.eval(focus + `.closest("tr.row") === document.querySelectorAll("tr.row")[1]`); got != "true" {
		t.Errorf("j j j k is not the second row: %s", p.eval(focus+".outerHTML"))
	}
	if got := p.eval(`getComputedStyle(` + focus + `).outlineStyle`); got != "solid" {
		t.Errorf("what has the focus shows no ring: %s", got)
	}
	p.press(kb.Enter)
	p.until(`location.pathname === "/records/` + key(1) + `"`)
	p.settled()
	p.press(kb.Escape)
	p.until(`location.pathname === "/requests" && document.querySelector("tr.row")`)
	p.press("/")
	p.until(focus + `.type === "search"`)
	p.eval(focus + `.value = ""`) // a real keyboard's / is not typed, this one's is
	p.press("jk?/")
	if got := p.eval(focus + ".value"); got != "jk?/" {
		t.Errorf("typed into the search is %q", got)
	}
	p.eval(focus + `.value = ""`)
	p.press(key(4)[:12] + kb.Enter)
	p.until(`new URLSearchParams(location.search).get("q") === "` + key(4)[:12] + `"`)
	p.settled()
	if got := p.eval(`document.querySelectorAll("tr.row").length`); got == "50" || got == "0" {
		t.Errorf("the search found %s rows", got)
	}
	p.press(kb.Escape)
	p.until(focus + ` === document.body`)
	p.press("?")
	p.until(`document.querySelector("dialog[open]")`)
	p.want("dialog", "search", "next row", "open the row")
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog")`)
	// The first stop of the tabulator leads past the menu.
	p.visit("/tools")
	p.press(kb.Tab)
	p.until(focus + `.className === "skip"`)
	p.press(kb.Enter)
	p.until(focus + `.id === "main"`)
}

// The whole state is in the address: what leads there gives it back.
func TestAddress(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit("/")
	p.do(chromedp.Click(`//button[text()="7 d"]`))
	p.until(`location.search === "?since=7d"`)
	p.settled()
	p.want(".head", "Saved in the last 7 days")
	p.do(chromedp.Click(`.chart button`))
	p.until(`new URLSearchParams(location.search).get("table") === "money" && document.querySelector(".chart table")`)
	p.do(chromedp.Click(`//a[text()="Requests"]`))
	p.until(`location.pathname === "/requests" && location.search === "?since=7d"`)
	p.settled()
	p.do(chromedp.Click(`//button[text()="+ Filter"]`), chromedp.SendKeys(`.pop input`, "meta-llama/llama-4"+kb.Enter))
	p.until(`new URLSearchParams(location.search).get("model") === "meta-llama/llama-4"`)
	p.settled()
	if _, got := f.askedFor("/api/requests"); got.Get("model") != "meta-llama/llama-4" || got.Get("since") != "7d" || got.Get("limit") != "50" {
		t.Errorf("asked was %v", got)
	}
	p.do(chromedp.Click(`//a[text()="Older →"]`))
	p.until(`new URLSearchParams(location.search).get("cursor") === "50"`)
	p.do(chromedp.NavigateBack(), chromedp.NavigateBack())
	p.until(`location.search === "?since=7d"`)
	p.visit("/ledger?by=model&since=30d&zone=Europe%2FBerlin&user=ada")
	if got := p.text(`.choice[aria-label=By] [aria-pressed=true]`) + p.text(`.choice[aria-label=Range] [aria-pressed=true]`) + p.text(".chip"); !strings.Contains(got, "Model30 d") || !strings.Contains(got, "ada") {
		t.Errorf("the page shows %q", got)
	}
	if _, got := f.askedFor("/api/report"); got.Get("zone") != "Europe/Berlin" || got.Get("user") != "ada" {
		t.Errorf("asked was %v", got)
	}
}

// The stream: figures come anew, a tail that doesn't jump, what was missed is
// asked for, and nobody listens while nobody looks.
func TestLive(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit("/requests")
	p.until(`document.querySelector(".dot.on")`)
	send := func(place string, n int) {
		r := f.request(n)
		r["place"], r["at"] = place, f.now.Format(time.RFC3339)
		r["id"] = "req_shared" // as those have it that share an answer
		b, _ := json.Marshal(r)
		f.events <- fmt.Sprintf("id: %s\nevent: request\ndata: %s\n\n", strings.TrimPrefix(place, "new-"), b)
	}
	send("new-2", 0)
	p.until(`document.querySelectorAll("tr.row").length === 51`)
	// Its reader is in the list: nothing moves until it is asked for.
	p.press("j")
	p.press("j")
	send("new-3", 1)
	send("new-4", 2)
	p.until(`document.querySelector(".arrivals button")?.textContent === "Show 2 new"`)
	if got := p.eval(`document.querySelectorAll("tr.row").length + " " + ` + focus + `.closest("tr.row").rowIndex`); got != "51 2" {
		t.Errorf("rows and the focused one: %s", got)
	}
	p.do(chromedp.Click(".arrivals button"))
	p.until(`document.querySelectorAll("tr.row").length === 53`)
	// A broken stream is taken up where it ended.
	f.events <- ""
	poll(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.streams) == 2
	})
	if f.streams[0] != "" || f.streams[1] != "4" {
		t.Errorf("Last-Event-ID was %q", f.streams)
	}
	// Hidden, it is quiet.
	p.until(`document.querySelector(".dot.on")`)
	hide := func(hidden bool) {
		p.eval(fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %t, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	hide(true)
	p.until(`!document.querySelector(".dot.on")`)
	hide(false)
	p.until(`document.querySelector(".dot.on")`)
	f.mu.Lock()
	if len(f.streams) != 3 {
		t.Errorf("%d streams, not 3", len(f.streams))
	}
	f.mu.Unlock()
	// A filter holds for what the stream tells, too.
	p.visit("/requests?outcome=failed")
	p.until(`document.querySelector(".dot.on")`)
	before := p.eval(`document.querySelectorAll("tr.row").length`)
	send("new-9", 0)
	send("new-10", 6)
	p.until(`document.querySelectorAll("tr.row").length > ` + before)
	if got := p.eval(`document.querySelectorAll("tr.row .outcome:not(.failed)").length`); got != "0" {
		t.Errorf("%s rows of another outcome", got)
	}
}

// poll waits for something of the test's own.
func poll(t *testing.T, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come about")
		}
	}
}

// Old figures stay while new ones load, and what can't be asked for is told.
func TestOldFiguresStay(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.expected = []string{"503"}
	p.visit("/")
	old := p.text(".figure")
	wait := make(chan struct{})
	f.mu.Lock()
	f.hold = map[string]chan struct{}{"/api/summary": wait}
	f.mu.Unlock()
	p.do(chromedp.Click(`//button[text()="1 h"]`))
	p.until(`document.querySelector(".answer.loading .figure")`)
	if got := p.text(".figure"); got != old {
		t.Errorf("while it loads the figure is %q, before it was %q", got, old)
	}
	f.mu.Lock()
	f.hold = nil
	f.mu.Unlock()
	close(wait)
	p.until(fmt.Sprintf("document.querySelector('.figure').innerText !== %q && !document.querySelector('.answer.loading')", old))
	f.mu.Lock()
	f.broken = true
	f.mu.Unlock()
	p.do(chromedp.Click(`//button[text()="7 d"]`))
	p.until(`document.querySelector(".fault")`)
	p.want(".fault", "These figures are not the newest.")
	if got := p.eval(`document.querySelectorAll(".fault").length + " " + !!document.querySelector(".figure")`); got != "1 true" {
		t.Errorf("faults, and whether the old figure is there: %s", got)
	}
}

func TestEmptyState(t *testing.T) {
	f := newFake(t)
	f.empty = true
	p := open(t, f)
	p.visit("/")
	p.want(".empty", "No request came through this gateway", "OPENAI_BASE_URL=http://127.0.0.1:8080/v1", "curl http://127.0.0.1:8080/v1/chat/completions", "Oncegate-Outcome: replayed")
	p.do(chromedp.Click(".empty .main"))
	p.until(`document.querySelector(".head .figure")`)
	if got := f.posted; len(got) != 1 || got[0]["path"] != "/api/demo" {
		t.Errorf("posted was %v", got)
	}
}

// Doubts are decided with a reason, after a confirmation, several at once with
// a result each.
func TestDoubts(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit("/doubt")
	if got := p.eval(`[...document.querySelectorAll("tr.row th")].map((e) => e.innerText.split("\n")[0]).join()`); !strings.HasPrefix(got, "1 d 2 h,3 h,51 min") {
		t.Errorf("they are not the oldest first: %s", got)
	}
	if got := p.eval(`[...document.querySelectorAll(".bar button")].every((b) => b.disabled)`); got != "true" {
		t.Error("with none chosen there is something to press")
	}
	p.do(chromedp.Click("thead input"), chromedp.Click(`//div[@role="group"]/button[text()="It happened"]`))
	p.until(`document.querySelector("dialog[open]")`)
	p.accessible()
	p.shot("doubt-dialog")
	p.do(chromedp.Click("dialog .main"))
	if len(f.posted) != 0 {
		t.Fatal("it went without a reason")
	}
	p.do(chromedp.SendKeys("dialog input", "  found in the payee's list "), chromedp.Click("dialog .main"))
	p.until(`document.querySelectorAll("dialog .good").length === 2 && document.querySelectorAll("dialog .warn").length === 1`)
	p.want("dialog", "What came of it", "recorded: it happened, and its answer is not known", "its outcome is not unknown, and nothing was changed")
	p.shot("doubt-results")
	sent := f.posted[0]["resolve"].([]any)
	first := sent[0].(object)
	if len(sent) != 3 || first["key"] != key(12) || first["as"] != "executed" || first["reason"] != "found in the payee's list" || first["fence"] != 2.0 {
		t.Errorf("posted was %v", f.posted)
	}
	p.do(chromedp.Click("dialog .main"))
	p.until(`!document.querySelector("dialog") && document.querySelectorAll("tr.row").length === 1`)

	f = newFake(t)
	p = open(t, f)
	p.visit("/doubt")
	p.do(chromedp.Click(`//tr[contains(., "refunds")]//button[text()="Ask the probe"]`), chromedp.SendKeys("dialog input", "payee is back"+kb.Enter))
	p.until(`document.querySelector("dialog .good")`)
	p.want("dialog", "not found: unknown")
	if got := f.posted[0]; got["path"] != "/api/records/"+key(12)+"/probe" || got["reason"] != "payee is back" {
		t.Errorf("posted was %v", got)
	}
	p.press(kb.Escape)
	p.until(`!document.querySelector("dialog")`)
	p.do(chromedp.Click(`//tr[contains(., "refunds")]//button[text()="It did not happen"]`))
	p.want("dialog", "This did not happen?", "the next request with it runs the write")
	p.do(chromedp.Click(`//dialog//button[text()="Cancel"]`))
	p.until(`!document.querySelector("dialog")`)
	if len(f.posted) != 1 {
		t.Error("what was cancelled was posted")
	}
}

func TestRecord(t *testing.T) {
	f := newFake(t)
	p := open(t, f)
	p.visit("/records/" + key(0))
	// To scale: 210 ms and 412 ms of 1828.3.
	widths := p.eval(`[...document.querySelectorAll(".track .bar")].slice(0, 2).map((e) => (100 * e.getBoundingClientRect().width / e.parentElement.getBoundingClientRect().width).toFixed(1)).join()`)
	if widths != "11.5,22.5" {
		t.Errorf("the bars' parts of the whole are %s", widths)
	}
	p.eval(`navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }`)
	p.do(chromedp.Click(`//button[contains(., "Copy the key")]`))
	p.until(`window.copied === "` + key(0) + `"`)
	p.do(chromedp.Click(`//button[text()="Forget…"]`), chromedp.SendKeys("dialog input", "it was wrong"), chromedp.Click("dialog .danger"))
	p.until(`!document.querySelector("dialog")`)
	if got := f.posted; len(got) != 1 || got[0]["path"] != "/api/records/"+key(0)+"/forget" || got[0]["reason"] != "it was wrong" {
		t.Errorf("posted was %v", got)
	}
	// A write is never forgotten from here.
	p.visit("/records/" + key(10))
	p.want("main", "Decide what happened", "the connection was closed after 412 bytes were sent")
	if strings.Contains(p.text("main"), "Forget") {
		t.Error("a write can be forgotten")
	}
}

// The token is asked for once, kept in the tab, and sent with everything.
func TestToken(t *testing.T) {
	f := newFake(t)
	f.token = "admin-4Kd8"
	p := open(t, f)
	p.expected = []string{"401"}
	p.do(chromedp.Navigate(p.base + "/ledger"))
	p.until(`document.querySelector("input[type=password]")`)
	p.shot("token")
	p.accessible()
	p.do(chromedp.SendKeys("input[type=password]", "wrong"+kb.Enter))
	p.until(`document.querySelector(".fault")?.innerText.includes("That was not the token")`)
	p.do(chromedp.Clear("input[type=password]"), chromedp.SendKeys("input[type=password]", "admin-4Kd8"+kb.Enter))
	p.until(`document.querySelector("tfoot") && document.querySelector(".dot.on")`)
	p.settled()
	if got := p.eval(`sessionStorage.length + " " + JSON.stringify(localStorage).includes("4Kd8") + document.cookie + location.href.includes("4Kd8")`); got != "1 falsefalse" {
		t.Errorf("where the token is kept: %s", got)
	}
	// A link can't carry it: the CSV is fetched.
	p.eval(`HTMLAnchorElement.prototype.click = function () { window.saved = this.download + " " + this.href.slice(0, 5); }`)
	p.do(chromedp.Click(`//button[text()="CSV"]`))
	p.until(`window.saved === "oncegate-report.csv blob:"`)
	p.visit("/tools")
	p.want("main", "payments")
}

func TestTheme(t *testing.T) {
	p := open(t, newFake(t), shade("light"))
	p.visit("/tools")
	const ground = `getComputedStyle(document.body).backgroundColor`
	light := p.eval(ground)
	p.do(chromedp.Click(`button[aria-label=Dark]`))
	p.until(ground + ` !== "` + light + `"`)
	dark := p.eval(ground)
	p.visit("/ledger")
	if got := p.eval(ground); got != dark {
		t.Errorf("after a reload the ground is %s, not %s", got, dark)
	}
	p.do(chromedp.Click(`button[aria-label="By the system"]`))
	p.until(ground + ` === "` + light + `"`)
}

// Each chart is a table too, with the figures that its legend has.
func TestChartsAsTables(t *testing.T) {
	p := open(t, newFake(t))
	p.visit("/?table=money,outcomes,faults,pace")
	for _, chart := range []string{"Billed and saved", "Outcomes", "Upstream errors", "Overhead and upstream time"} {
		if got := p.eval(fmt.Sprintf(`document.querySelectorAll('[aria-label=%q] tbody tr').length`, chart+", as a table")); got == "0" {
			t.Errorf("%s has no rows", chart)
		}
	}
	if got := p.eval(`document.querySelectorAll("svg[role=img]").length`); got != "0" {
		t.Errorf("%s charts are drawn beside their tables", got)
	}
	for column, name := range []string{"executed", "coalesced", "replayed"} {
		sum := p.eval(fmt.Sprintf(`[...document.querySelectorAll('[aria-label="Outcomes, as a table"] tbody tr')].reduce((n, tr) => n + Number(tr.children[%d].innerText.replace(/,/g, "")), 0)`, column+1))
		legend := p.eval(fmt.Sprintf(`document.querySelector('.legend .c-%s').parentElement.querySelector("b").innerText.replace(/,/g, "")`, name))
		if sum != legend {
			t.Errorf("%s: the rows sum to %s, the legend has %s", name, sum, legend)
		}
	}
}

// Beyond 20 reasons the series lumps some together: then the report is asked.
func TestPageFigures(t *testing.T) {
	p := open(t, newFake(t))
	p.visit("/")
	// The parts of the savings table make its last line, and that is the head's figure.
	got := p.eval(`JSON.stringify([...document.querySelectorAll(".savings tr")].slice(1).map((tr) => [...tr.querySelectorAll("data")].map((d) => d.value)))`)
	var rows [][]string
	if err := json.Unmarshal([]byte(got), &rows); err != nil {
		t.Fatal(err)
	}
	for column := range 3 {
		var sum int64
		for _, row := range rows[:len(rows)-1] {
			sum += pico(t, row[column])
		}
		if last := pico(t, rows[len(rows)-1][column]); sum != last {
			t.Errorf("column %d sums to %d, the last line has %d", column, sum, last)
		}
	}
	head := p.eval(`document.querySelector(".figure data").value`)
	if head != rows[len(rows)-1][2] {
		t.Errorf("the head has %s, the table %s", head, rows[len(rows)-1][2])
	}
	if !slices.Contains([]string{"$"}, p.text(".figure")[:1]) || p.eval(`document.querySelector(".figure data").title`) != "$"+head {
		t.Errorf("the exact figure is not in the title")
	}
}
