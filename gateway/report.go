package gateway

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oncegate/cache/report"
)

// report answers /api/report: since, by and format as the report command has
// them, and further until, zone, monthly and retry_rate. All of it is looked at
// before the ledger is.
func (g *Gateway) report(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	q, refused := g.reportQuery(r, now)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	sums, err := report.Make(r.Context(), g.opt.Store, q.Query, now)
	switch {
	case err != nil:
		g.refuse(w, &unknownPath, unread(err))
	case q.csv:
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="oncegate-report.csv"`)
		sums.CSV(w, q.By)
	case q.monthly == 0:
		writeJSON(w, sums)
	default:
		writeJSON(w, struct {
			*report.Report
			WhatIf *report.WhatIf `json:"what_if"`
		}{sums, sums.WhatIf(q.monthly, q.retryRate)})
	}
}

// reportQuery is what a report is asked for.
type reportQuery struct {
	report.Query
	csv       bool
	monthly   int64 // 0: no what_if
	retryRate float64
}

// form reads how the report is to be written.
func (q *reportQuery) form(ask url.Values) *refusal {
	switch ask.Get("format") {
	case "", "json":
	case "csv":
		q.csv = true
	default:
		return badBody("format can be json or csv", "format")
	}
	monthly, rate := ask.Get("monthly"), ask.Get("retry_rate")
	if monthly == "" && rate == "" {
		return nil
	}
	if q.csv {
		return badBody("monthly and retry_rate are for json: a CSV has one table", "monthly")
	}
	var err error
	if q.monthly, err = strconv.ParseInt(monthly, 10, 64); err != nil || q.monthly < 1 {
		return badBody("monthly is a number of requests, from 1; it goes with retry_rate", "monthly")
	}
	if q.retryRate, err = strconv.ParseFloat(rate, 64); err != nil || !(q.retryRate >= 0 && q.retryRate <= 1) {
		return badBody("retry_rate is a part from 0 to 1, 0.1 for one in ten; it goes with monthly", "retry_rate")
	}
	return nil
}

// reportQuery reads what is asked for.
func (g *Gateway) reportQuery(r *http.Request, now time.Time) (q reportQuery, refused *refusal) {
	ask, refused := readQuery(r, append([]string{"by", "format", "monthly", "retry_rate"}, ledgerParams...)...)
	if refused != nil {
		return q, refused
	}
	if q.Query, refused = g.readLedger(ask, now); refused != nil {
		return q, refused
	}
	var err error
	if q.By, err = report.ParseBy(ask.Get("by")); err != nil {
		return q, badBody(err.Error(), "by")
	}
	return q, q.form(ask)
}
