package gateway_test

import (
	"slices"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/gateway"
	"oncegate/prices"
)

// The price list by page and by name, and the models that have no price.
func TestPricesAndWhatHasNone(t *testing.T) {
	b := newBooks(t, func(o *gateway.Options) {
		rate, _ := prices.ParseRate("0.42")
		o.Prices = prices.NewBook(map[string]prices.Own{"gpt-4.1": {Input: rate, Output: rate}})
	})
	b.store.Book(
		cache.Line{At: time.Now(), Series: cache.Series{Model: "home-made", Outcome: "executed"}, Figures: cache.Figures{Requests: 3, Billed: 3, Unpriced: 3, BilledInput: 30, BilledOutput: 3}},
		cache.Line{At: time.Now(), Series: cache.Series{Model: "gpt-4.1", Outcome: "executed"}, Figures: cache.Figures{Requests: 9, Billed: 9, BilledInput: 9}},
	)
	out := b.get("/api/prices?q=GPT-4.1&limit=1")
	first := out["prices"].([]any)[0].(map[string]any)
	if first["model"] != "gpt-4.1" || first["source"] != "config" || first["input"] != "0.42" || first["cached_input"] != nil || out["next"] == "" {
		t.Errorf("%v", out)
	}
	if u := out["unpriced"].([]any); len(u) != 1 || at(u[0].(map[string]any), "model") != "home-made" || at(u[0].(map[string]any), "requests") != 3. || at(u[0].(map[string]any), "tokens") != 33. {
		t.Errorf("%v", u)
	}
	if at(out, "table.date") == "" || at(out, "table.source") == "" {
		t.Errorf("%v", out["table"])
	}
	var names []string
	for cursor := ""; ; {
		page := b.get("/api/prices?limit=200&cursor=" + cursor)
		for _, p := range page["prices"].([]any) {
			names = append(names, at(p.(map[string]any), "vendor").(string)+" "+at(p.(map[string]any), "model").(string))
		}
		if cursor = page["next"].(string); cursor == "" {
			break
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) < 200 {
		t.Errorf("%d prices: %v", len(names), names[:3])
	}
	if got := b.get("/api/prices?q=no+such+model"); len(got["prices"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
}

func TestConfigIsShown(t *testing.T) {
	values := []gateway.ConfigValue{{Path: "server.listen", Value: "127.0.0.1:8080", Source: "default"}}
	b := newBooks(t, func(o *gateway.Options) { o.Config = values })
	if v := b.get("/api/config")["values"].([]any); len(v) != 1 || at(v[0].(map[string]any), "source") != "default" {
		t.Errorf("%v", v)
	}
	if got := newBooks(t, nil).text("/api/config"); got != `{"values":[]}` {
		t.Error(got)
	}
}
