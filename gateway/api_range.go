package gateway

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"oncegate/cache"
	"oncegate/cache/report"
)

// What all that is summed up from the ledger can be asked for.
var ledgerParams = func() []string {
	names := []string{"since", "until", "zone"}
	for _, by := range report.Filters {
		names = append(names, string(by))
	}
	return names
}()

// readRange reads which time is meant, and in which zone its days are: without
// a word of it the last 24 hours, in the configured zone.
func (g *Gateway) readRange(ask url.Values, now time.Time) (q report.Query, _ *refusal) {
	var err error
	q.Ledger, q.Zone = g.opt.Zone, g.opt.Zone
	if name := ask.Get("zone"); name != "" {
		if q.Zone, err = time.LoadLocation(name); err != nil || strings.EqualFold(name, "local") {
			return q, badBody("zone is a name of the IANA time zone database, like Europe/Berlin", "zone")
		}
	}
	q.Since, q.Until = now.Add(-24*time.Hour), now
	for _, end := range []struct {
		name string
		into *time.Time
	}{{"since", &q.Since}, {"until", &q.Until}} {
		v := ask.Get(end.name)
		if v == "" {
			continue
		}
		if *end.into, err = report.ParseTime(v, now); err != nil {
			return q, badBody(end.name+" is "+err.Error(), end.name)
		}
	}
	if !q.Since.Before(q.Until) {
		return q, badBody("since must be before until", "since")
	}
	return q, nil
}

// readLedger is readRange, and reads the filters.
func (g *Gateway) readLedger(ask url.Values, now time.Time) (q report.Query, refused *refusal) {
	if q, refused = g.readRange(ask, now); refused != nil {
		return q, refused
	}
	for _, by := range report.Filters {
		name := string(by)
		values, asked := ask[name]
		if !asked {
			continue
		}
		if refused = checkFilter(by, values[0]); refused != nil {
			return q, refused
		}
		if q.Only == nil {
			q.Only = report.Filter{}
		}
		q.Only[by] = values[0]
	}
	return q, nil
}

// checkFilter refuses a name that no series can have.
func checkFilter(by report.By, v string) *refusal {
	param := string(by)
	switch {
	case v == "":
		return badBody(param+` is empty: leave it out for all, or say "-" for those without one`, param)
	case len(v) > cache.MostName:
		return badBody(param+" is longer than the "+strconv.Itoa(cache.MostName)+" bytes that are kept of one", param)
	case v == "-":
		return nil
	}
	switch by {
	case report.Outcome:
		if !slices.Contains(outcomes, v) {
			return badBody("outcome can be "+strings.Join(outcomes, ", "), param)
		}
	case report.Operation:
		if !slices.ContainsFunc(counted(), func(op *operation) bool { return op.name == v }) {
			names := make([]string, 0, len(operations)+2)
			for _, op := range counted() {
				names = append(names, op.name)
			}
			return badBody("operation can be "+strings.Join(names, ", "), param)
		}
	case report.Tool, report.Reason, report.Provider:
		if !couldBeName(v) {
			return badBody(param+" is a name as a report has it, or - for those without one", param)
		}
	}
	return nil
}
