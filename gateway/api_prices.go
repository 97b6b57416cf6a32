package gateway

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"oncegate/cache/report"
	"oncegate/prices"
)

// shownRates is a line of the price list. Prices are dollars a million tokens,
// exact; null: there is none of its own, and it costs what its whole does.
type shownRates struct {
	Model        string  `json:"model"`  // or a pattern that names fit
	Vendor       string  `json:"vendor"` // empty: at every upstream
	Source       string  `json:"source"` // config, table
	Input        *string `json:"input"`
	Output       *string `json:"output"`
	CachedInput  *string `json:"cached_input"`
	CacheWrite5m *string `json:"cache_write_5m"`
	CacheWrite1h *string `json:"cache_write_1h"`
	Varies       bool    `json:"varies"` // by hour, day or size of the input; shown is what holds now, for little input
}

// unpricedModel is one whose answers had tokens and no price.
type unpricedModel struct {
	Model    string `json:"model"`
	Requests int64  `json:"requests"`
	Tokens   int64  `json:"tokens"` // billed and shared, of all its answers
}

const (
	unpricedFor  = 30 * 24 * time.Hour
	mostUnpriced = 200
)

// listPrices answers GET /api/prices: the price list by page, and the models of
// the last 30 days that something is missing for.
func (g *Gateway) listPrices(w http.ResponseWriter, r *http.Request) {
	ask, refused := readQuery(r, "q", "limit", "cursor")
	var page listQuery
	if refused == nil {
		page, refused = readPage(ask)
	}
	q := strings.ToLower(strings.TrimSpace(ask.Get("q")))
	if refused == nil && len(q) > maxName {
		refused = badBody("q is a part of a model's or a vendor's name, up to 256 bytes", "q")
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	now := time.Now()
	type listed struct {
		place string
		*prices.Listed
	}
	var all []listed
	if g.opt.Prices != nil {
		list := g.opt.Prices.List(now)
		for i := range list {
			if l := &list[i]; strings.Contains(strings.ToLower(l.Model+"\n"+l.Vendor), q) {
				all = append(all, listed{fmt.Sprintf("%05d", i), l})
			}
		}
	}
	found, next, err := pageOf(all, page, func(l listed) string { return l.place })
	var unpriced []unpricedModel
	if err == nil {
		unpriced, err = g.unpriced(r, now)
	}
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	var out struct {
		Table struct {
			Date   string `json:"date"`
			Source string `json:"source"`
		} `json:"table"`
		Prices   []shownRates    `json:"prices"`
		Unpriced []unpricedModel `json:"unpriced"` // the most requests first, at most 200
		Next     string          `json:"next"`
	}
	out.Table.Source, out.Table.Date = prices.TableSource()
	out.Unpriced, out.Next, out.Prices = unpriced, next, make([]shownRates, len(found))
	for i, l := range found {
		out.Prices[i] = shownRates{
			Model: l.Model, Vendor: l.Vendor, Source: l.Source.String(), Varies: l.Varies,
			Input: shownRate(l.Rates.Input), Output: shownRate(l.Rates.Output), CachedInput: shownRate(l.Rates.Cached),
			CacheWrite5m: shownRate(l.Rates.CacheWrite5m), CacheWrite1h: shownRate(l.Rates.CacheWrite1h),
		}
	}
	writeFresh(w, out)
}

func shownRate(r prices.Rate) *string {
	if !r.Set() {
		return nil
	}
	text := r.Million().String()
	return &text
}

// unpriced are the models whose answers had tokens and no price, as the ledger
// has them.
func (g *Gateway) unpriced(r *http.Request, now time.Time) ([]unpricedModel, error) {
	sums, err := report.Make(r.Context(), g.opt.Store, report.Query{
		Since: now.Add(-unpricedFor), Until: now, By: report.Model, Zone: g.opt.Zone, Ledger: g.opt.Zone,
	}, now)
	if err != nil {
		return nil, err
	}
	list := []unpricedModel{}
	for i := range sums.Groups {
		s := &sums.Groups[i]
		if s.UnpricedRequests > 0 {
			t, u := s.Saved.Tokens, s.Billed.Tokens
			list = append(list, unpricedModel{s.Name, s.UnpricedRequests, t.Input + t.Output + u.Input + u.Output})
		}
	}
	slices.SortStableFunc(list, func(a, b unpricedModel) int { return cmp.Compare(b.Requests, a.Requests) })
	return list[:min(len(list), mostUnpriced)], nil
}
