package test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache/report"
	"oncegate/test/harness"
	"oncegate/test/up"
)

// account is what a gateway's report says of the last day.
func account(t *testing.T, g *harness.Gateway, by string) *report.Report {
	t.Helper()
	var r report.Report
	if err := json.Unmarshal([]byte(ask(t, g, "/api/report?by="+by)), &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func ask(t *testing.T, g *harness.Gateway, path string) string {
	t.Helper()
	status, body := adminAsk(t, g, path)
	if status != 200 {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	return body
}

// adminAsk asks the admin listener.
func adminAsk(t *testing.T, g *harness.Gateway, path string) (status int, body string) {
	t.Helper()
	res, err := http.Get("http://" + g.Admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// group is one group's sums; nothing where there is none.
func group(r *report.Report, name string) report.Sums {
	for _, g := range r.Groups {
		if g.Name == name {
			return g.Sums
		}
	}
	return report.Sums{}
}

// priced is a completion of a model with what it used.
func priced(model, usage string) up.Step {
	return up.Status(200, `{"id":"x","object":"chat.completion","model":"`+model+`","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],"usage":`+usage+`}`)
}

// pricedStream is the same, streamed.
func pricedStream(model, usage string) up.Step {
	return up.SSE(`{"id":"x","object":"chat.completion.chunk","model":"`+model+`","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}`,
		`{"id":"x","object":"chat.completion.chunk","model":"`+model+`","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":`+usage+`}`, "[DONE]")
}

var dear = harness.Config{"prices": harness.Map{
	"m":    harness.Map{"input": 1, "output": 2, "cached_input": 0.1},
	"free": harness.Map{"input": 0, "output": 0},
}}

// B087, B030: cached tokens are part of the input, and priced once; the same
// in a stream, and where the usage comes on a chunk that has choices.
func TestCostOfCachedTokens(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]string{
		`{"prompt_tokens":16000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":15000}}`:                           "0.002504",
		`{"prompt_tokens":2000,"completion_tokens":300,"prompt_tokens_details":{"cached_tokens":1900}}`:                           "0.00089",
		`{"prompt_tokens":100,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":900}}`:                               "0.00001", // bad data: cut to its whole
		`{"prompt_tokens":2008,"completion_tokens":266,"total_tokens":2274,"completion_tokens_details":{"reasoning_tokens":261}}`: "0.00254", // B089
		`{"prompt_tokens":36,"completion_tokens":10,"total_tokens":736,"completion_tokens_details":{"reasoning_tokens":690}}`:     "0.001436",
	} {
		for _, stream := range []bool{false, true} {
			u := up.New(t, priced("m", usage))
			if stream {
				u.Script(pricedStream("m", usage))
			}
			g := harness.Start(t, u.URL(), dear)
			a := g.Chat(fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"hi"}]}`, stream))
			if a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			idle(t, g)
			if got := account(t, g, "model").Total.Billed.USD.String(); got != want {
				t.Errorf("%s, stream %v: %s, want %s", usage, stream, got, want)
			}
		}
	}
}

// B090: what has no price is unpriced, not free; what is free is not unpriced.
func TestUnpricedIsNotFree(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step { return priced(c.Model(), `{"prompt_tokens":1000000,"completion_tokens":5}`) })
	g := harness.Start(t, u.URL(), dear)
	for _, model := range []string{"vendor/unknown-x", "free", "m"} {
		for range 2 {
			if a := g.Chat(`{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, "Idempotency-Key: k-"+model); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
	}
	r := account(t, g, "model")
	for model, want := range map[string][3]any{
		"vendor/unknown-x": {int64(2), "0", int64(1000000)}, "free": {int64(0), "0", int64(1000000)}, "m": {int64(0), "1.00001", int64(1000000)},
	} {
		got := group(r, model)
		if got.UnpricedRequests != want[0] || got.Saved.USD.String() != want[1] || got.Saved.Tokens.Input != want[2] {
			t.Errorf("%s: %+v", model, got)
		}
	}
	if r.Total.UnpricedRequests != 2 || g.Metrics().Sum("oncegate_unpriced_requests_total") != 2 {
		t.Errorf("%+v", r.Total)
	}
	if table := report2text(t, g); !strings.Contains(table, "unpriced: 2 requests") || !strings.Contains(table, "$1.00") {
		t.Error(table)
	}
}

// report2text is what the command prints.
func report2text(t *testing.T, g *harness.Gateway, args ...string) string {
	t.Helper()
	code, out, errs := harness.Run(t, nil, append([]string{"report", "--admin", g.Admin}, args...)...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	return out
}

// B091: saved is what was avoided: by followers and replays of a success, not
// by those of a failure, nor by the provider's own cache.
func TestSavedIsWhatWasAvoided(t *testing.T) {
	t.Parallel()
	const usage = `{"prompt_tokens":60,"completion_tokens":40}`
	u := up.New(t)
	g := harness.Start(t, u.URL(), dear)
	gate := make(chan struct{})
	u.Script(up.Seq(up.Gate(gate), priced("m", usage)))
	var all []*harness.Pending
	body := `{"model":"m","user":"u1","messages":[{"role":"user","content":"one"}]}`
	for range 5 {
		all = append(all, g.Go(harness.Chat, body))
	}
	harness.Eventually(t, 10*time.Second, "four follow", func() bool { return followers(g) == 4 })
	left := g.Go(harness.Chat, body) // it leaves, and counts once all the same
	harness.Eventually(t, 10*time.Second, "five follow", func() bool { return followers(g) == 5 })
	left.Leave()
	harness.Eventually(t, 10*time.Second, "one left", func() bool { return followers(g) == 4 })
	close(gate)
	for _, p := range all {
		p.Answer()
	}
	idle(t, g)
	r := account(t, g, "user")
	if s := group(r, "u1"); s.Saved.Requests != 5 || s.Saved.By.Twin != 5 || s.Saved.Tokens != (report.Tokens{Input: 300, Output: 200}) ||
		s.Saved.USD.String() != "0.0007" || s.Attempts.Billed != 1 || s.Billed.Tokens.Input != 60 || s.Requests != 6 {
		t.Errorf("%+v", s)
	}

	gate = make(chan struct{})
	u.Script(up.Seq(up.Gate(gate), up.Status(400, up.Problem("bad"))))
	all = nil
	for range 5 {
		all = append(all, g.Go(harness.Chat, `{"model":"m","user":"u2","messages":[{"role":"user","content":"two"}]}`))
	}
	harness.Eventually(t, 10*time.Second, "four follow", func() bool { return followers(g) == 4 })
	close(gate)
	for _, p := range all {
		p.Answer()
	}
	idle(t, g)
	if s := group(account(t, g, "user"), "u2"); s.Saved.Requests != 0 || s.Attempts.Billed != 0 || s.Attempts.Unbilled != 1 || s.Requests != 5 {
		t.Errorf("a failure that was shared: %+v", s)
	}

	u.Script(priced("m", usage))
	for range 4 {
		g.Chat(`{"model":"m","user":"u3","messages":[{"role":"user","content":"three"}]}`, "Idempotency-Key: three")
	}
	u.Script(priced("m", `{"prompt_tokens":60,"completion_tokens":40,"prompt_tokens_details":{"cached_tokens":50}}`))
	g.Chat(`{"model":"m","user":"u4","messages":[{"role":"user","content":"four"}]}`)
	idle(t, g)
	r = account(t, g, "user")
	if s := group(r, "u3"); s.Saved.Requests != 3 || s.Saved.By.Key != 3 || s.Attempts.Billed != 1 || s.Billed.Tokens.Output != 40 || s.Outcomes.Replayed != 3 {
		t.Errorf("replays: %+v", s)
	}
	if s := group(r, "u4"); s.Saved.Requests != 0 || s.Billed.USD.String() != "0.000095" {
		t.Errorf("the provider's cache: %+v", s)
	}
	sum := int64(0)
	for _, g := range r.Groups {
		sum += g.Requests
	}
	if sum != r.Total.Requests || sum != 16 {
		t.Errorf("the users have %d, all have %d", sum, r.Total.Requests)
	}
}

// Refusals, failures and attempts that nobody knows of, each in its place.
func TestAccountOfFailures(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	g := harness.Start(t, u.URL(), dear)
	u.Script(up.Fail(503, "busy"), up.RST, priced("m", `{"prompt_tokens":1,"completion_tokens":1}`))
	g.Chat(`{"model":"m","messages":[{"role":"user","content":"1"}]}`)
	u.Script(up.Fail(503, "busy"))
	g.Chat(`{"model":"m","messages":[{"role":"user","content":"2"}]}`)
	g.Chat(`{"model":"m","messages":`) // no JSON: refused
	g.Get("/v1/models")                // counts nowhere
	g.Get("/v1/nothing")
	idle(t, g)
	r := account(t, g, "reason")
	want := report.Attempts{Billed: 1, Unbilled: 4, Ambiguous: 1}
	if r.Total.Attempts != want || r.Total.Requests != 3 || r.Total.Outcomes != (report.Outcomes{Executed: 1, Failed: 1, Refused: 1}) {
		t.Errorf("%+v", r.Total)
	}
	if s := group(r, "attempts_exhausted"); s.Requests != 1 || s.Attempts.Unbilled != 3 {
		t.Errorf("%+v", s)
	}
	if s := group(account(t, g, "provider"), "up"); s.Outcomes.Failed != 1 || s.Outcomes.Executed != 1 {
		t.Errorf("by its provider: %+v", s)
	}
	if s := group(r, "bad_request"); s.Outcomes.Refused != 1 {
		t.Errorf("%+v", s)
	}
}

// A report that makes no sense is refused with the parameter at fault.
func TestReportQuery(t *testing.T) {
	t.Parallel()
	g := harness.Start(t, up.New(t).URL())
	for query, word := range map[string]string{
		"by=color": "by can be model, provider", "since=yesterday": "since is how long ago", "since=1h&until=2h": "since must be before until",
		"zone=Mars/Olympus": "zone is a name of the IANA", "format=xml": "format can be", "sinze=1h": `not \"sinze\"`,
		"monthly=0&retry_rate=0.1": "monthly is a number", "monthly=10": "retry_rate is a part", "monthly=10&retry_rate=2": "retry_rate is a part",
		"format=csv&monthly=10&retry_rate=0.1": "a CSV has one table",
	} {
		if status, body := adminAsk(t, g, "/api/report?"+query); status != 400 || !strings.Contains(body, word) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	for _, args := range [][]string{{"--by", "color"}, {"--since", "soon"}, {"--format", "xml"}, {"--monthly", "5"}, {"--monthly", "5", "--retry-rate", "200%"}} {
		if code, _, errs := harness.Run(t, nil, append([]string{"report", "--admin", g.Admin}, args...)...); code != 2 || errs == "" {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
	if code, _, errs := harness.Run(t, nil, "report", "--admin", "127.0.0.1:1"); code != 1 || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("nobody there: exit %d, %s", code, errs)
	}
}

// Random traffic: in every grouping the total is the sum of the groups, the
// metrics and the CSV; and what was billed is what the upstream counted.
func TestAccountAddsUp(t *testing.T) {
	t.Parallel()
	addsUp(t, func(u *up.Server) []*harness.Gateway {
		return []*harness.Gateway{harness.Start(t, u.URL(), dear, knownKeys)}
	})
}

// The same over two nodes on one Redis, which keep one account.
func TestAccountAddsUpOverNodes(t *testing.T) {
	t.Parallel()
	addsUp(t, func(u *up.Server) []*harness.Gateway {
		_, a, b := nodes(t, u, dear, knownKeys)
		return []*harness.Gateway{a, b}
	})
}

var knownKeys = harness.Config{"auth.keys": []any{harness.Key("a", "key-a"), harness.Key("b", "key-b")}}

func addsUp(t *testing.T, start func(*up.Server) []*harness.Gateway) {
	u := up.New(t)
	var mu sync.Mutex
	var served, in, out int64 // whole answers by the upstream, and their tokens
	u.Choose(func(c *up.Call) up.Step {
		text := c.Field("messages.0.content").String()
		switch {
		case strings.HasPrefix(text, "503"):
			return up.Fail(503, "busy")
		case strings.HasPrefix(text, "400"):
			return up.Status(400, up.Problem("bad"))
		}
		n := int64(len(text))
		usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, n, 2*n)
		mu.Lock()
		served, in, out = served+1, in+n, out+2*n
		mu.Unlock()
		if c.Field("stream").Bool() {
			return pricedStream(c.Model(), usage)
		}
		return priced(c.Model(), usage)
	})
	gates := start(u)
	r := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	requests := 0
	for range 15 {
		for range 20 {
			body := fmt.Sprintf(`{"model":%q,"stream":%v,"user":"user %d","messages":[{"role":"user","content":"%s %d"}]}`,
				[]string{"m", "free", "vendor/unknown"}[r.IntN(3)], r.IntN(2) == 0, r.IntN(3), []string{"say", "say", "say", "503", "400"}[r.IntN(5)], r.IntN(8))
			lines := []string{harness.Bearer([]string{"key-a", "key-b", "key-c"}[r.IntN(3)])}
			switch r.IntN(4) {
			case 0:
				lines = append(lines, fmt.Sprintf("Idempotency-Key: k%d", r.IntN(20)))
			case 1:
				lines = append(lines, "x-stainless-retry-count: 1")
			}
			g := gates[r.IntN(len(gates))]
			requests++
			wg.Go(func() { g.Chat(body, lines...) })
		}
		wg.Wait()
	}
	metrics := map[string]float64{}
	for _, g := range gates {
		idle(t, g)
		m := g.Metrics()
		for _, name := range []string{"oncegate_requests_total", "oncegate_saved_requests_total", "oncegate_saved_usd_total", "oncegate_unpriced_requests_total"} {
			metrics[name] += m.Sum(name)
		}
		metrics["in"] += m.Sum("oncegate_saved_tokens_total", `kind="input"`)
		for _, b := range []string{"billed", "unbilled", "ambiguous"} {
			metrics[b] += m.Sum("oncegate_upstream_attempts_total", `billing="`+b+`"`)
		}
	}
	g := gates[len(gates)-1]
	if len(gates) > 1 { // the other node's requests come within a second
		harness.Eventually(t, 10*time.Second, "both nodes have booked", func() bool { return account(t, g, "").Total.Requests == int64(requests) })
	}
	for _, by := range report.Groupings {
		r := account(t, g, string(by))
		total := r.Total
		var n, billed, saved int64
		for _, g := range r.Groups {
			n, billed, saved = n+g.Requests, billed+g.Attempts.Billed, saved+g.Saved.Requests
		}
		if n != total.Requests || billed != total.Attempts.Billed || saved != total.Saved.Requests {
			t.Errorf("by %s: the groups have %d, %d, %d; the total is %+v", by, n, billed, saved, total)
		}
		rows, err := csv.NewReader(strings.NewReader(ask(t, g, "/api/report?format=csv&by="+string(by)))).ReadAll()
		if err != nil || len(rows) != len(r.Groups)+1 {
			t.Errorf("by %s: %d rows, %v", by, len(rows), err)
		}
		for name, want := range map[string]float64{
			"oncegate_requests_total": float64(total.Requests), "oncegate_saved_requests_total": float64(total.Saved.Requests),
			"oncegate_unpriced_requests_total": float64(total.UnpricedRequests), "in": float64(total.Saved.Tokens.Input),
			"billed": float64(total.Attempts.Billed), "unbilled": float64(total.Attempts.Unbilled), "ambiguous": float64(total.Attempts.Ambiguous),
		} {
			if metrics[name] != want {
				t.Errorf("by %s: the metric %s is %v, the report has %v", by, name, metrics[name], want)
			}
		}
		if usd := total.Saved.USD.Float(); metrics["oncegate_saved_usd_total"] < usd-1e-9 || metrics["oncegate_saved_usd_total"] > usd+1e-9 {
			t.Errorf("the metric of saved dollars is %v, the report has %v", metrics["oncegate_saved_usd_total"], usd)
		}
		if total.Requests != int64(requests) || total.Attempts.Billed != served || total.Billed.Tokens != (report.Tokens{Input: in, Output: out}) {
			t.Errorf("by %s: %d requests were made, %d answers given with %d and %d tokens; the report has %+v", by, requests, served, in, out, total)
		}
		if total.Saved.Requests == 0 || total.Saved.Requests+total.Outcomes.Executed+total.Outcomes.Failed+total.Outcomes.Refused < total.Requests {
			t.Errorf("%+v", total)
		}
	}
}

// Through any kill -9: billed <= what the upstream counted <= billed + ambiguous.
func TestAccountThroughKills(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	var mu sync.Mutex
	answered := int64(0)
	u.Choose(func(c *up.Call) up.Step {
		return up.Seq(up.Pause(time.Duration(rand.IntN(20))*time.Millisecond), func(x *up.Exchange) {
			mu.Lock()
			answered++
			mu.Unlock()
			priced("m", `{"prompt_tokens":3,"completion_tokens":4}`)(x)
		})
	})
	g := harness.Start(t, u.URL(), dear)
	for round := range 6 {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for client := range 8 {
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					g.Try("POST", harness.Chat, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d %d %d"}]}`, round, client, n))
				}
			})
		}
		before := u.N()
		harness.Eventually(t, 20*time.Second, "some calls were made", func() bool { return u.N() > before+60 })
		g.Kill9()
		close(stop)
		wg.Wait()
		g.Restart()
		harness.Eventually(t, 20*time.Second, "the upstream is idle", func() bool { return u.Open() == 0 })
		mu.Lock()
		count := answered
		mu.Unlock()
		total := account(t, g, "model").Total
		if a := total.Attempts; a.Billed > count || count > a.Billed+a.Ambiguous {
			t.Fatalf("round %d: billed %d, ambiguous %d, the upstream counted %d", round, a.Billed, a.Ambiguous, count)
		}
		if total.Attempts.Billed == 0 || total.Billed.Tokens.Input != 3*total.Attempts.Billed {
			t.Fatalf("%+v", total)
		}
	}
}

// And through a Redis that stands still, and a node that dies on it.
func TestAccountThroughRedisStalls(t *testing.T) {
	t.Parallel()
	u := up.New(t)
	var answered atomic.Int64
	u.Choose(func(c *up.Call) up.Step {
		return up.Seq(up.Pause(time.Duration(rand.IntN(20))*time.Millisecond), func(x *up.Exchange) {
			answered.Add(1)
			priced("m", `{"prompt_tokens":3,"completion_tokens":4}`)(x)
		})
	})
	r, a, b := nodes(t, u, dear)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for client := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				g := []*harness.Gateway{a, b}[n%2]
				g.Try("POST", harness.Chat, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d %d"}]}`, client, n))
			}
		})
	}
	more := func(n int) {
		before := u.N()
		harness.Eventually(t, 30*time.Second, "calls are made", func() bool { return u.N() > before+n })
	}
	more(60)
	r.Pause()
	more(60) // unprotected
	r.Continue()
	more(60)
	close(stop)
	wg.Wait()
	idle(t, a)
	idle(t, b)
	harness.Eventually(t, 30*time.Second, "the figures hold", func() bool {
		status, _ := adminAsk(t, b, "/api/report")
		if status != 200 { // it may still be away
			return false
		}
		at := account(t, b, "").Total.Attempts
		return at.Billed <= answered.Load() && answered.Load() <= at.Billed+at.Ambiguous
	})
	if total := account(t, b, "").Total; total.Billed.Tokens.Input != 3*total.Attempts.Billed || total.Attempts.Billed < 100 {
		t.Errorf("%+v", total)
	}
}
