package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
	"oncegate/policy"
	"oncegate/providers"
)

func addTool(t testing.TB, o *gateway.Options, name, url string) {
	up, err := providers.NewTool(providers.ToolOptions{Name: name, BaseURL: url, Header: http.Header{"Authorization": {"Bearer top-secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	o.Tools = append(o.Tools, gateway.Tool{
		Name: name, Upstream: up, KeyRequired: true, Probe: &gateway.Probe{Get: "/p?ref={/ref}", Executed: "/data/0"},
		Reads: []gateway.ToolRead{{Method: "POST", Path: "/search"}}, Policy: policy.Config{Attempts: 7},
	})
}

// A tool's figures are the report's; those of one that is configured no more
// too, and no credential is among them.
func TestToolsWithTheirFigures(t *testing.T) {
	b := newBooks(t, func(o *gateway.Options) {
		addTool(t, o, "payments", "https://api.acmepay.example/v1?api_key=top-secret")
		addTool(t, o, "mail", "https://mail.example")
	})
	series := cache.Series{Tool: "payments", Operation: "tools", Outcome: "executed", Key: "research"}
	b.store.Book(
		cache.Line{At: time.Now(), Series: series, Figures: cache.Figures{Requests: 4, Billed: 3}},
		cache.Line{At: time.Now(), Series: cache.Series{Tool: "payments", Operation: "tools", Outcome: "replayed", Reason: "key"}, Figures: cache.Figures{Requests: 2, Prevented: 2}},
		cache.Line{At: time.Now(), Series: cache.Series{Tool: "old", Operation: "tools", Outcome: "unknown"}, Figures: cache.Figures{Requests: 1}},
		cache.Line{At: time.Now(), Series: cache.Series{Model: "m", Operation: "chat", Outcome: "executed"}, Figures: cache.Figures{Requests: 9}},
	)
	b.run("doubt", "payments", cache.Unknown)
	out := b.get("/api/tools")
	var names []string
	for _, tool := range out["tools"].([]any) {
		names = append(names, tool.(map[string]any)["name"].(string))
	}
	if !slices.Equal(names, []string{"mail", "old", "payments"}) {
		t.Fatalf("%v", names)
	}
	old, payments := out["tools"].([]any)[1].(map[string]any), out["tools"].([]any)[2].(map[string]any)
	for name, want := range map[string]any{
		"base_url": "https://api.acmepay.example/v1", "key": "required", "probe": true, "policy.attempts": 7., "policy.timeouts.total_ms": 600000.,
		"calls": 6., "executed": 3., "prevented": 2., "unknown": 0., "open": 1., "configured": true,
	} {
		if got := at(payments, name); got != want {
			t.Errorf("payments: %s is %v, want %v", name, got, want)
		}
	}
	if old["configured"] != false || old["calls"] != 1. || old["unknown"] != 1. || old["policy"] != nil {
		t.Errorf("old: %v", old)
	}
	if strings.Contains(b.text("/api/tools"), "top-secret") {
		t.Error("a credential is shown")
	}
	if out := b.get("/api/tools?key=research&tool=payments"); len(out["tools"].([]any)) != 1 || at(out["tools"].([]any)[0].(map[string]any), "calls") != 4. {
		t.Errorf("of one key: %v", out)
	}
	b.pages("/api/tools", "tools", "name", []string{"mail", "old", "payments"})
}

func TestTargetsByPage(t *testing.T) {
	b := newBooksOver(t, func(w http.ResponseWriter, r *http.Request) { chat(w, "1") }, func(o *gateway.Options) {
		addTool(t, o, "payments", "https://api.acmepay.example")
		// Two ways to one name.
		o.Models = append(o.Models, gateway.Model{Name: "best", Targets: []gateway.ModelTarget{{Upstream: "up", Model: "b"}}})
	})
	for _, model := range []string{"a", "b", "c"} {
		b.post("/v1/chat/completions", strings.Replace(hi, `"m"`, `"`+model+`"`, 1))
	}
	b.pages("/api/targets", "targets", "target", []string{"payments", "up/a", "up/b", "up/b", "up/c"})
}

// pages reads a list by pages of every size, and refuses what is no page.
func (b *books) pages(path, list, name string, want []string) {
	b.t.Helper()
	for _, limit := range []string{"1", "2", "200"} {
		var got []string
		for cursor, n := "", 0; ; n++ {
			out := b.get(path + "?limit=" + limit + "&cursor=" + cursor)
			for _, e := range out[list].([]any) {
				got = append(got, e.(map[string]any)[name].(string))
			}
			if cursor = out["next"].(string); cursor == "" || n > 20 {
				break
			}
		}
		if !slices.Equal(got, want) {
			b.t.Errorf("%s by pages of %s: %v, want %v", path, limit, got, want)
		}
	}
	for query, param := range map[string]string{"limit=201": "limit", "limit=0": "limit", "limit=x": "limit", "cursor=%21": "cursor", "limits=1": "limits"} {
		status, out := b.ask("GET", path+"?"+query, "")
		if _, got, _ := fault(out); status != 400 || got != param {
			b.t.Errorf("%s?%s: %d %v", path, query, status, out)
		}
	}
}
