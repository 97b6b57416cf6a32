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

// doubts counts the outcomes that are unknown now, however long ago they were
// sent, into the total and the groups that they belong to.
func (r *Report) doubts(ctx context.Context, books Books, q Query, group func(name string, day time.Time) *Group) error {
	for cursor := ""; ; {
		page, next, err := books.Records(ctx, cache.Filter{State: cache.Unknown}, cursor, pageSize)
		if err != nil {
			return err
		}
		for i := range page {
			rec := &page[i]
			r.Total.UnknownWritesOpen++
			if q.By == "" {
				continue
			}
			s := cache.Series{
				Operation: "tools", User: rec.About.User, Key: rec.About.Principal, Tool: rec.About.Tool, Outcome: "unknown", Reason: "ambiguous",
			}
			name, day := q.By.of(&s), time.Time{}
			if q.By == Day {
				day = cache.Day.Begin(rec.Dispatched, q.Zone)
				name = day.Format(time.DateOnly)
			}
			group(name, day).UnknownWritesOpen++
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}
