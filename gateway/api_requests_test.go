package gateway_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"oncegate/cache"
	"oncegate/gateway"
)

// A request is found by its record, by how that begins, by its id, and by the
// key that its client sent; and what nobody sent is not.
func TestRequestsAreFound(t *testing.T) {
	b := newBooksOver(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, func(o *gateway.Options) { addTool(t, o, "payments", "https://api.acmepay.example") })
	first := b.post("/v1/chat/completions", hi, "Idempotency-Key", "order/7", "Oncegate-User", "ann")
	b.post("/v1/chat/completions", hi, "Idempotency-Key", "order/7", "Oncegate-User", "ann")
	b.post("/v1/chat/completions", strings.Replace(hi, "hi", "ho", 1))
	b.await(`oncegate_requests_total{operation="chat",outcome="executed"} 2`)
	record, id := first.header.Get("Oncegate-Key"), first.header.Get("X-Request-Id")
	ids := func(query string) (ids []string) {
		for _, r := range b.get("/api/requests?" + query)["requests"].([]any) {
			ids = append(ids, r.(map[string]any)["id"].(string))
		}
		return ids
	}
	for query, want := range map[string]int{
		"": 3, "q=" + record: 2, "q=" + record[:8]: 2, "q=" + strings.ToUpper(record[:20]): 2, "q=order%2F7": 2, "q=%22order%2F7%22": 2, "q=order": 0, "q=" + id: 1,
		"user=ann": 2, "user=-": 1, "outcome=replayed": 1, "outcome=replayed&user=-": 0, "tool=-": 3, "since=1h": 3, "until=1h": 0, "model=m&q=order%2F7&reason=key": 1,
	} {
		if got := ids(query); len(got) != want {
			t.Errorf("%s: %d requests, want %d", query, len(got), want)
		}
	}
	if got := ids("q=" + id); len(got) == 1 && got[0] != id {
		t.Errorf("%s, want %s", got, id)
	}
	one := b.get("/api/requests/" + url.PathEscape(id))
	for name, want := range map[string]any{
		"id": id, "record": record, "outcome": "executed", "operation": "chat", "model": "m", "user": "ann", "key": "anonymous", "status": 200., "attempts": 1.,
		"tokens.input": 3., "tokens.cached": 0., "billed": nil, "saved": nil, "target": "up/m", "left": false, "tool": "",
	} {
		if got := at(one, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	var what []string
	for _, m := range one["timeline"].([]any) {
		what = append(what, m.(map[string]any)["what"].(string))
	}
	if got := strings.Join(what, " "); got != "claimed attempt answered stored" && got != "claimed attempt stored answered" {
		t.Errorf("the timeline is %s", got)
	}
	if replayed := b.get("/api/requests?q=" + id + "&outcome=replayed")["requests"].([]any); len(replayed) > 0 {
		t.Errorf("this upstream gives no ids, and yet two are one: %v", replayed)
	}
	if got := b.get("/api/requests/" + id + "?place=" + one["place"].(string)); got["place"] != one["place"] || one["place"] == "" {
		t.Errorf("by its place: %v", got)
	}
	for _, path := range []string{"/api/requests/" + id + "?place=n0", "/api/requests/nothing", "/api/requests/a%2Fb", "/api/requests/%3Cscript%3E"} {
		if status, out := b.ask("GET", path, ""); status != 404 {
			t.Errorf("%s: %d %v", path, status, out)
		}
	}
	for query, param := range map[string]string{"q=": "q", "q=" + strings.Repeat("x", 300): "q", "limit=201": "limit", "by=model": "by", "cursor=x": "cursor", "outcome=saved": "outcome"} {
		status, out := b.ask("GET", "/api/requests?"+query, "")
		if _, got, _ := fault(out); status != 400 || got != param {
			t.Errorf("%s: %d %v", query, status, out)
		}
	}
	if got := b.get("/api/requests?limit=2"); len(got["requests"].([]any)) != 2 || got["next"] == "" || len(b.get("/api/requests?limit=2&cursor=" + got["next"].(string))["requests"].([]any)) != 1 {
		t.Errorf("the second page: %v", got)
	}
}

// The page of a completion's record tells who called, why each got its answer,
// and what that cost.
func TestRecordOfACompletion(t *testing.T) {
	tries := 0
	b := newBooksOver(t, func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			w.WriteHeader(503)
			return
		}
		chat(w, "1")
	}, nil)
	record := ""
	for range 3 {
		got := b.post("/v1/chat/completions", hi, "Idempotency-Key", "k1")
		record = got.header.Get("Oncegate-Key")
	}
	b.await(`oncegate_requests_total{operation="chat",outcome="replayed"} 2`)
	page := b.get("/api/records/" + record)
	for name, want := range map[string]any{
		"kind": "completion", "state": "completed", "key": record, "principal": "anonymous", "price.tokens.input": 3., "price.model": "m", "price.cost": nil,
		"price.tokens.reasoning": 0.,
	} {
		if got := at(page, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if s, want := page["sentence"], "up/m answered with 200 at attempt 2. 2 requests got the same answer without a call of their own: they came with the same Idempotency-Key."; s != want {
		t.Errorf("it says %q, want %q", s, want)
	}
	callers := page["requests"].([]any)
	if len(callers) != 3 || at(callers[0].(map[string]any), "outcome") != "replayed" || at(callers[2].(map[string]any), "outcome") != "executed" {
		t.Fatalf("%v", callers)
	}
	for _, m := range callers[2].(map[string]any)["timeline"].([]any) {
		if m := m.(map[string]any); m["what"] == "wait" && (m["ms"].(float64) > m["of_ms"].(float64)+50 || m["ms"] == 0.) {
			t.Errorf("a wait: %v", m)
		}
	}
	if status, _ := b.ask("GET", "/api/records/"+strings.Repeat("0", 64), ""); status != 404 {
		t.Errorf("no record: %d", status)
	}
}

// That of a write says what is known of it.
func TestSentencesOfWrites(t *testing.T) {
	b := newBooks(t, nil)
	for state, want := range map[cache.State]string{
		cache.Claimed: "nothing was sent yet", cache.Dispatched: "its answer is awaited", cache.Unknown: "nobody knows whether it happened", cache.Completed: "It ran once and was answered with 201.",
	} {
		page := b.get("/api/records/" + b.run(want, "payments", state))
		if s, _ := page["sentence"].(string); !strings.Contains(s, want) || page["kind"] != "write" || len(page["requests"].([]any)) != 0 {
			t.Errorf("%v: %v", state, page)
		}
	}
	doubt := b.run("doubt", "payments", cache.Unknown)
	if status, out := b.ask("POST", "/api/records/"+doubt+"/resolve", `{"as":"executed","reason":"seen on the account.","actor":"ann"}`); status != 200 {
		t.Fatal(out)
	}
	if s := b.get("/api/records/" + doubt)["sentence"]; !strings.Contains(s.(string), "That was settled by ann: seen on the account.") {
		t.Errorf("%v", s)
	}
}
