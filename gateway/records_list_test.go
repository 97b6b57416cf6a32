package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
)

// books is a gateway's admin listener over a store with records of writes.
type books struct {
	*house
	store cache.Store
}

func newBooks(t testing.TB, change func(*gateway.Options)) *books {
	return newBooksOver(t, func(http.ResponseWriter, *http.Request) {}, change)
}

// newBooksOver is newBooks with an upstream.
func newBooksOver(t testing.TB, upstream http.HandlerFunc, change func(*gateway.Options)) *books {
	b := &books{}
	b.house = newHouse(t, upstream, func(o *gateway.Options) {
		b.store = o.Store
		o.ToolTTL, o.Tombstone = time.Hour, 48*time.Hour
		if change != nil {
			change(o)
		}
	})
	return b
}

// claim is that of a write whose key is named so.
func claim(name, tool string) cache.Claim {
	return cache.Claim{
		Key: sha256.Sum256([]byte(name)), Nonce: cache.NewNonce(), Explicit: true, Lease: time.Minute,
		Write: &cache.Write{About: cache.About{Tool: tool, Method: "POST", Path: "/v1/payments", Principal: "research", User: "u1", Probe: "/v1/payments?ref=1"}},
	}
}

// run brings a write up to a state, and gives its record's name.
func (b *books) run(name, tool string, state cache.State) string {
	b.t.Helper()
	c := claim(name, tool)
	g, err := b.store.Claim(b.t.Context(), c)
	if err != nil || g.Role != cache.Lead {
		b.t.Fatalf("claiming %s: %v, %v", name, g.Role, err)
	}
	h := cache.Hold{Key: c.Key, Fence: g.Fence}
	if state != cache.Claimed {
		if err := b.store.Dispatch(b.t.Context(), h, cache.NewNonce()); err != nil {
			b.t.Fatal(err)
		}
	}
	set := cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: state, Status: 500}, Disk: true}
	switch state {
	case cache.Completed:
		set.Keep, set.Memory = time.Hour, 2*time.Hour
		set.Result.Status, set.Result.Size, set.Result.Sum = 201, 3, sha256.Sum256([]byte("yes"))
		set.Result.Frames = []cache.Frame{
			{Kind: cache.HeadFrame, Head: &cache.Head{Status: 201, Target: tool, Attempts: 1}},
			{Kind: cache.BodyFrame, Data: []byte("yes")},
		}
		fallthrough
	case cache.Unknown:
		if err := b.store.Settle(b.t.Context(), h, set); err != nil {
			b.t.Fatal(err)
		}
	}
	return hex.EncodeToString(c.Key[:])
}

// ask asks the admin listener, and reads its JSON.
func (b *books) ask(method, path, body string, headers ...string) (int, map[string]any) {
	b.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.g.Admin().ServeHTTP(w, r)
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		b.t.Errorf("%s %s: %d %q: %v", method, path, w.Code, w.Body, err)
	}
	return w.Code, out
}

// fault is what an error names: its code and its param.
func fault(out map[string]any) (code, param, message string) {
	e, _ := out["error"].(map[string]any)
	code, _ = e["code"].(string)
	param, _ = e["param"].(string)
	message, _ = e["message"].(string)
	return code, param, message
}

func keysIn(out map[string]any) (keys []string) {
	for _, r := range out["records"].([]any) {
		keys = append(keys, r.(map[string]any)["key"].(string))
	}
	return keys
}

func TestRecordsAreListedByPageAndFilter(t *testing.T) {
	b := newBooks(t, nil)
	names := map[string]string{}
	for i := range 5 {
		names[b.run(fmt.Sprint("pay", i), "payments", cache.Unknown)] = "payments"
	}
	names[b.run("mail", "mail", cache.Completed)] = "mail"
	names[b.run("claimed", "mail", cache.Claimed)] = "mail"

	seen, path, pages := map[string]bool{}, "/api/records?limit=2", 0
	for next := ""; ; pages++ {
		status, out := b.ask("GET", path+next, "")
		if status != 200 || pages > 10 {
			t.Fatalf("%d %v", status, out)
		}
		for _, k := range keysIn(out) {
			if seen[k] || names[k] == "" {
				t.Errorf("%s came twice, or is none", k)
			}
			seen[k] = true
		}
		more, ok := out["next"].(string)
		if !ok {
			break
		}
		next = "&cursor=" + more
	}
	if len(seen) != 7 || pages < 3 {
		t.Errorf("%d records on %d pages", len(seen), pages+1)
	}
	for query, want := range map[string]int{
		"": 7, "?state=unknown": 5, "?state=completed": 1, "?state=claimed": 1, "?state=tombstone": 0, "?state=dispatched": 0,
		"?tool=mail": 2, "?tool=mail&state=completed": 1, "?tool=none": 0, "?principal=research": 7, "?principal=other": 0, "?limit=200": 7,
	} {
		status, out := b.ask("GET", "/api/records"+query, "")
		if status != 200 || len(keysIn(out)) != want {
			t.Errorf("%s: %d, %d records, not %d", query, status, len(keysIn(out)), want)
		}
	}
	_, out := b.ask("GET", "/api/records?state=unknown", "")
	var sent []time.Time
	for _, r := range out["records"].([]any) {
		at, _ := time.Parse(time.RFC3339, r.(map[string]any)["dispatched"].(string))
		sent = append(sent, at)
	}
	if !slices.IsSortedFunc(sent, time.Time.Compare) {
		t.Errorf("the unknown outcomes are not the oldest first: %v", sent)
	}
	_, out = b.ask("GET", "/api/records?tool=mail&state=completed", "")
	r := out["records"].([]any)[0].(map[string]any)
	for name, want := range map[string]any{
		"state": "completed", "tool": "mail", "method": "POST", "path": "/v1/payments", "principal": "research", "user": "u1", "unkeyed": false, "status": 201.0,
	} {
		if r[name] != want {
			t.Errorf("%s is %v, not %v", name, r[name], want)
		}
	}
	for _, name := range []string{"claimed", "dispatched", "settled"} {
		if at, err := time.Parse(time.RFC3339, r[name].(string)); err != nil || time.Since(at) > time.Minute {
			t.Errorf("%s is %v", name, r[name])
		}
	}
}

func TestARecordIsShownWithItsTrailAndWithoutItsBody(t *testing.T) {
	b := newBooks(t, nil)
	key := b.run("pay", "payments", cache.Completed)
	status, out := b.ask("GET", "/api/records/"+strings.ToUpper(key), "")
	if status != 200 || out["key"] != key || out["fence"] != out["origin"] || out["fence"].(float64) < 1 || out["size"] != 3.0 || out["probe"] != true ||
		out["sha256"] != hex.EncodeToString(func() []byte { s := sha256.Sum256([]byte("yes")); return s[:] }()) {
		t.Errorf("%d %v", status, out)
	}
	var what []string
	before := time.Time{}
	for _, e := range out["events"].([]any) {
		e := e.(map[string]any)
		what = append(what, e["what"].(string))
		at, err := time.Parse(time.RFC3339, e["at"].(string))
		if err != nil || at.Before(before) {
			t.Errorf("%v at %v", e["what"], e["at"])
		}
		before = at
	}
	if strings.Join(what, " ") != "claimed dispatched completed" {
		t.Error(what)
	}
	expires, _ := time.Parse(time.RFC3339, fmt.Sprint(out["expires"]))
	forgotten, _ := time.Parse(time.RFC3339, fmt.Sprint(out["forgotten"]))
	if d := forgotten.Sub(expires); d < 59*time.Minute || d > 61*time.Minute {
		t.Errorf("its answer goes at %v, its key at %v", out["expires"], out["forgotten"])
	}
	if text, _ := json.Marshal(out); strings.Contains(string(text), "yes") || strings.Contains(string(text), "eWVz") {
		t.Errorf("the body is shown: %s", text)
	}

	key = b.run("doubt", "payments", cache.Unknown)
	_, out = b.ask("GET", "/api/records/"+key, "")
	for _, name := range []string{"size", "sha256", "expires", "forgotten"} {
		if v, there := out[name]; there {
			t.Errorf("an unknown outcome has a %s: %v", name, v)
		}
	}
	if out["status"] != 500.0 { // the upstream's own
		t.Errorf("status %v", out["status"])
	}
}

func TestExecutedWithAnAnswerIsReplayed(t *testing.T) {
	b := newBooks(t, nil)
	key := b.run("pay", "payments", cache.Unknown)
	status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"executed","reason":"it is on the statement","actor":"kim","status":201,"body":"{\"id\":\"pay_1\"}"}`)
	if status != 200 || out["key"] != key || out["state"] != "completed" || out["as"] != "executed" {
		t.Fatalf("%d %v", status, out)
	}
	g, err := b.store.Claim(t.Context(), claim("pay", "payments"))
	if err != nil || g.Role != cache.Replay || g.Result.Status != 201 || g.Result.Size != 14 || g.Result.Sum != sha256.Sum256([]byte(`{"id":"pay_1"}`)) {
		t.Fatalf("%+v, %v", g, err)
	}
	head := g.Result.Frames[0].Head
	if len(g.Result.Frames) != 2 || head.Status != 201 || head.Target != "payments" || head.Attempts != 1 || head.Failed || head.Header["Content-Type"][0] != "application/json" ||
		string(g.Result.Frames[1].Data) != `{"id":"pay_1"}` || g.Result.Frames[1].Kind != cache.BodyFrame {
		t.Errorf("%+v, %d frames", head, len(g.Result.Frames))
	}
	_, out = b.ask("GET", "/api/records/"+key, "")
	events := out["events"].([]any)
	last := events[len(events)-1].(map[string]any)
	if out["state"] != "completed" || out["status"] != 201.0 || last["what"] != "resolved" || last["as"] != "executed" || last["actor"] != "kim" || last["reason"] != "it is on the statement" {
		t.Errorf("%v %v", out["state"], last)
	}
	settled, _ := time.Parse(time.RFC3339, out["settled"].(string))
	for name, want := range map[string]time.Duration{"expires": time.Hour, "forgotten": 48 * time.Hour} {
		if at, _ := time.Parse(time.RFC3339, out[name].(string)); at.Sub(settled).Round(time.Minute) != want {
			t.Errorf("%s is %v after it settled, not %v", name, at.Sub(settled), want)
		}
	}
}

func TestExecutedWithoutAnAnswerIsGone(t *testing.T) {
	b := newBooks(t, nil)
	key := b.run("pay", "payments", cache.Unknown)
	if status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"executed","reason":"seen"}`); status != 200 {
		t.Fatalf("%d %v", status, out)
	}
	if g, err := b.store.Claim(t.Context(), claim("pay", "payments")); err != nil || g.Role != cache.Gone {
		t.Errorf("%+v, %v", g, err)
	}
	_, out := b.ask("GET", "/api/audit", "")
	if a := out["audit"].([]any)[0].(map[string]any); a["actor"] != "operator" || a["as"] != "executed" {
		t.Errorf("%v", a)
	}
}

func TestNotExecutedLetsTheNextCallerRun(t *testing.T) {
	b := newBooks(t, nil)
	key := b.run("pay", "payments", cache.Unknown)
	if status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"not-executed","reason":"no trace of it"}`); status != 200 || out["state"] != "released" {
		t.Fatalf("%d %v", status, out)
	}
	if g, err := b.store.Claim(t.Context(), claim("pay", "payments")); err != nil || g.Role != cache.Lead {
		t.Errorf("%+v, %v", g, err)
	}
}

func TestOnlyAnUnknownOutcomeIsResolved(t *testing.T) {
	b := newBooks(t, nil)
	for state, word := range map[cache.State]string{cache.Claimed: "claimed", cache.Dispatched: "dispatched", cache.Completed: "completed"} {
		key := b.run(word, "payments", state)
		status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"not-executed","reason":"x"}`)
		if code, _, message := fault(out); status != 409 || code != "outcome_not_unknown" || !strings.Contains(message, "it is "+word) {
			t.Errorf("%s: %d %v", word, status, out)
		}
		if _, out := b.ask("GET", "/api/records/"+key, ""); out["state"] != word {
			t.Errorf("%s became %v", word, out["state"])
		}
	}
	key := b.run("pay", "payments", cache.Unknown)
	b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"executed","reason":"x"}`)
	if status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"not-executed","reason":"x"}`); status != 409 {
		t.Errorf("resolved twice: %d %v", status, out)
	}
	if _, out := b.ask("GET", "/api/audit", ""); len(out["audit"].([]any)) != 1 {
		t.Errorf("%v", out)
	}
}

// Of people who say different things at once one is heard, and the others are
// told so.
func TestOneOfSeveralResolutionsStands(t *testing.T) {
	b := newBooks(t, nil)
	for round := range 10 {
		key := b.run(fmt.Sprint("pay", round), "payments", cache.Unknown)
		var all sync.WaitGroup
		var heard, late atomic.Int32
		var as atomic.Value
		start := make(chan struct{})
		for n := range 8 {
			said := []string{"executed", "not-executed"}[n%2]
			all.Go(func() {
				<-start
				switch status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"`+said+`","reason":"x"}`); status {
				case 200:
					heard.Add(1)
					as.Store(said)
				case 409, 404: // released, it is gone
					late.Add(1)
				default:
					t.Errorf("%d %v", status, out)
				}
			})
		}
		close(start)
		all.Wait()
		_, out := b.ask("GET", "/api/audit?limit=200", "")
		entries := out["audit"].([]any)
		if last := entries[0].(map[string]any); heard.Load() != 1 || late.Load() != 7 || len(entries) != round+1 || last["key"] != key || last["as"] != as.Load() {
			t.Fatalf("%d were heard, %d entries, the last is %v", heard.Load(), len(entries), last)
		}
	}
}

// What was looked at may have been run again since.
func TestAResolutionIsOfTheFenceThatWasSeen(t *testing.T) {
	b := newBooks(t, nil)
	key := b.run("pay", "payments", cache.Unknown)
	_, out := b.ask("GET", "/api/records/"+key, "")
	first := uint64(out["fence"].(float64))
	c := claim("pay", "payments")
	c.Write.Knowingly = true
	g, err := b.store.Claim(t.Context(), c)
	if err != nil || g.Role != cache.Lead || uint64(g.Fence) <= first {
		t.Fatalf("%+v, %v", g, err)
	}
	h := cache.Hold{Key: c.Key, Fence: g.Fence}
	if err := b.store.Dispatch(t.Context(), h, cache.NewNonce()); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Settle(t.Context(), h, cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Unknown}}); err != nil {
		t.Fatal(err)
	}
	resolve := func(fence uint64) (int, map[string]any) {
		return b.ask("POST", "/api/records/"+key+"/resolve", fmt.Sprintf(`{"as":"not-executed","reason":"x","fence":%d}`, fence))
	}
	status, out := resolve(first)
	if _, _, message := fault(out); status != 409 || !strings.Contains(message, fmt.Sprintf("fence %d, not %d", g.Fence, first)) {
		t.Errorf("%d %v", status, out)
	}
	if status, out = resolve(uint64(g.Fence)); status != 200 {
		t.Errorf("%d %v", status, out)
	}
}

func TestSeveralAreResolvedEachForItself(t *testing.T) {
	b := newBooks(t, nil)
	first, done, third := b.run("1", "payments", cache.Unknown), b.run("2", "payments", cache.Completed), b.run("3", "payments", cache.Unknown)
	none := strings.Repeat("0", 64)
	status, out := b.ask("POST", "/api/records/resolve", fmt.Sprintf(`{"resolve":[
		{"key":%q,"as":"executed","reason":"a"}, {"key":%q,"as":"executed","reason":"a"}, {"key":%q,"as":"executed","reason":"a"},
		{"key":%q,"as":"perhaps","reason":"a"}, {"key":"k","as":"executed","reason":"a"}, 7, {"key":%[4]q,"as":"not-executed","reason":"b"}]}`, first, done, none, third))
	if status != 200 {
		t.Fatalf("%d %v", status, out)
	}
	want := []string{"200 tombstone  ", "409  outcome_not_unknown ", "404  not_found ", "400  invalid_request_error as", "400  invalid_request_error key", "400  invalid_request_error ", "200 released  "}
	for i, r := range out["results"].([]any) {
		r := r.(map[string]any)
		code, param, _ := fault(r)
		state, _ := r["state"].(string)
		if got := fmt.Sprintf("%v %s %s %s", r["status"], state, code, param); got != want[i] {
			t.Errorf("item %d: %q, not %q: %v", i, got, want[i], r)
		}
	}
	_, out = b.ask("GET", "/api/audit", "")
	audit := out["audit"].([]any)
	if len(audit) != 2 || audit[0].(map[string]any)["key"] != third || audit[0].(map[string]any)["as"] != "not-executed" || audit[0].(map[string]any)["tool"] != "payments" || audit[1].(map[string]any)["key"] != first {
		t.Errorf("%v", audit)
	}
	if _, out = b.ask("GET", "/api/audit?limit=1", ""); len(out["audit"].([]any)) != 1 || out["next"] == nil {
		t.Errorf("%v", out)
	}
	if _, out = b.ask("GET", "/api/audit?limit=1&cursor="+out["next"].(string), ""); out["audit"].([]any)[0].(map[string]any)["key"] != first || out["next"] != nil {
		t.Errorf("%v", out)
	}
}

func TestRecordsRefuseWhatMakesNoSense(t *testing.T) {
	b := newBooks(t, func(o *gateway.Options) { o.MaxAnswer = 100 })
	key := b.run("pay", "payments", cache.Unknown)
	one, several := "/api/records/"+key+"/resolve", "/api/records/resolve"
	long := strings.Repeat("x", 1001)
	for _, c := range []struct {
		method, path, body string
		status             int
		param              string
	}{
		{"GET", "/api/records?limit=201", "", 400, "limit"},
		{"GET", "/api/records?limit=0", "", 400, "limit"},
		{"GET", "/api/records?limit=", "", 400, "limit"},
		{"GET", "/api/records?limit=ten", "", 400, "limit"},
		{"GET", "/api/records?limit=1&limit=2", "", 400, "limit"},
		{"GET", "/api/records?state=lost", "", 400, "state"},
		{"GET", "/api/records?state=", "", 400, "state"},
		{"GET", "/api/records?tool=a/b", "", 400, "tool"},
		{"GET", "/api/records?tool=", "", 400, "tool"},
		{"GET", "/api/records?principal=a%20b", "", 400, "principal"},
		{"GET", "/api/records?stat=unknown", "", 400, "stat"},
		{"GET", "/api/records?cursor=nowhere", "", 400, "cursor"},
		{"GET", "/api/records?limit=1;x=2", "", 400, ""},
		{"GET", "/api/audit?cursor=nowhere", "", 400, "cursor"},
		{"GET", "/api/audit?tool=payments", "", 400, "tool"},
		{"GET", "/api/audit?limit=201", "", 400, "limit"},
		{"GET", "/api/records/" + key + "?a=b", "", 400, "a"},
		{"GET", "/api/records/abc", "", 400, "key"},
		{"GET", "/api/records/" + key[:63] + "g", "", 400, "key"},
		{"GET", "/api/records/" + strings.Repeat("0", 64), "", 404, ""},
		{"POST", "/api/records/" + strings.Repeat("0", 64) + "/resolve", `{"as":"executed","reason":"x"}`, 404, ""},
		{"POST", "/api/records/abc/resolve", `{"as":"executed","reason":"x"}`, 400, "key"},
		{"POST", one + "?a=b", `{"as":"executed","reason":"x"}`, 400, "a"},
		{"POST", one, ``, 400, ""},
		{"POST", one, `{"as":"executed","reason":"x"`, 400, ""},
		{"POST", one, `{"as":"executed","as":"not-executed","reason":"x"}`, 400, ""},
		{"POST", one, `[]`, 400, ""},
		{"POST", one, `{"reason":"x"}`, 400, "as"},
		{"POST", one, `{"as":"maybe","reason":"x"}`, 400, "as"},
		{"POST", one, `{"as":7,"reason":"x"}`, 400, "as"},
		{"POST", one, `{"As":"executed","reason":"x"}`, 400, "As"},
		{"POST", one, `{"as":"executed"}`, 400, "reason"},
		{"POST", one, `{"as":"executed","reason":" "}`, 400, "reason"},
		{"POST", one, `{"as":"executed","reason":"` + long + `"}`, 400, "reason"},
		{"POST", one, `{"as":"executed","reason":"x","actor":""}`, 400, "actor"},
		{"POST", one, `{"as":"executed","reason":"x","actor":"` + long[:201] + `"}`, 400, "actor"},
		{"POST", one, `{"as":"executed","reason":"x","fence":0}`, 400, "fence"},
		{"POST", one, `{"as":"executed","reason":"x","status":201}`, 400, "body"},
		{"POST", one, `{"as":"executed","reason":"x","status":500,"body":"{}"}`, 400, "status"},
		{"POST", one, `{"as":"executed","reason":"x","status":199,"body":"{}"}`, 400, "status"},
		{"POST", one, `{"as":"executed","reason":"x","status":"201","body":"{}"}`, 400, "status"},
		{"POST", one, `{"as":"executed","reason":"x","status":204,"body":"{}"}`, 400, "body"},
		{"POST", one, `{"as":"executed","reason":"x","body":"no JSON"}`, 400, "body"},
		{"POST", one, `{"as":"executed","reason":"x","body":{"id":1}}`, 400, "body"},
		{"POST", one, `{"as":"executed","reason":"x","body":"` + long[:101] + `","content_type":"text/plain"}`, 400, "body"},
		{"POST", one, `{"as":"executed","reason":"x","content_type":"text/plain"}`, 400, "body"},
		{"POST", one, `{"as":"executed","reason":"x","body":"a","content_type":"text"}`, 400, "content_type"},
		{"POST", one, `{"as":"executed","reason":"x","body":"a","content_type":"text/plain\r\nX: y"}`, 400, "content_type"},
		{"POST", one, `{"as":"not-executed","reason":"x","status":201}`, 400, "status"},
		{"POST", one, `{"as":"not-executed","reason":"x","body":"{}"}`, 400, "body"},
		{"POST", one, `{"as":"executed","reason":"x","key":"` + key + `"}`, 400, "key"},
		{"POST", several, `{"resolve":[]}`, 400, "resolve"},
		{"POST", several, `{}`, 400, "resolve"},
		{"POST", several, `{"resolve":{}}`, 400, "resolve"},
		{"POST", several, `{"resolve":[` + strings.Repeat(`{},`, 200) + `{}]}`, 400, "resolve"},
		{"POST", several, `{"records":[]}`, 400, "records"},
		{"POST", "/api/records", `{}`, 405, ""},
		{"DELETE", "/api/records/" + key, "", 405, ""},
		{"GET", one, "", 405, ""},
		{"PUT", one, `{"as":"executed","reason":"x"}`, 405, ""},
		{"GET", several, "", 405, ""},
		{"POST", "/api/audit", `{}`, 405, ""},
	} {
		status, out := b.ask(c.method, c.path, c.body)
		if _, param, message := fault(out); status != c.status || param != c.param || message == "" {
			t.Errorf("%s %s %.80s: %d %q, not %d %q: %s", c.method, c.path, c.body, status, param, c.status, c.param, message)
		}
	}
	if _, out := b.ask("GET", "/api/records/"+key, ""); out["state"] != "unknown" {
		t.Errorf("it became %v", out["state"])
	}
}

// A page of another origin can have a browser send much, but nothing that
// changes something here.
func TestChangesComeFromNoOtherOrigin(t *testing.T) {
	b := newBooks(t, nil)
	key := b.run("pay", "payments", cache.Unknown)
	path, body := "/api/records/"+key+"/resolve", `{"as":"not-executed","reason":"x"}`
	for _, headers := range [][]string{
		{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "http://127.0.0.1:3000"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
	} {
		status, out := b.ask("POST", path, body, headers...)
		if code, _, _ := fault(out); status != 403 || code != "not_allowed" {
			t.Errorf("%v: %d %v", headers, status, out)
		}
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		status, out := b.ask("POST", path, body, "Content-Type", kind)
		if _, param, _ := fault(out); status != 400 || param != "Content-Type" {
			t.Errorf("%q: %d %v", kind, status, out)
		}
	}
	if _, out := b.ask("GET", "/api/records/"+key, "", "Origin", "http://127.0.0.1:3000"); out["state"] != "unknown" {
		t.Errorf("it became %v", out["state"])
	}
	if status, out := b.ask("POST", path, body, "Origin", "http://127.0.0.1", "Content-Type", "application/json; charset=utf-8"); status != 200 {
		t.Errorf("its own page: %d %v", status, out)
	}
}

func TestRecordsNeedTheAdminToken(t *testing.T) {
	b := newBooks(t, func(o *gateway.Options) { o.AdminToken = "sesame" })
	key := b.run("pay", "payments", cache.Unknown)
	for _, c := range [][2]string{{"GET", "/api/records"}, {"GET", "/api/records/" + key}, {"GET", "/api/audit"}, {"POST", "/api/records/" + key + "/resolve"}, {"POST", "/api/records/resolve"}} {
		if status, out := b.ask(c[0], c[1], `{"as":"executed","reason":"x"}`); status != 401 {
			t.Errorf("%v: %d %v", c, status, out)
		}
	}
	if status, _ := b.ask("GET", "/api/records/"+key, "", "Authorization", "Bearer sesame"); status != 200 {
		t.Errorf("with it: %d", status)
	}
}

// lossy is a store whose steps about records don't come through.
type lossy struct {
	cache.Store
	away   atomic.Bool  // nothing has an effect
	losing atomic.Int32 // so many answers to a Resolve are lost after its effect
}

func (l *lossy) Resolve(ctx context.Context, k cache.Key, r cache.Resolution) error {
	if l.away.Load() {
		return cache.ErrAway
	}
	err := l.Store.Resolve(ctx, k, r)
	if l.losing.Add(-1) >= 0 {
		return fmt.Errorf("%w: %w", cache.ErrAway, cache.ErrLost)
	}
	return err
}

func (l *lossy) Record(ctx context.Context, k cache.Key) (cache.Record, error) {
	if l.away.Load() {
		return cache.Record{}, cache.ErrAway
	}
	return l.Store.Record(ctx, k)
}

func (l *lossy) Records(ctx context.Context, f cache.Filter, cursor string, limit int) ([]cache.Record, string, error) {
	if l.away.Load() {
		return nil, "", cache.ErrAway
	}
	return l.Store.Records(ctx, f, cursor, limit)
}

func (l *lossy) Audits(ctx context.Context, cursor string, limit int) ([]cache.Audit, string, error) {
	if l.away.Load() {
		return nil, "", cache.ErrAway
	}
	return l.Store.Audits(ctx, cursor, limit)
}

func TestRecordsWithoutTheStore(t *testing.T) {
	var s lossy
	b := newBooks(t, func(o *gateway.Options) { s.Store = o.Store; o.Store = &s })
	key := b.run("pay", "payments", cache.Unknown)
	s.away.Store(true)
	for _, c := range [][2]string{{"GET", "/api/records"}, {"GET", "/api/records/" + key}, {"GET", "/api/audit"}, {"POST", "/api/records/" + key + "/resolve"}} {
		status, out := b.ask(c[0], c[1], `{"as":"executed","reason":"x"}`)
		if code, _, _ := fault(out); status != 503 || code != "store_unavailable" {
			t.Errorf("%v: %d %v", c, status, out)
		}
	}
	status, out := b.ask("POST", "/api/records/resolve", fmt.Sprintf(`{"resolve":[{"key":%q,"as":"executed","reason":"x"}]}`, key))
	if r := out["results"].([]any)[0].(map[string]any); status != 200 || r["status"] != 503.0 {
		t.Errorf("%d %v", status, out)
	}
	s.away.Store(false)
	if _, out := b.ask("GET", "/api/records/"+key, ""); out["state"] != "unknown" {
		t.Errorf("it became %v", out["state"])
	}
}

// An acknowledgement that was lost is asked for again, by its nonce: the caller
// is not told that it was resolved before.
func TestAResolutionWhoseAcknowledgementIsLost(t *testing.T) {
	var s lossy
	b := newBooks(t, func(o *gateway.Options) { s.Store = o.Store; o.Store = &s })
	key := b.run("pay", "payments", cache.Unknown)
	s.losing.Store(resolveTries - 1)
	if status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"executed","reason":"x"}`); status != 200 || out["state"] != "tombstone" {
		t.Errorf("%d %v", status, out)
	}
	if _, out := b.ask("GET", "/api/audit", ""); len(out["audit"].([]any)) != 1 {
		t.Errorf("%v", out)
	}
	// One that stays lost is told as what it is.
	key = b.run("other", "payments", cache.Unknown)
	s.losing.Store(resolveTries)
	status, out := b.ask("POST", "/api/records/"+key+"/resolve", `{"as":"executed","reason":"x"}`)
	if _, _, message := fault(out); status != 503 || !strings.Contains(message, "look at the record") {
		t.Errorf("%d %v", status, out)
	}
	if _, out := b.ask("GET", "/api/records/"+key, ""); out["state"] != "tombstone" {
		t.Errorf("it is %v", out["state"])
	}
}

// resolveTries is how often the gateway asks.
const resolveTries = 3
