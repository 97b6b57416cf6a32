package report

import (
	"context"
	"time"

	"oncegate/cache"
)

// Books are what a report is made from: the ledger's sums, and the records of
// writes whose outcome is unknown now.
type Books interface {
	cache.Ledger
	Records(ctx context.Context, f cache.Filter, cursor string, limit int) ([]cache.Record, string, error)
}

// pageSize is how many records are asked for at once: as many as a store gives.
const pageSize = 200

// doubts calls f for each outcome that q chooses and that is unknown now, however
// long ago it was sent.
func doubts(ctx context.Context, books Books, q *Query, f func(s *cache.Series, sent time.Time)) error {
	chosen := q.Only.list()
	for cursor := ""; ; {
		page, next, err := books.Records(ctx, cache.Filter{State: cache.Unknown}, cursor, pageSize)
		if err != nil {
			return err
		}
		for i := range page {
			about := &page[i].About
			s := cache.Series{Operation: "tools", User: about.User, Key: about.Principal, Tool: about.Tool, Outcome: "unknown", Reason: "ambiguous"}
			if chosen.fit(&s) {
				f(&s, page[i].Dispatched)
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}
