package gateway

import (
	"cmp"
	"encoding/json"
	"sync"
	"time"

	"oncegate/cache"
	"oncegate/prices"
	"oncegate/providers"
)

// bill reckons what an answer cost: by the model that it names, else by the
// one that was asked for.
func (t *target) bill(end *providers.End, upstream, client string) *cache.Bill {
	var price *prices.Price
	if t.up.Prices != nil {
		price = t.up.Prices.Price(prices.Names{Answer: end.Model, Upstream: upstream, Client: client})
	}
	u := &end.Usage
	cost := price.Cost(u, time.Now())
	return &cache.Bill{
		Model: named(cmp.Or(end.Model, upstream)), Known: u.Known,
		Input: u.Input, Output: u.Output, Cached: u.Cached, CacheWrite5m: u.CacheWrite5m, CacheWrite1h: u.CacheWrite1h, Reasoning: u.Reasoning,
		Priced: cost.Priced(), Unpriced: cost.Unpriced(), Cost: int64(cost.Pico), Source: cost.Source.String(), Rates: frozen(cost.Rates),
	}
}

// texts are unit prices as they are kept with a bill, by the price list's own:
// there are as many as models in use.
var texts sync.Map // *prices.Rates to string

func frozen(r *prices.Rates) string {
	if r == nil {
		return ""
	}
	if text, ok := texts.Load(r); ok {
		return text.(string)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	texts.Store(r, string(b))
	return string(b)
}
