package gateway

import (
	"encoding/hex"
	"errors"
	"net/http"

	"oncegate/cache"
)

// listRecords answers GET /api/records: records of writes, without their
// trails. Filters are state, tool and principal.
func (g *Gateway) listRecords(w http.ResponseWriter, r *http.Request, _ string) {
	q, refused := readList(r, "state", "tool", "principal")
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	page, next, err := g.opt.Store.Records(r.Context(), q.Filter, q.cursor, q.limit)
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	list := struct {
		Records []shownRecord `json:"records"`
		Next    string        `json:"next,omitempty"`
	}{make([]shownRecord, len(page)), next}
	for i := range page {
		list.Records[i] = showRecord(&page[i])
	}
	writeFresh(w, list)
}

// listAudit answers GET /api/audit: what was decided about writes of unknown
// outcome, and by whom.
func (g *Gateway) listAudit(w http.ResponseWriter, r *http.Request, _ string) {
	q, refused := readList(r)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	page, next, err := g.opt.Store.Audits(r.Context(), q.cursor, q.limit)
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	list := struct {
		Audit []shownAudit `json:"audit"`
		Next  string       `json:"next,omitempty"`
	}{make([]shownAudit, len(page)), next}
	for i := range page {
		list.Audit[i] = showAudit(&page[i])
	}
	writeFresh(w, list)
}

// readKey reads a record's name.
func readKey(name string) (k cache.Key, _ *refusal) {
	b, err := hex.DecodeString(name)
	if err != nil || len(b) != len(k) {
		return k, badBody("key is the 64 hex digits of a response's Oncegate-Key, or of a record in /api/records", "key")
	}
	return cache.Key(b), nil
}

var noRecord = notFound("there is no record of a write under this key: it is forgotten, was never sent, or belongs to a completion")

// unread says why a record or a list can't be given. nil is a record that is
// there by name only.
func unread(err error) *refusal {
	switch {
	case err == nil, errors.Is(err, cache.ErrNone):
		return noRecord
	case errors.Is(err, cache.ErrCursor):
		return badBody("this cursor is none of this list's: leave it out for the first page, and pass next on as it came", "cursor")
	}
	return &refusal{status: 503, code: "store_unavailable", reason: reasonStoreAway, retry: true,
		message: "the store can't be read: " + err.Error()}
}

// writeFresh answers with JSON that is no other moment's.
func writeFresh(w http.ResponseWriter, v any) {
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, v)
}
