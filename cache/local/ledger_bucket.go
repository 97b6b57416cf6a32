package local

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"oncegate/cache"
)

// A bucket is one row: its sums, one after the other, behind the version of
// this format. So a report reads some hundred rows and not a hundred thousand.
//
//	version:1 (length series, length figures)...
//
// Lengths are unsigned varints; series and figures are as cache.AppendSeries
// and cache.AppendFigures have them.
const bucketVersion = 1

var errBucket = errors.New("a bucket of the ledger is damaged")

// parseBucket calls f for the sums of a bucket.
func parseBucket(b []byte, f func(series, figures []byte) error) error {
	if len(b) == 0 || b[0] != bucketVersion {
		return errBucket
	}
	next := func() ([]byte, bool) {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, false
		}
		part := b[n : n+int(size)]
		b = b[n+int(size):]
		return part, true
	}
	for b = b[1:]; len(b) > 0; {
		series, ok := next()
		figures, also := next()
		if !ok || !also {
			return errBucket
		}
		if err := f(series, figures); err != nil {
			return errors.Join(errBucket, err)
		}
	}
	return nil
}

func appendBucket(b []byte, sums map[cache.Series]*cache.Figures) []byte {
	var part []byte
	put := func() { b = append(binary.AppendUvarint(b, uint64(len(part))), part...) }
	b = append(b, bucketVersion)
	for s, sum := range sums {
		part = cache.AppendSeries(part[:0], &s)
		put()
		part = cache.AppendFigures(part[:0], sum)
		put()
	}
	return b
}

// bucketID is a bucket's primary key.
type bucketID struct {
	level cache.Level
	begin int64 // unix seconds
}

// buckets are those that a posting changes.
type buckets struct {
	tx   *sql.Tx
	zone *time.Location
	open map[bucketID]map[cache.Series]*cache.Figures
	tell func(error)
}

// add adds a tally to the buckets of all levels.
func (b *buckets) add(ctx context.Context, t *cache.Tally) error {
	of := make(map[int64][3]bucketID)
	var failed error
	t.Each(func(minute int64, s *cache.Series, sum *cache.Figures) {
		if failed != nil {
			return
		}
		ids, ok := of[minute]
		if !ok {
			at := time.Unix(60*minute, 0)
			for i, level := range [...]cache.Level{cache.Minute, cache.Quarter, cache.Day} {
				ids[i] = bucketID{level, level.Begin(at, b.zone).Unix()}
			}
			of[minute] = ids
		}
		var into [3]*cache.Figures
		var after [3]cache.Figures
		fits := true
		for i, id := range ids {
			if into[i], failed = b.sum(ctx, id, *s); failed != nil {
				return
			}
			after[i] = *into[i]
			fits = after[i].Add(sum) && fits
		}
		if !fits { // at any level: then at none, or their sums would differ
			b.tell(fmt.Errorf("%w: with %d requests more a sum is more than can be counted", cache.ErrLine, sum.Requests))
			return
		}
		for i := range into {
			*into[i] = after[i]
		}
	})
	return failed
}

// sum gives the figures of a series in a bucket, those of others if it is full.
func (b *buckets) sum(ctx context.Context, id bucketID, s cache.Series) (*cache.Figures, error) {
	sums := b.open[id]
	if sums == nil {
		var err error
		if sums, err = b.read(ctx, id); err != nil {
			return nil, err
		}
		b.open[id] = sums
	}
	for sums[s] == nil {
		wider := s.Within(len(sums))
		if wider == s {
			break
		}
		s = wider
	}
	if sums[s] == nil {
		sums[s] = new(cache.Figures)
	}
	return sums[s], nil
}

func (b *buckets) read(ctx context.Context, id bucketID) (map[cache.Series]*cache.Figures, error) {
	sums := make(map[cache.Series]*cache.Figures)
	var row []byte
	err := b.tx.QueryRowContext(ctx, "SELECT sums FROM ledger WHERE level = ? AND begin = ?", id.level, id.begin).Scan(&row)
	if errors.Is(err, sql.ErrNoRows) {
		return sums, nil
	}
	if err != nil {
		return nil, err
	}
	if err := parseBucket(row, func(series, figures []byte) error {
		s, err := cache.DecodeSeries(series)
		f, also := cache.DecodeFigures(figures)
		if err == nil && also == nil {
			sums[s] = &f
		}
		return errors.Join(err, also)
	}); err != nil {
		// It must not keep all that comes from being written.
		b.tell(fmt.Errorf("that of %v goes on with the %d series that could be read: %w", time.Unix(id.begin, 0).UTC(), len(sums), err))
	}
	return sums, nil
}

// write writes the buckets.
func (b *buckets) write(ctx context.Context) error {
	for id, sums := range b.open {
		if _, err := b.tx.ExecContext(ctx, "INSERT OR REPLACE INTO ledger (level, begin, sums) VALUES (?, ?, ?)",
			id.level, id.begin, appendBucket(nil, sums)); err != nil {
			return err
		}
	}
	return nil
}
