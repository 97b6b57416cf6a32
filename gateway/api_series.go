package gateway

import (
	"net/http"
	"time"

	"oncegate/cache/report"
)

// showSeries answers GET /api/series.
func (g *Gateway) showSeries(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	q, refused := g.readSeries(r, now)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	s, err := report.MakeSeries(r.Context(), g.opt.Store, q, now)
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	writeFresh(w, s)
}

func (g *Gateway) readSeries(r *http.Request, now time.Time) (q report.Query, refused *refusal) {
	ask, refused := readQuery(r, append([]string{"by"}, ledgerParams...)...)
	if refused != nil {
		return q, refused
	}
	if q, refused = g.readLedger(ask, now); refused != nil {
		return q, refused
	}
	by, err := report.ParseBy(ask.Get("by"))
	if err != nil {
		return q, badBody(err.Error(), "by")
	}
	if by == report.Day {
		return q, badBody("by can't be day here: a series' points are its times", "by")
	}
	q.By = by
	return q, nil
}
