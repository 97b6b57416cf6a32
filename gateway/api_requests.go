package gateway

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"oncegate/cache"
	"oncegate/cache/report"
)

// listRequests answers GET /api/requests: those that are over, the latest first,
// of all time unless since says otherwise.
func (g *Gateway) listRequests(w http.ResponseWriter, r *http.Request) {
	f, page, refused := g.readRequests(r, time.Now())
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	found, next, err := g.opt.Store.Requests(r.Context(), f, page.cursor, page.limit)
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	writeFresh(w, struct {
		Requests []shownRequest `json:"requests"`
		Next     string         `json:"next"` // may stand beside few requests, or none: a long search goes on with it
	}{showRequests(found, false), next})
}

func (g *Gateway) readRequests(r *http.Request, now time.Time) (f cache.RequestFilter, page listQuery, refused *refusal) {
	ask, refused := readQuery(r, append([]string{"q", "limit", "cursor"}, ledgerParams...)...)
	if refused != nil {
		return f, page, refused
	}
	if page, refused = readPage(ask); refused != nil {
		return f, page, refused
	}
	q, refused := g.readLedger(ask, now)
	if refused != nil {
		return f, page, refused
	}
	if ask.Get("since") != "" {
		f.Since = q.Since
	}
	if ask.Get("until") != "" {
		f.Until = q.Until
	}
	f.Series = cache.Series{
		Model: q.Only[report.Model], Provider: q.Only[report.Provider], Operation: q.Only[report.Operation], User: q.Only[report.User],
		Key: q.Only[report.Key], Tool: q.Only[report.Tool], Outcome: q.Only[report.Outcome], Reason: q.Only[report.Reason],
	}
	f.Find, refused = g.readSearch(ask)
	return f, page, refused
}

// shortestPrefix is how much of a record's key is needed to search for it.
const shortestPrefix = 8

// readSearch reads q: the name of a record or how it begins, a request's id, or
// a client's Idempotency-Key. That is nowhere kept: the records that it would
// name are looked for.
func (g *Gateway) readSearch(ask url.Values) (f cache.Find, _ *refusal) {
	values, ok := ask["q"]
	if !ok {
		return f, nil
	}
	text := strings.TrimSpace(values[0])
	if text == "" || len(text) > maxName {
		return f, badBody("q is a record's key or its first 8 digits or more, a request id, or an Idempotency-Key; up to 256 bytes", "q")
	}
	f.ID = text
	if hex := strings.ToLower(text); len(hex) >= shortestPrefix && len(hex) <= 2*len(cache.Key{}) && strings.Trim(hex, "0123456789abcdef") == "" {
		f.Record = hex
	}
	if key, why := parseIdempotencyKey(text); why == "" {
		f.Keys = g.namedBy(key)
	}
	return f, nil
}

// namedBy are the records that an Idempotency-Key may name: one of each
// principal that is known, for completions and for writes.
func (g *Gateway) namedBy(own string) (keys []cache.Key) {
	of := func(p principal) {
		for _, kind := range []string{explicitKey, writeKey} {
			var key cache.Key
			d := p.digest()
			d.begin(kind)
			d.text(own)
			d.sum(key[:])
			p.done(d)
			keys = append(keys, key)
		}
	}
	for _, k := range g.clients {
		of(principal{secret: k.secret, macs: k.macs})
	}
	if len(g.opt.Keys) == 0 {
		of(g.anonymous)
	}
	return keys
}

// oneRequest answers GET /api/requests/{id}. An id that an upstream gave is that
// of all requests that got its answer: place says which is meant, else it is the
// latest.
func (g *Gateway) oneRequest(w http.ResponseWriter, r *http.Request) {
	ask, refused := readQuery(r, "place")
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	id := strings.TrimPrefix(r.URL.Path, "/api/requests/")
	found, err := g.findRequests(r.Context(), cache.RequestFilter{Find: cache.Find{ID: id}}, cache.MostPage)
	if place, asked := ask["place"]; asked {
		found = slices.DeleteFunc(found, func(r cache.Request) bool { return r.Place != place[0] })
	}
	switch {
	case err != nil:
		g.refuse(w, &unknownPath, unread(err))
	case len(found) == 0:
		g.refuse(w, &unknownPath, notFound("there is no request of this id in the log: it is not over yet, or was longer ago than the log goes back"))
	default:
		writeFresh(w, showRequest(&found[0], true))
	}
}

// findRequestsFor is how long a search for a few requests may take.
const findRequestsFor = 5 * time.Second

// findRequests looks for the latest few requests, through the whole log.
func (g *Gateway) findRequests(ctx context.Context, f cache.RequestFilter, most int) (all []cache.Request, _ error) {
	ctx, cancel := context.WithTimeout(ctx, findRequestsFor)
	defer cancel()
	for cursor := ""; ; {
		page, next, err := g.opt.Store.Requests(ctx, f, cursor, most-len(all))
		if all = append(all, page...); err != nil {
			return all, err
		}
		if cursor = next; cursor == "" || len(all) >= most {
			return all, nil
		}
	}
}
