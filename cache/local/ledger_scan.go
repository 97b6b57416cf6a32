package local

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"oncegate/cache"
)

// Scan posts what is booked, and reads buckets.
func (s *Store) Scan(ctx context.Context, level cache.Level, from, until time.Time, f func(time.Time, cache.Series, *cache.Figures)) error {
	if err := s.away(); err != nil {
		return err
	}
	away := func(err error) error { return fmt.Errorf("%w: read the ledger: %w", cache.ErrAway, err) }
	if s.ledger.dirty() {
		if err := s.ledger.post(ctx, s.writer.done); err != nil {
			return away(err)
		}
	}
	rows, err := s.db.QueryContext(ctx, "SELECT begin, sums FROM ledger WHERE level = ? AND begin >= ? AND begin < ?",
		level, ceilSeconds(from), ceilSeconds(until))
	if err != nil {
		return away(err)
	}
	defer rows.Close()
	known := make(map[string]*cache.Series) // many buckets have the same
	var sum cache.Figures
	for rows.Next() {
		var unix int64
		var b sql.RawBytes
		if err := rows.Scan(&unix, &b); err != nil {
			return away(err)
		}
		begin := time.Unix(unix, 0).In(s.ledger.zone)
		if err := parseBucket(b, func(series, figures []byte) error {
			name := known[string(series)]
			if name == nil {
				s, err := cache.DecodeSeries(series)
				if err != nil {
					return err
				}
				name = &s
				known[string(series)] = name
			}
			var err error
			if sum, err = cache.DecodeFigures(figures); err == nil {
				f(begin, *name, &sum)
			}
			return err
		}); err != nil {
			return away(fmt.Errorf("of %v: %w", begin, err))
		}
	}
	if err := rows.Err(); err != nil {
		return away(err)
	}
	return nil
}

// ceilSeconds is the first whole second, since 1970, that is not before t.
func ceilSeconds(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
