package report

import (
	"context"
	"time"

	"oncegate/cache"
)

// walk calls f for each series that q chooses in each bucket of the parts: the
// one way in which whatever is shown of the ledger reads it. f must not keep
// what it is given.
func walk(ctx context.Context, books Books, q *Query, parts []part, f func(level cache.Level, begin time.Time, s cache.Series, sum *cache.Figures)) error {
	chosen := q.Only.list()
	for _, p := range parts {
		err := books.Scan(ctx, p.level, p.from, p.until, func(begin time.Time, s cache.Series, sum *cache.Figures) {
			if chosen.fit(&s) {
				f(p.level, begin, s, sum)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// wants is a filter as it is asked of each series.
type wants []want

type want struct {
	by   By
	name string
}

func (o Filter) list() wants {
	list := make(wants, 0, len(o))
	for by, name := range o {
		list = append(list, want{by, name})
	}
	return list
}

func (w wants) fit(s *cache.Series) bool {
	for i := range w {
		if w[i].by.of(s) != w[i].name {
			return false
		}
	}
	return true
}
