package browser

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"oncegate/web"
)

// object is JSON to be.
type object = map[string]any

// fake answers as the admin listener's API does, with what a test wants shown.
type fake struct {
	page     *web.Page
	now      time.Time
	unpriced bool   // no answer had a price
	empty    bool   // nothing was ever asked of it
	token    string // what it wants to be shown; empty: nothing
	broken   bool   // every answer of the API is a fault
	users    int    // how many the report has; 0: a few
	foul     string // stands where others type; empty: names as usual

	mu       sync.Mutex
	asked    []string // addresses, in order
	posted   []object
	resolved map[string]bool
	streams  []string // the Last-Event-ID of each stream
	events   chan string
	hold     map[string]chan struct{} // paths whose answers wait
}

func (f *fake) held(path string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hold[path]
}

// askedFor says how often a path was asked for, and with which query last.
func (f *fake) askedFor(path string) (n int, last url.Values) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if u, err := url.Parse(a); err == nil && u.Path == path {
			n, last = n+1, u.Query()
		}
	}
	return n, last
}

func newFake(t *testing.T) *fake {
	page, err := web.Handler()
	if err != nil {
		t.Fatal(err)
	}
	return &fake{page: page, now: time.Now().UTC().Truncate(time.Second), resolved: map[string]bool{}, events: make(chan string, 100)}
}

func (f *fake) name(usual string) string { return cmp.Or(f.foul, usual) }

// dollars writes pico-dollars.
func dollars(pico int64) string {
	s := fmt.Sprintf("%d.%012d", pico/1e12, pico%1e12)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// sums are the figures of a group of requests.
type sums struct {
	executed, coalesced, replayed, bypassed, refused, failed, unknown int64
	by                                                                [5]int64
	billed, saved                                                     int64 // pico-dollars
	tokens, savedTokens                                               int64
	unpriced, prevented                                               int64
}

func (s *sums) add(o sums) {
	for _, p := range [][2]*int64{
		{&s.executed, &o.executed}, {&s.coalesced, &o.coalesced}, {&s.replayed, &o.replayed}, {&s.bypassed, &o.bypassed},
		{&s.refused, &o.refused}, {&s.failed, &o.failed}, {&s.unknown, &o.unknown}, {&s.billed, &o.billed}, {&s.saved, &o.saved},
		{&s.tokens, &o.tokens}, {&s.savedTokens, &o.savedTokens}, {&s.unpriced, &o.unpriced}, {&s.prevented, &o.prevented},
	} {
		*p[0] += *p[1]
	}
	for i := range s.by {
		s.by[i] += o.by[i]
	}
}

func (s sums) json() object {
	return object{
		"requests": s.executed + s.coalesced + s.replayed + s.bypassed + s.refused + s.failed + s.unknown,
		"outcomes": object{"executed": s.executed, "coalesced": s.coalesced, "replayed": s.replayed, "bypassed": s.bypassed, "refused": s.refused, "failed": s.failed, "unknown": s.unknown},
		"attempts": object{"billed": s.executed, "unbilled": s.failed * 3, "ambiguous": s.unknown},
		"saved": object{"requests": s.coalesced + s.replayed, "tokens": object{"input": s.savedTokens * 3 / 4, "output": s.savedTokens - s.savedTokens*3/4}, "usd": dollars(s.saved),
			"by": object{"retry_marked": s.by[0], "owed": s.by[1], "twin": s.by[2], "key": s.by[3], "within_ttl": s.by[4]}},
		"billed":            object{"tokens": object{"input": s.tokens * 3 / 4, "output": s.tokens - s.tokens*3/4}, "usd": dollars(s.billed)},
		"unpriced_requests": s.unpriced, "duplicate_writes_prevented": s.prevented, "unknown_writes_open": 3,
	}
}

var sharing = []string{"retry_marked", "owed", "twin", "key", "within_ttl"}

// quarter makes the figures of a quarter of an hour, by reason.
func quarter(r *rand.Rand, weight float64) map[string]sums {
	out := map[string]sums{}
	n := int64(weight * (20 + 60*r.Float64()))
	each := int64(2.1e9 + 3e9*r.Float64())
	out["-"] = sums{executed: n, refused: n / 30, bypassed: r.Int64N(2) * (n / 60), unpriced: n / 25, billed: n * each, tokens: n * 2100}
	for i, reason := range sharing {
		k := int64(float64(n) * []float64{0.05, 0.02, 0.09, 0.03, 0.01}[i] * 2 * r.Float64())
		s := sums{saved: k * each, savedTokens: k * 2100}
		if reason == "twin" {
			s.coalesced = k
		} else {
			s.replayed = k
		}
		if reason == "key" {
			s.prevented = k / 2
		}
		s.by[i] = k
		out[reason] = s
	}
	if r.IntN(9) == 0 {
		out["attempts_exhausted"] = sums{failed: 1 + n/12}
	}
	if r.IntN(40) == 0 {
		out["ambiguous"] = sums{unknown: 1}
	}
	return out
}

func (f *fake) series(since, until time.Time, step time.Duration, by string) (points []object, total sums, groups map[string]sums) {
	groups = map[string]sums{}
	if f.empty {
		return []object{}, total, groups
	}
	r := rand.New(rand.NewPCG(7, 7))
	for at := since.Truncate(step); at.Before(until); at = at.Add(step) {
		hour := float64(at.Hour()) + float64(at.Minute())/60
		weight := 0.25 + max(0, 1-(hour-14)*(hour-14)/60)
		if step > time.Hour {
			weight *= 60
		}
		var all sums
		var byReason []object
		made := quarter(r, weight)
		for _, reason := range []string{"-", "retry_marked", "owed", "twin", "key", "within_ttl", "attempts_exhausted", "ambiguous"} {
			s, ok := made[reason]
			if !ok {
				continue
			}
			if f.unpriced {
				s.billed, s.saved, s.unpriced = 0, 0, s.executed+s.coalesced+s.replayed
			}
			all.add(s)
			g := groups[reason]
			g.add(s)
			groups[reason] = g
			part := s.json()
			part["reason"] = reason
			byReason = append(byReason, part)
		}
		total.add(all)
		point := object{"at": at.Format(time.RFC3339), "total": all.json()}
		if by != "" {
			point["groups"] = byReason
		}
		points = append(points, point)
	}
	return points, total, groups
}

func key(n int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	return hex.EncodeToString(sum[:])
}

// request is the n-th request before now.
func (f *fake) request(n int) object {
	kinds := []struct{ outcome, reason, operation, model, tool string }{
		{"executed", "", "chat", "gpt-4.1", ""}, {"executed", "", "chat", "claude-sonnet-4.5", ""}, {"replayed", "retry_marked", "chat", "gpt-4.1", ""},
		{"coalesced", "twin", "chat", "deepseek-v3.2", ""}, {"executed", "", "embeddings", "text-embedding-3-small", ""}, {"replayed", "key", "tool", "", "payments"},
		{"failed", "attempts_exhausted", "messages", "claude-sonnet-4.5", ""}, {"executed", "unkeyed", "tool", "", "tickets"}, {"refused", "key_reused", "tool", "", "payments"},
		{"executed", "", "responses", "meta-llama/llama-4-maverick", ""}, {"unknown", "ambiguous", "tool", "", "payments"}, {"bypassed", "store_away", "chat", "gpt-4.1", ""},
		{"replayed", "owed", "chat", "gpt-4.1", ""},
	}
	k := kinds[n%len(kinds)]
	r := object{
		"at": f.now.Add(-time.Duration(n*n*37+n*11) * time.Second).Format("2006-01-02T15:04:05.000Z"), "id": fmt.Sprintf("req_%06d", 991200-n), "place": fmt.Sprintf("n%d", 991200-n), "outcome": k.outcome, "reason": k.reason,
		"operation": k.operation, "model": k.model, "tool": k.tool, "user": []string{"ada", "grace", "", "สมชาย", "user_4211"}[n%5], "key": []string{"research", "checkout", "support"}[n%3],
		"record": key(n % 23), "status": 200, "attempts": 1 + n%3/2, "provider": "openai", "took_ms": 812.4 + float64(n), "upstream_ms": 811.9 + float64(n), "overhead_ms": 0.31 + float64(n%7)/10,
		"tokens": object{"input": 1843 + n, "output": 212 + n*3, "cached": 1024}, "billed": "0.005382", "saved": nil, "target": "openai/" + k.model, "left": n%13 == 12,
	}
	if k.outcome == "replayed" || k.outcome == "coalesced" {
		r["billed"], r["saved"], r["attempts"], r["upstream_ms"], r["overhead_ms"], r["took_ms"] = nil, "0.005382", 0, 0, 0, 0.4
	}
	if k.tool != "" {
		r["tokens"], r["billed"], r["saved"], r["status"] = nil, nil, nil, 201
	}
	switch k.outcome {
	case "failed":
		r["status"], r["attempts"], r["billed"], r["tokens"] = 503, 3, nil, nil
	case "refused":
		r["status"], r["attempts"], r["record"], r["upstream_ms"], r["overhead_ms"] = 422, 0, "", 0, 0
	case "unknown":
		r["status"] = 424
	}
	if k.model == "meta-llama/llama-4-maverick" {
		r["billed"], r["saved"] = nil, nil
	}
	if f.foul != "" {
		for _, field := range []string{"reason", "operation", "model", "tool", "user", "key", "target"} {
			r[field] = f.foul
		}
	}
	return r
}

func (f *fake) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(v)
}

func (f *fake) refuse(w http.ResponseWriter, status int, message, param, code string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(object{"error": object{"message": message, "type": "invalid_request_error", "param": param, "code": code}})
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		f.page.ServeHTTP(w, r)
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.RequestURI())
	f.mu.Unlock()
	switch {
	case f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token:
		f.refuse(w, 401, "the admin listener needs auth.admin_token as Authorization: Bearer", "", "invalid_api_key")
		return
	case strings.HasPrefix(r.URL.Path, "/api/test/"): // one of the page's modules, by itself
		http.ServeFile(w, r, "../../web/app/"+path.Base(r.URL.Path))
		return
	case f.broken:
		f.refuse(w, 503, f.name("the store can't be read: connection refused"), "", "store_unavailable")
		return
	}
	q := r.URL.Query()
	since, until, step := f.now.Add(-24*time.Hour), f.now, 15*time.Minute
	named := "quarter"
	switch q.Get("since") {
	case "7d":
		since = f.now.Add(-7 * 24 * time.Hour)
	case "30d", "90d":
		since, step, named = f.now.Add(-30*24*time.Hour), 24*time.Hour, "day"
	case "1h":
		since, step, named = f.now.Add(-time.Hour), time.Minute, "minute"
	}
	if at, err := time.Parse(time.RFC3339, q.Get("since")); err == nil {
		since = at.UTC()
	}
	if at, err := time.Parse(time.RFC3339, q.Get("until")); err == nil {
		until = at.UTC()
	}
	if wait := f.held(r.URL.Path); wait != nil {
		<-wait
	}
	zone := cmp.Or(q.Get("zone"), "UTC")
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/"), "/")
	if r.Method == http.MethodPost {
		f.change(w, r, parts)
		return
	}
	switch parts[0] {
	case "summary":
		_, total, _ := f.series(since, until, step, "")
		f.answer(w, f.summary(total, since, until, zone))
	case "series":
		points, _, _ := f.series(since, until, step, q.Get("by"))
		f.answer(w, object{"since": since.Format(time.RFC3339), "until": until.Format(time.RFC3339), "zone": zone, "step": named, "points": points})
	case "pulse":
		f.answer(w, f.pulse(since))
	case "report":
		f.report(w, q, since, until, step, zone)
	case "requests":
		if len(parts) > 1 {
			one := f.request(8)
			one["timeline"] = []object{}
			f.answer(w, one)
			return
		}
		f.requests(w, q.Get("q"), q.Get("cursor"), q.Get("outcome"), q.Get("limit"))
	case "records":
		if len(parts) > 1 {
			f.record(w, parts[1])
			return
		}
		f.answer(w, object{"records": f.doubts()})
	case "tools":
		f.answer(w, object{"tools": f.tools()})
	case "targets":
		f.answer(w, object{"targets": f.targets()})
	case "prices":
		f.prices(w, q.Get("q"))
	case "config":
		f.config(w)
	case "audit":
		f.answer(w, object{"audit": f.audit()})
	case "events":
		f.stream(w, r)
	default:
		f.refuse(w, 404, "there is nothing at this path", "", "not_found")
	}
}

func (f *fake) summary(total sums, since, until time.Time, zone string) object {
	doubts := len(f.doubts())
	var priced any = 0.9612
	if f.empty {
		priced = nil
	}
	t := total.json()
	t["unknown_writes_open"] = doubts
	return object{
		"since": since.Format(time.RFC3339), "until": until.Format(time.RFC3339), "zone": zone, "total": t, "priced_share": priced, "doubts": doubts,
		"durability": "strict", "draining": false, "store": "ok", "version": "v0.9.2", "uptime_ms": 273_660_000, "mock": true, "data_address": "http://127.0.0.1:8080",
	}
}

func (f *fake) pulse(since time.Time) object {
	points := []object{}
	r := rand.New(rand.NewPCG(3, 4))
	if since = maxTime(since, f.now.Add(-48*time.Hour)); f.empty {
		since = f.now
	}
	for at := since.Truncate(time.Minute); at.Before(f.now); at = at.Add(time.Minute) {
		errs := 0
		if at.Hour() == (f.now.Hour()+18)%24 {
			errs = r.IntN(9)
		}
		a := object{"ok": 20 + r.IntN(30), "429": errs / 2, "5xx": errs, "timeout": errs / 4, "unreachable": 0, "other": 0}
		points = append(points, object{"at": at.Format(time.RFC3339), "attempts": a, "retries": errs + errs/3,
			"overhead_ms": object{"p50": 0.19 + 0.1*r.Float64(), "p99": 0.9 + r.Float64()*1.5}, "upstream_ms": object{"p50": 640 + 200*r.Float64() + float64(errs)*300, "p99": 3100 + 1800*r.Float64()}})
	}
	return object{"node_since": f.now.Add(-76 * time.Hour).Format(time.RFC3339), "step": "minute", "points": points}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (f *fake) report(w http.ResponseWriter, q url.Values, since, until time.Time, step time.Duration, zone string) {
	by, monthly, rate := q.Get("by"), q.Get("monthly"), q.Get("retry_rate")
	_, total, reasons := f.series(since, until, step, "reason")
	groups := []object{}
	names := map[string][]string{
		"model": {"gpt-4.1", "claude-sonnet-4.5", "deepseek-v3.2", "meta-llama/llama-4-maverick", "text-embedding-3-small", "-"}, "user": {"ada", "grace", "สมชาย", "user_4211", "-"},
		"key": {"research", "checkout", "support"}, "tool": {"payments", "tickets", "-"}, "day": {f.now.AddDate(0, 0, -1).Format(time.DateOnly), f.now.Format(time.DateOnly)},
		"provider": {"openai", "anthropic", "-"}, "operation": {"chat", "messages", "embeddings", "tool"}, "outcome": {"executed", "replayed", "coalesced", "failed"},
	}[by]
	if by == "user" && f.users > 0 {
		names = nil
		for n := range f.users {
			names = append(names, fmt.Sprint("user_", n))
		}
	}
	rest := total
	if by == "reason" {
		for name, s := range reasons {
			g := s.json()
			g["reason"] = name
			groups = append(groups, g)
		}
		slices.SortFunc(groups, func(a, b object) int { return cmp.Compare(a["reason"].(string), b["reason"].(string)) })
	} else if !f.empty {
		for i, name := range names {
			part := sums{executed: total.executed / 3, replayed: total.replayed / 3, coalesced: total.coalesced / 4, billed: total.billed / int64(3+i), saved: total.saved / int64(3+2*i), tokens: total.tokens / 3, savedTokens: total.savedTokens / 3}
			if i == len(names)-1 {
				part = rest
			}
			part.executed, part.replayed, part.coalesced = min(part.executed, rest.executed), min(part.replayed, rest.replayed), min(part.coalesced, rest.coalesced)
			part.billed, part.saved, part.tokens, part.savedTokens = min(part.billed, rest.billed), min(part.saved, rest.saved), min(part.tokens, rest.tokens), min(part.savedTokens, rest.savedTokens)
			rest.executed -= part.executed
			rest.replayed -= part.replayed
			rest.coalesced -= part.coalesced
			rest.billed -= part.billed
			rest.saved -= part.saved
			rest.tokens -= part.tokens
			rest.savedTokens -= part.savedTokens
			g := part.json()
			g[by] = f.name(name)
			groups = append(groups, g)
		}
	}
	if q.Get("format") == "csv" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="oncegate-report.csv"`)
		fmt.Fprint(w, "day,requests\r\n")
		return
	}
	out := object{"since": since.Format(time.RFC3339), "until": until.Format(time.RFC3339), "zone": zone, "total": total.json(), "groups": groups}
	if monthly != "" {
		n, err := strconv.ParseInt(monthly, 10, 64)
		part, err2 := strconv.ParseFloat(rate, 64)
		if err != nil || err2 != nil || n < 1 {
			f.refuse(w, 400, "monthly is a number of requests, from 1; it goes with retry_rate", "monthly", "invalid_request_error")
			return
		}
		lines := []object{}
		if !f.empty {
			lines = []object{
				{"name": "gpt-4.1", "usd_call": "0.008", "usd_with": dollars(n * 8e9), "usd_saved": dollars(int64(float64(n) * 8e9 * part)), "usd_without": dollars(int64(float64(n) * 8e9 * (1 + part)))},
				{"name": "deepseek-v3.2", "usd_call": "0.00042", "usd_with": dollars(n * 42e7), "usd_saved": dollars(int64(float64(n) * 42e7 * part)), "usd_without": dollars(int64(float64(n) * 42e7 * (1 + part)))},
				{"name": f.name("meta-llama/llama-4-maverick"), "usd_call": nil, "usd_with": nil, "usd_saved": nil, "usd_without": nil},
			}
		}
		out["what_if"] = object{"monthly": n, "retry_rate": part, "lines": lines}
	}
	f.answer(w, out)
}

func (f *fake) requests(w http.ResponseWriter, search, cursor, outcome, limit string) {
	n, _ := strconv.Atoi(cursor)
	most := 50
	if limit != "" {
		most, _ = strconv.Atoi(limit)
	}
	list := []object{}
	for ; len(list) < most && n < 130 && !f.empty; n++ {
		r := f.request(n)
		if (outcome == "" || r["outcome"] == outcome) && (search == "" || strings.HasPrefix(r["record"].(string), search) || r["id"] == search) {
			list = append(list, r)
		}
	}
	next := ""
	if n < 130 && !f.empty {
		next = strconv.Itoa(n)
	}
	f.answer(w, object{"requests": list, "next": next})
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.streams = append(f.streams, r.Header.Get("Last-Event-ID"))
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	_, total, _ := f.series(f.now.Add(-24*time.Hour), f.now, 15*time.Minute, "")
	summary, _ := json.Marshal(f.summary(total, f.now.Add(-24*time.Hour), f.now, "UTC"))
	fmt.Fprintf(w, "retry: 50\n\nid: 1\nevent: summary\ndata: %s\n\n", summary)
	flush := http.NewResponseController(w)
	flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-f.events:
			if e == "" {
				return
			}
			fmt.Fprint(w, e)
			flush.Flush()
		}
	}
}
