package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"oncegate/cache/report"
)

// report answers /api/report: since, by and format as the report command has
// them, and further until, zone, monthly and retry_rate.
func (g *Gateway) report(w http.ResponseWriter, r *http.Request) {
	q, refused := g.reportQuery(r)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	sums, err := report.Make(r.Context(), g.opt.Store, q, time.Now())
	if err != nil {
		g.refuse(w, &unknownPath, &refusal{status: 503, code: "store_unavailable", reason: reasonStoreAway, retry: true,
			message: "the store can't be read: " + err.Error()})
		return
	}
	ask := r.URL.Query()
	switch ask.Get("format") {
	case "", "json":
		g.writeReport(w, sums, ask.Get("monthly"), ask.Get("retry_rate"))
	case "csv":
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="oncegate-report.csv"`)
		sums.CSV(w, q.By)
	default:
		g.refuse(w, &unknownPath, badBody("format can be json or csv", "format"))
	}
}

// writeReport writes the JSON of the contract; what_if is there if it was asked for.
func (g *Gateway) writeReport(w http.ResponseWriter, sums *report.Report, monthly, rate string) {
	if monthly == "" && rate == "" {
		writeJSON(w, sums)
		return
	}
	n, err := strconv.ParseInt(monthly, 10, 64)
	if err != nil || n < 1 {
		g.refuse(w, &unknownPath, badBody("monthly is a number of requests, from 1; it goes with retry_rate", "monthly"))
		return
	}
	part, err := strconv.ParseFloat(rate, 64)
	if err != nil || !(part >= 0 && part <= 1) {
		g.refuse(w, &unknownPath, badBody("retry_rate is a part from 0 to 1, 0.1 for one in ten; it goes with monthly", "retry_rate"))
		return
	}
	writeJSON(w, struct {
		*report.Report
		WhatIf *report.WhatIf `json:"what_if"`
	}{sums, sums.WhatIf(n, part)})
}

// reportQuery reads what is asked for.
func (g *Gateway) reportQuery(r *http.Request) (q report.Query, _ *refusal) {
	ask := r.URL.Query()
	for name := range ask {
		switch name {
		case "since", "until", "by", "zone", "format", "monthly", "retry_rate":
		default:
			return q, badBody("a report knows since, until, by, zone, format, monthly and retry_rate, not "+strconv.Quote(clip([]byte(name), 50)), name)
		}
	}
	var err error
	if q.By, err = report.ParseBy(ask.Get("by")); err != nil {
		return q, badBody(err.Error(), "by")
	}
	q.Ledger, q.Zone = g.opt.Zone, g.opt.Zone
	if name := ask.Get("zone"); name != "" {
		if q.Zone, err = time.LoadLocation(name); err != nil || strings.EqualFold(name, "local") {
			return q, badBody("zone is a name of the IANA time zone database, like Europe/Berlin", "zone")
		}
	}
	now := time.Now()
	q.Since, q.Until = now.Add(-24*time.Hour), now
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		v := ask.Get(name)
		if v == "" {
			continue
		}
		if *into, err = report.ParseTime(v, now); err != nil {
			return q, badBody(name+" is "+err.Error(), name)
		}
	}
	if !q.Since.Before(q.Until) {
		return q, badBody("since must be before until", "since")
	}
	return q, nil
}
