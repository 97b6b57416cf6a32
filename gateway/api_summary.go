package gateway

import (
	"context"
	"net/http"
	"time"

	"oncegate/cache/report"
)

// summary is what /api/summary answers with: the report's total, and how the
// gateway is.
type summary struct {
	Since       time.Time   `json:"since"`
	Until       time.Time   `json:"until"`
	Zone        string      `json:"zone"`
	Total       report.Sums `json:"total"`
	PricedShare *float64    `json:"priced_share"` // of the answers with tokens; null: there are none
	Doubts      int64       `json:"doubts"`       // writes whose outcome is unknown now, of all tools
	Durability  string      `json:"durability"`
	Draining    bool        `json:"draining"`
	Store       string      `json:"store"` // ok, away
	Version     string      `json:"version"`
	Uptime      int64       `json:"uptime_ms"`
	Mock        bool        `json:"mock"` // there is a model that the built-in mock upstream alone answers
	DataAddress string      `json:"data_address"`
}

// showSummary answers GET /api/summary.
func (g *Gateway) showSummary(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	ask, refused := readQuery(r, ledgerParams...)
	if refused == nil {
		var q report.Query
		if q, refused = g.readLedger(ask, now); refused == nil {
			s, err := g.summaryOf(r.Context(), q, now)
			if err == nil {
				writeFresh(w, s)
				return
			}
			refused = unread(err)
		}
	}
	g.refuse(w, &unknownPath, refused)
}

func (g *Gateway) summaryOf(ctx context.Context, q report.Query, now time.Time) (*summary, error) {
	r, err := report.Make(ctx, g.opt.Store, q, now)
	if err != nil {
		return nil, err
	}
	doubts, err := g.opt.Store.Doubts(ctx)
	if err != nil {
		return nil, err
	}
	s := &summary{
		Since: r.Since, Until: r.Until, Zone: r.Zone, Total: r.Total,
		Durability: g.durability(), Draining: g.unready.Load(), Store: "ok",
		Version: g.opt.Version, Uptime: time.Since(g.started).Milliseconds(), Mock: g.demo.model != "", DataAddress: g.dataAddress(),
	}
	for _, n := range doubts {
		s.Doubts += n
	}
	if g.storeAway() {
		s.Store = "away"
	}
	if r.Answered > 0 {
		share := float64(max(0, r.Answered-r.Total.UnpricedRequests)) / float64(r.Answered)
		s.PricedShare = &share
	}
	return s, nil
}

// ListensAt says where the data listener is reached, as host:port, so that the
// admin listener can tell.
func (g *Gateway) ListensAt(address string) { g.address.Store(&address) }

func (g *Gateway) dataAddress() string {
	if a := g.address.Load(); a != nil {
		return "http://" + *a
	}
	return ""
}
