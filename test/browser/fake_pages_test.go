package browser

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"
)

// What the fake tells the pages beside the overview and the requests.

func (f *fake) ago(d time.Duration) string { return f.now.Add(-d).Format("2006-01-02T15:04:05.000Z") }

func (f *fake) record(w http.ResponseWriter, name string) {
	if f.empty {
		f.refuse(w, 404, "there is no record under this key: it is forgotten, or was never there", "", "not_found")
		return
	}
	if name == key(10) || f.foul != "" {
		f.answer(w, f.write(name))
		return
	}
	leader := f.request(0)
	leader["attempts"] = 2
	replayed := func(n int, after time.Duration, outcome, reason string) object {
		r := f.request(n)
		r["at"], r["outcome"], r["reason"], r["billed"], r["saved"], r["record"], r["upstream_ms"], r["took_ms"] = f.ago(40*time.Minute-after), outcome, reason, nil, "0.005382", name, 0, 0.4
		return r
	}
	leader["at"], leader["record"], leader["took_ms"] = f.ago(40*time.Minute-1828*time.Millisecond), name, 1828
	f.answer(w, object{
		"key": name, "state": "completed", "model": "gpt-4.1", "operation": "chat", "principal": "research", "user": "ada", "fence": 1,
		"claimed": f.ago(40 * time.Minute), "dispatched": f.ago(40 * time.Minute), "settled": f.ago(40*time.Minute - 1900*time.Millisecond), "expires": f.ago(-20 * time.Minute), "status": 200,
		"size": 2481, "sha256": key(77),
		"sentence": "Ran once on openai/gpt-4.1 after one retry of a 503, and its answer was given 3 times more: to a twin in flight and to two marked retries.",
		"timeline": []object{
			{"at_ms": 0.2, "what": "claimed", "fence": 1},
			{"at_ms": 0.6, "what": "attempt", "target": "openai/gpt-4.1", "status": 503, "result": "unavailable", "ms": 210},
			{"at_ms": 210.6, "what": "wait", "ms": 412, "of_ms": 500},
			{"at_ms": 622.9, "what": "attempt", "target": "openai/gpt-4.1", "status": 200, "result": "ok", "ms": 1204},
			{"at_ms": 1826.9, "what": "answered", "status": 200},
			{"at_ms": 1828.1, "what": "stored", "ms": 1.4},
		},
		"requests": []object{replayed(12, 9*time.Minute, "replayed", "retry_marked"), replayed(2, 4*time.Second, "replayed", "retry_marked"), replayed(3, 1827*time.Millisecond, "coalesced", "twin"), leader},
		"price": object{"model": "gpt-4.1", "source": "table", "rates": object{"input": "2", "cached_input": "0.5", "cache_write_5m": nil, "cache_write_1h": nil, "output": "8"},
			"tokens": object{"input": 1843, "cached": 1024, "cache_write_5m": 0, "cache_write_1h": 0, "output": 292, "reasoning": 128}, "cost": "0.004486"},
		"events": []object{},
	})
}

func (f *fake) write(name string) object {
	return object{
		"key": name, "state": "unknown", "tool": f.name("payments"), "method": "POST", "path": f.name("/v1/payments"), "principal": f.name("checkout"), "user": f.name("ada"), "unkeyed": false, "fence": 1, "origin": 1,
		"claimed": f.ago(3 * time.Hour), "dispatched": f.ago(3 * time.Hour), "probe": true,
		"sentence": f.name("Sent to payments, and the connection broke before an answer came: it may or may not have happened, and nothing runs it again by itself."),
		"events": []object{
			{"at": f.ago(3 * time.Hour), "what": "claimed", "fence": 1}, {"at": f.ago(3 * time.Hour), "what": "dispatched", "fence": 1},
			{"at": f.ago(3*time.Hour - 30*time.Second), "what": "unknown", "fence": 1, "reason": f.name("the connection was closed after 412 bytes were sent")},
		},
		"timeline": []object{{"at_ms": 0.3, "what": "claimed", "fence": 1}, {"at_ms": 2.1, "what": "attempt", "target": f.name("payments"), "result": f.name("broken"), "ms": 30000}, {"at_ms": 30002, "what": "answered", "status": 424, "result": "unknown"}},
		"requests": []object{f.request(10)}, "price": nil,
	}
}

func (f *fake) doubts() []object {
	out := []object{}
	if f.empty {
		return out
	}
	for i, d := range []object{
		{"tool": "payments", "method": "POST", "path": "/v1/refunds", "principal": "checkout", "probe": true, "fence": 2},
		{"tool": "payments", "method": "POST", "path": "/v1/payments", "principal": "checkout", "probe": true, "fence": 1},
		{"tool": "tickets", "method": "POST", "path": "/api/tickets/4711/comments", "principal": "support", "unkeyed": true, "fence": 1},
	} {
		name := key(10 + (i+2)%3)
		f.mu.Lock()
		done := f.resolved[name]
		f.mu.Unlock()
		if done {
			continue
		}
		at := f.ago([]time.Duration{26 * time.Hour, 3 * time.Hour, 51 * time.Minute}[i])
		maps.Copy(d, (object{"key": name, "state": "unknown", "user": "ada", "claimed": at, "dispatched": at, "request_size": 412 + i, "request_sha256": key(50 + i), "last": object{"at": at, "what": "unknown", "reason": "the connection was closed before an answer"}}))
		if f.foul != "" {
			d["tool"], d["path"], d["principal"], d["user"], d["method"] = f.foul, f.foul, f.foul, f.foul, f.foul
		}
		out = append(out, d)
	}
	return out
}

func (f *fake) tools() []object {
	if f.empty {
		return []object{}
	}
	policy := object{"attempts": 3, "backoff": object{"base": "500ms", "cap": "30s"}, "timeouts": object{"connect": "5s", "first_byte": "120s", "total": "10m"}, "breaker": object{"enabled": true, "consecutive": 20}}
	return []object{
		{"name": f.name("payments"), "base_url": f.name("https://api.acmepay.example"), "key": "optional", "policy": policy, "probe": true, "calls": 1841, "executed": 1790, "prevented": 49, "unknown": 2, "open": 2},
		{"name": f.name("tickets"), "base_url": f.name("https://tickets.example/api"), "key": "required", "policy": policy, "probe": false, "calls": 312, "executed": 309, "prevented": 2, "unknown": 1, "open": 1},
		{"name": "mail", "base_url": "https://mail.example", "key": "optional", "policy": policy, "probe": false, "calls": 0, "executed": 0, "prevented": 0, "unknown": 0, "open": 0},
	}
}

func (f *fake) targets() []object {
	closed := object{"state": "closed", "half_open_in": 0, "streak": 0, "probes": 0}
	list := []object{
		{"target": f.name("openai/gpt-4.1"), "breaker": closed, "budget": object{"remaining": 96}, "limit": object{"size": 4096, "in_flight": 41, "queued": 0}, "holds": []object{},
			"rate_limits": []object{{"credential": 0, "name": f.name("requests"), "limit": 10000, "remaining": 8120, "reset": 21.5, "seen": 1.2}, {"credential": 0, "name": "tokens", "limit": 2000000, "remaining": 341022, "reset": 34, "seen": 1.2}}},
		{"target": f.name("anthropic/claude-sonnet-4.5"), "breaker": object{"state": "open", "rule": "consecutive", "half_open_in": 6.4, "streak": 21, "probes": 0}, "budget": object{"remaining": 12}, "limit": object{"size": 512, "in_flight": 0, "queued": 3},
			"holds": []object{{"credential": 0, "all": false, "ends_in": 42.5, "told": 60, "status": 429}}, "rate_limits": []object{{"credential": 0, "name": "input-tokens", "limit": 400000, "remaining": 0, "reset": 42, "seen": 17}}},
		{"target": "deepseek/deepseek-v3.2", "breaker": object{"state": "half_open", "half_open_in": 0, "streak": 4, "probes": 1}, "budget": object{"remaining": 100}, "limit": object{"size": 4096, "in_flight": 1, "queued": 0}, "holds": []object{}, "rate_limits": []object{}},
		{"target": "payments", "breaker": closed, "budget": object{"remaining": 100}, "limit": object{"size": 4096, "in_flight": 0, "queued": 0}, "holds": []object{}, "rate_limits": []object{}},
	}
	if f.empty {
		return list[3:]
	}
	return list
}

func (f *fake) prices(w http.ResponseWriter, search string) {
	list := []object{}
	for _, p := range []object{
		{"model": f.name("claude-sonnet-4.5"), "source": "table", "input": "3", "output": "15", "cached_input": "0.3", "cache_write_5m": "3.75", "cache_write_1h": "6"},
		{"model": "deepseek-v3.2", "source": "config", "input": "0.42", "output": "0.42", "cached_input": "0.04", "cache_write_5m": nil, "cache_write_1h": nil},
		{"model": "gpt-4.1", "source": "table", "input": "2", "output": "8", "cached_input": "0.5", "cache_write_5m": nil, "cache_write_1h": nil},
		{"model": "text-embedding-3-small", "source": "table", "input": "0.02", "output": "0", "cached_input": nil, "cache_write_5m": nil, "cache_write_1h": nil},
	} {
		if strings.Contains(p["model"].(string), search) {
			list = append(list, p)
		}
	}
	unpriced := []object{}
	if !f.empty {
		unpriced = append(unpriced, object{"model": f.name("meta-llama/llama-4-maverick"), "requests": 84, "tokens": 176400})
	}
	f.answer(w, object{"table": object{"date": f.now.AddDate(0, 0, -28).Format(time.DateOnly), "source": f.name("the providers' price pages")}, "prices": list, "unpriced": unpriced, "next": ""})
}

func (f *fake) config(w http.ResponseWriter) {
	f.answer(w, object{"values": []object{
		{"path": "server.listen", "value": "127.0.0.1:8080", "source": "config.yaml:5"}, {"path": "server.admin_listen", "value": "127.0.0.1:8081", "source": "default"},
		{"path": "auth.admin_token", "value": "(secret)", "source": "env ONCEGATE_AUTH_ADMIN_TOKEN"}, {"path": "store.url", "value": f.name("local:./data"), "source": "default"},
		{"path": "dedupe.mode", "value": "duplicates", "source": "flag"}, {"path": "providers[0].api_keys[0]", "value": "(secret)", "source": "config.yaml:31"},
	}})
}

func (f *fake) audit() []object {
	if f.empty {
		return []object{}
	}
	return []object{{"at": f.ago(5 * time.Hour), "what": "resolved", "fence": 1, "actor": f.name("operator"), "reason": f.name("found in AcmePay's list of payments"), "as": "executed", "key": key(40), "tool": f.name("payments"), "method": "POST", "path": f.name("/v1/payments"), "principal": "checkout", "user": "ada"}}
}

// change takes what is posted.
func (f *fake) change(w http.ResponseWriter, r *http.Request, path []string) {
	var body object
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Header.Get("Content-Type") != "application/json" {
		f.refuse(w, 400, "the body is no JSON", "", "invalid_request_error")
		return
	}
	f.mu.Lock()
	body["path"] = r.URL.Path
	f.posted = append(f.posted, body)
	f.mu.Unlock()
	switch last := path[len(path)-1]; last {
	case "resolve":
		results := []object{}
		for _, item := range body["resolve"].([]any) {
			it := item.(object)
			name := it["key"].(string)
			if name == key(11) {
				results = append(results, object{"key": name, "status": 409, "error": object{"code": "outcome_not_unknown", "message": f.name("its outcome is not unknown, and nothing was changed: it is completed")}})
				continue
			}
			f.mu.Lock()
			f.resolved[name] = true
			f.mu.Unlock()
			results = append(results, object{"key": name, "status": 200, "state": "tombstone", "as": it["as"]})
		}
		f.answer(w, object{"results": results})
	case "probe":
		f.answer(w, object{"found": false, "state": "unknown"})
	case "forget":
		f.answer(w, object{"key": path[1], "state": "forgotten"})
	case "demo":
		f.mu.Lock()
		f.empty = false
		f.mu.Unlock()
		f.answer(w, object{"outcomes": []string{"executed", "coalesced"}})
	default:
		f.refuse(w, 404, "there is nothing at this path", "", "not_found")
	}
}
