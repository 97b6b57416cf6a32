package local

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"oncegate/cache"
)

// auditRow is what is written of a decision. The table's triggers refuse
// whatever would edit it.
type auditRow struct {
	key         cache.Key
	at          int64
	about, step string
}

// audit makes an entry of the latest step of the trail.
func (s *Store) audit(w *write) *auditRow {
	step := w.trail[len(w.trail)-1]
	return &auditRow{w.key, s.wall(step.At), jsonOf(w.about), jsonOf(step)}
}

// auditCursor is before the number of an entry.
const auditCursor = "a"

// Audits lists the audit by when it was written.
func (s *Store) Audits(ctx context.Context, cursor string, limit int) ([]cache.Audit, string, error) {
	before := int64(1<<63 - 1)
	if cursor != "" {
		number, ok := strings.CutPrefix(cursor, auditCursor)
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || n <= 0 {
			return nil, "", cache.ErrCursor
		}
		before = n
	}
	limit = min(max(limit, 1), mostListed)
	if err := s.away(); err != nil {
		return nil, "", err
	}
	if err := s.flush(ctx); err != nil {
		return nil, "", err
	}
	rows, err := s.db.QueryContext(ctx, "SELECT id, key, about, step FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?", before, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", cache.ErrAway, err)
	}
	defer rows.Close()
	var page []cache.Audit
	var last int64
	for rows.Next() {
		if len(page) == limit {
			return page, auditCursor + strconv.FormatInt(last, 10), nil
		}
		var key, about, step []byte
		var a cache.Audit
		if err := rows.Scan(&last, &key, &about, &step); err != nil {
			return nil, "", fmt.Errorf("%w: %w", cache.ErrAway, err)
		}
		copy(a.Key[:], key)
		if err := json.Unmarshal(about, &a.About); err != nil {
			return nil, "", fmt.Errorf("%w: entry %d of the audit: %w", errDamaged, last, err)
		}
		if err := json.Unmarshal(step, &a.Step); err != nil {
			return nil, "", fmt.Errorf("%w: entry %d of the audit: %w", errDamaged, last, err)
		}
		page = append(page, a)
	}
	return page, "", rows.Err()
}
