package report

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ParseTime reads an end of a range: a time by RFC 3339, or how long ago it
// was, such as 90m, 24h or 7d. A day further, in any zone, is still a time that
// JSON can tell.
func ParseTime(s string, now time.Time) (time.Time, error) {
	bad := errors.New("how long ago, like 24h or 7d, or a time like 2026-11-30T08:00:00Z")
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		if y := t.UTC().Year(); y < 1 || y > 9998 {
			return now, errors.New("a time in the years 1 to 9998")
		}
		return t, nil
	}
	var days int64
	if d, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseInt(d, 10, 64)
		if err != nil || n < 0 || n > 36500 {
			return now, bad
		}
		if days, s = n, rest; s == "" {
			s = "0s"
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return now, bad
	}
	return now.Add(-d).AddDate(0, 0, -int(days)), nil
}
