package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
)

// get asks the admin listener for what is to be there.
func (b *books) get(path string) map[string]any {
	b.t.Helper()
	status, out := b.ask("GET", path, "")
	if status != http.StatusOK {
		b.t.Fatalf("%s: %d %v", path, status, out)
	}
	return out
}

// text is an answer as it comes.
func (b *books) text(path string) string {
	w := httptest.NewRecorder()
	b.g.Admin().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
	return w.Body.String()
}

// at is a figure in what was answered: outcomes.executed.
func at(out map[string]any, way string) any {
	var v any = out
	for name := range strings.SplitSeq(way, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// One request and its repeat: the summary, the report, the series and the pulse
// tell the same of them.
func TestOverviewOfTwoRequests(t *testing.T) {
	b := newBooksOver(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, func(o *gateway.Options) { o.Version = "v1.2.3" })
	b.g.ListensAt("127.0.0.1:8080")
	for range 2 {
		if got := b.post("/v1/chat/completions", hi, "Idempotency-Key", "k1", "Oncegate-User", "ann"); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	b.await(`oncegate_requests_total{operation="chat",outcome="replayed"} 1`)
	for _, query := range []string{"since=24h", "since=1h&zone=Asia/Kolkata", "since=7d&model=m&user=ann", "since=30d&operation=chat"} {
		s, r := b.get("/api/summary?"+query), b.get("/api/report?"+query+"&by=user")
		total := s["total"]
		if !reflect.DeepEqual(total, r["total"]) || at(s, "total.requests") != 2. || at(s, "total.outcomes.replayed") != 1. || at(s, "total.saved.tokens.input") != 3. {
			t.Errorf("%s: summary %v, report %v", query, total, r["total"])
		}
		var requests, grouped float64
		for _, p := range b.get("/api/series?" + query + "&by=user")["points"].([]any) {
			p := p.(map[string]any)
			requests += at(p, "total.requests").(float64)
			for _, g := range p["groups"].([]any) {
				grouped += g.(map[string]any)["requests"].(float64)
				if g.(map[string]any)["user"] != "ann" {
					t.Errorf("%s: a group is %v", query, g)
				}
			}
		}
		if requests != 2 || grouped != 2 {
			t.Errorf("%s: the points have %v requests, their groups %v", query, requests, grouped)
		}
	}
	if s := b.get("/api/summary?user=bob"); at(s, "total.requests") != 0. || s["priced_share"] != nil {
		t.Errorf("of somebody else: %v", s)
	}
	s := b.get("/api/summary")
	want := map[string]any{"doubts": 0., "draining": false, "store": "ok", "version": "v1.2.3", "mock": false, "data_address": "http://127.0.0.1:8080", "priced_share": 0.}
	for name, v := range want {
		if s[name] != v {
			t.Errorf("%s is %v, want %v", name, s[name], v)
		}
	}
	p := b.get("/api/pulse?since=1h")
	var ok float64
	for _, p := range p["points"].([]any) {
		n := at(p.(map[string]any), "attempts.ok").(float64)
		if ok += n; n > 0 && (at(p.(map[string]any), "upstream_ms.p99") == nil || at(p.(map[string]any), "overhead_ms.p50") == nil) {
			t.Errorf("without times: %v", p)
		}
	}
	if ok != 1 || p["step"] != "minute" {
		t.Errorf("the pulse has %v attempts: %v", ok, p)
	}
}

// The share that is priced is of answers with tokens.
func TestPricedShareIsOfAnswersWithTokens(t *testing.T) {
	b := newBooks(t, nil)
	now := time.Now()
	book := func(model string, f cache.Figures) {
		b.store.Book(cache.Line{At: now, Series: cache.Series{Model: model, Operation: "chat", Outcome: "executed"}, Figures: f})
	}
	book("priced", cache.Figures{Requests: 3, Billed: 3, BilledInput: 30, Spent: cache.Picodollars(1)})
	book("unpriced", cache.Figures{Requests: 1, Billed: 1, BilledInput: 10, Unpriced: 1})
	book("pictures", cache.Figures{Requests: 5, Billed: 5}) // nobody knows what they used
	if s := b.get("/api/summary"); s["priced_share"] != .75 {
		t.Errorf("%v of %v", s["priced_share"], s["total"])
	}
}

// What makes no sense is refused, by name, with what to do about it.
func TestRangesAndFiltersThatMakeNoSense(t *testing.T) {
	b := newBooks(t, nil)
	for query, param := range map[string]string{
		"since=yesterday": "since", "since=1h&until=2h": "since", "until=2026-13-01": "until", "zone=Mars/Base": "zone", "zone=local": "zone",
		"zone=../../etc/passwd": "zone", "outcome=saved": "outcome", "operation=walk": "operation", "tool=a%20b": "tool", "model=": "model",
		"reason=%3Cscript%3E": "reason", "models=m": "models", "since=1h&since=2h": "since", "user=" + strings.Repeat("u", 257): "user",
	} {
		for _, path := range []string{"/api/summary", "/api/series", "/api/report", "/api/pulse"} {
			if path == "/api/pulse" && !strings.HasPrefix(query, "since") && !strings.HasPrefix(query, "zone") && !strings.HasPrefix(query, "until") {
				continue
			}
			status, out := b.ask("GET", path+"?"+query, "")
			if _, got, message := fault(out); status != 400 || got != param || len(message) < 20 {
				t.Errorf("%s?%s: %d, param %q: %s", path, query, status, got, message)
			}
		}
	}
	for query, param := range map[string]string{"by=day": "by", "by=colour": "by", "format=csv": "format"} {
		status, out := b.ask("GET", "/api/series?"+query, "")
		if _, got, _ := fault(out); status != 400 || got != param {
			t.Errorf("series?%s: %d %v", query, status, out)
		}
	}
	for _, path := range []string{"/api/summary", "/api/series", "/api/pulse", "/api/report", "/api/targets"} {
		if status, out := b.ask("POST", path, "{}"); status != 405 {
			t.Errorf("POST %s: %d %v", path, status, out)
		}
		if status, _ := b.ask("GET", path, "", "Host", "evil.example"); status != 200 {
			t.Errorf("%s: %d", path, status) // the recorder's Host stands
		}
	}
}

// The overview of a million requests, over a day's worth of what a team sends:
// its three parts, as a page asks for them.
func BenchmarkOverview(b *testing.B) {
	books := newBooks(b, nil)
	now := time.Now()
	books.fill(1_000_000/(96*benchSeries), now)
	admin := books.g.Admin()
	for _, since := range []string{"24h", "7d"} {
		b.Run(since, func(b *testing.B) {
			bytes := 0
			ask := func() {
				bytes = 0
				for _, path := range []string{"/api/summary?since=", "/api/series?since=", "/api/pulse?since="} {
					w := httptest.NewRecorder()
					admin.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1"+path+since, nil))
					if bytes += w.Body.Len(); w.Code != 200 {
						b.Fatal(w.Body)
					}
				}
			}
			ask() // what was booked just now is posted with the first
			for b.Loop() {
				ask()
			}
			b.ReportMetric(float64(bytes)/1024, "KB")
		})
	}
}

// The longest range that can be asked for is answered; a time further off is
// refused, by its name.
func TestRangeOfEver(t *testing.T) {
	b := newBooksOver(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, nil)
	b.post("/v1/chat/completions", hi)
	b.await(`oncegate_requests_total{operation="chat",outcome="executed"} 1`)
	for _, zone := range []string{"UTC", "Etc/GMT%2B12", "Pacific/Kiritimati", "Asia/Kathmandu"} {
		ever := "&zone=" + zone + "&since=0001-01-01T00:00:00Z&until=9998-12-31T23:59:59Z"
		for _, path := range []string{"/api/summary?", "/api/report?by=day", "/api/series?by=model", "/api/pulse?"} {
			b.get(path + ever)
		}
		for end, v := range map[string]string{"since": "0000-01-01T00:00:00Z", "until": "9999-12-31T23:59:59Z"} {
			for _, path := range []string{"/api/summary", "/api/report", "/api/series", "/api/pulse", "/api/requests"} {
				status, out := b.ask("GET", path+"?zone="+zone+"&"+end+"="+v, "")
				if _, param, message := fault(out); status != 400 || param != end || !strings.Contains(message, "the years 1 to 9998") {
					t.Errorf("%s %s=%s: %d %v", path, end, v, status, out)
				}
			}
		}
	}
	var requests float64
	for _, p := range b.get("/api/series?since=0001-01-01T00:00:00Z&until=9998-12-31T23:59:59Z")["points"].([]any) {
		requests += at(p.(map[string]any), "total.requests").(float64)
	}
	if requests != 1 {
		t.Errorf("%v requests ever", requests)
	}
}
