package browser

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// pico reads exact dollars.
func pico(t *testing.T, text string) int64 {
	t.Helper()
	whole, part, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole+(part + strings.Repeat("0", 12))[:12], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// try runs an expression with one of the page's modules as m.
func (p *tab) try(module, expression string) string {
	p.t.Helper()
	out, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(`import("/api/test/%s.js").then((m) => JSON.stringify(%s))`, module, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// Money is shown with four significant digits under a dollar, never as $0.00,
// and added up exactly.
func TestMoney(t *testing.T) {
	p := open(t, newFake(t))
	p.visit("/tools")
	var texts, want []string
	for text, shown := range map[string]string{
		"0": "$0", "0.000000000001": "$0.000000000001", "0.00000042": "$0.00000042", "0.000123456": "$0.0001235", "0.1": "$0.10", "0.12345": "$0.1235",
		"0.99994": "$0.9999", "0.99996": "$1.00", "0.999999999999": "$1.00", "1": "$1.00", "1.005": "$1.01", "1.004999999999": "$1.00", "999.999": "$1,000.00",
		"1234567.891": "$1,234,567.89", "9223372.036854775807": "$9,223,372.04", "-0.5": "−$0.50", "0.05": "$0.05", "0.000000012345": "$0.00000001235",
	} {
		texts, want = append(texts, text), append(want, shown)
	}
	list, _ := json.Marshal(texts)
	var got []string
	if err := json.Unmarshal([]byte(p.try("money", string(list)+".map((t) => m.dollars(m.pico(t)))")), &got); err != nil {
		t.Fatal(err)
	}
	for i := range texts {
		if got[i] != want[i] {
			t.Errorf("%s is shown as %s, not %s", texts[i], got[i], want[i])
		}
	}
	if got := p.try("money", `[m.dollars(m.pico(null)), m.dollars(m.pico("")), m.dollars(m.pico("1e3")), m.dollars(m.pico("NaN"))]`); got != `["unpriced","unpriced","unpriced","unpriced"]` {
		t.Errorf("what is no money: %s", got)
	}
	if got := p.try("money", `[m.share(0n, 0n), m.share(0n, 5n), m.share(1n, 100000n), m.share(99999n, 100000n), m.share(5n, 5n), m.share(1n, 3n), m.share(116n, 1000n)]`); got != `["–","0%","<0.1%",">99.9%","100%","33.3%","11.6%"]` {
		t.Errorf("shares: %s", got)
	}

	var sum int64
	var all []string
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		n := r.Int64N(1 << r.IntN(52))
		sum += n
		all = append(all, dollars(n))
	}
	list, _ = json.Marshal(all)
	if got := p.try("money", `m.decimal(m.addUp(`+string(list)+`.map(m.pico)))`); got != strconv.Quote(dollars(sum)) {
		t.Errorf("the sum is %s, not %s", got, dollars(sum))
	}
}

// What has no price is never shown as $0.
func TestUnpriced(t *testing.T) {
	f := newFake(t)
	f.unpriced = true
	p := open(t, f)
	p.visit("/")
	if got := p.text(".figure"); got != "unpriced" {
		t.Errorf("saved is %q", got)
	}
	p.want(".lead", "requests have no price")
	for _, cell := range []string{".beside", ".savings tbody tr:first-child", ".savings tfoot"} {
		if got := p.text(cell); !strings.Contains(got, "unpriced") {
			t.Errorf("%s: %s", cell, got)
		}
	}
	p.visit("/ledger?by=reason")
	p.want("tfoot", "unpriced")
}

// B093: times stand in the zone that is shown, wherever the browser is, and
// "today" begins where its day does, in it.
func TestZones(t *testing.T) {
	shown := map[string]string{}
	for _, zone := range []string{"UTC", "Asia/Bangkok", "America/Los_Angeles"} {
		f := newFake(t)
		f.now = time.Date(2026, 10, 25, 12, 34, 56, 0, time.UTC)
		p := open(t, f, clockIn(zone))
		p.visit("/requests?since=2026-10-24T00:00:00Z&until=2026-10-25T12:35:00Z")
		shown[zone] = p.text("tbody tr th")
		p.want(".zone", "UTC (gateway)")
		if zone == "UTC" {
			continue
		}
		p.want(".zone", zone+" (browser)")
		p.visit("/requests?zone=" + zone)
		at := f.now.In(location(t, zone))
		p.want("tbody tr th", at.Format("15:04:05"))
		p.visit("/ledger?since=today&zone=" + zone)
		_, got := f.askedFor("/api/report")
		now := time.Now().In(location(t, zone))
		midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
		if since, err := time.Parse(time.RFC3339, got.Get("since")); err != nil || !since.Equal(midnight) || got.Get("until") != "" || got.Get("zone") != zone {
			t.Errorf("today in %s is asked for as %v, not since %s", zone, got, midnight)
		}
	}
	if shown["UTC"] == "" || shown["UTC"] != shown["Asia/Bangkok"] || shown["UTC"] != shown["America/Los_Angeles"] {
		t.Errorf("one request is at %v", shown)
	}
}

func location(t *testing.T, zone string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The day on which the clocks change has all of its 25 or 23 hours.
func TestDayOfChangedClocks(t *testing.T) {
	for _, day := range []struct{ since, until, zone, twice, never string }{
		{"2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00", "Europe/Berlin", "25 Oct, 02:00", ""},
		{"2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", "Europe/Berlin", "", "29 Mar, 02:00"},
		{"2026-11-01T00:00:00-07:00", "2026-11-02T00:00:00-08:00", "America/Los_Angeles", "1 Nov, 01:00", ""},
	} {
		f := newFake(t)
		p := open(t, f)
		query := strings.NewReplacer("+", "%2B", ":", "%3A").Replace("since=" + day.since + "&until=" + day.until + "&zone=" + day.zone)
		p.visit("/?" + query + "&table=money")
		rows := p.eval(`[...document.querySelectorAll(".chart tbody th")].map((e) => e.innerText).join("\n")`)
		since, _ := time.Parse(time.RFC3339, day.since)
		until, _ := time.Parse(time.RFC3339, day.until)
		if got, want := strings.Count(rows, "\n")+1, int(until.Sub(since)/(15*time.Minute)); got != want {
			t.Errorf("%s has %d quarters of an hour, not %d", day.since, got, want)
		}
		if day.twice != "" && strings.Count(rows, day.twice) != 2 {
			t.Errorf("%s is there %d times", day.twice, strings.Count(rows, day.twice))
		}
		if day.never != "" && strings.Contains(rows, day.never) {
			t.Errorf("there is no %s", day.never)
		}
		p.visit("/?" + query)
		p.until(`document.querySelector(".drawing .x")`)
		if labels := p.eval(`[...document.querySelectorAll(".drawing .x")].map((e) => e.textContent).join()`); strings.Contains(labels, "Invalid") || len(labels) < 10 {
			t.Errorf("the axis has %s", labels)
		}
	}
	// Beyond 90 days the page says that there are whole days only.
	old := open(t, newFake(t))
	old.visit("/?since=2026-01-01T00%3A00%3A00Z&until=2026-01-02T00%3A00%3A00Z")
	old.want("main", "beyond 90 days, where the ledger has whole days of UTC")
	// Days begin where they do, also on those days.
	p := open(t, newFake(t))
	p.visit("/tools")
	for at, want := range map[string]string{
		"Europe/Berlin 2026-10-25T22:30:00Z": "2026-10-24T22:00:00Z", "Europe/Berlin 2026-10-25T23:30:00Z": "2026-10-25T23:00:00Z", "Europe/Berlin 2026-03-29T20:00:00Z": "2026-03-28T23:00:00Z",
		"America/Los_Angeles 2026-11-02T07:59:00Z": "2026-11-01T07:00:00Z", "Asia/Kolkata 2026-11-30T18:29:59Z": "2026-11-29T18:30:00Z", "Asia/Bangkok 2026-11-30T17:00:00Z": "2026-11-30T17:00:00Z",
	} {
		zone, t0, _ := strings.Cut(at, " ")
		if got := p.try("calendar", fmt.Sprintf("m.midnight(%q, Date.parse(%q))", zone, t0)); got != strconv.Quote(want) {
			t.Errorf("%s: the day began at %s, not %s", at, got, want)
		}
	}
}
