package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"oncegate/policy"
)

// Toggle is true or false, or neither: where a section overrides another one,
// an absent key is no false.
type Toggle uint8

const (
	Unset = Toggle(policy.ByDefault)
	True  = Toggle(policy.On)
	False = Toggle(policy.Off)
)

// Size is a number of bytes, written 32MiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
}

// ParseSize reads 32MiB, 1.5GiB, 64KB or a plain number of bytes.
func ParseSize(s string) (Size, error) {
	number, factor := strings.TrimSpace(s), 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, errors.New("is not a size")
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && factor == 1 {
		return Size(n), nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, errors.New("is not a size")
	}
	if f *= factor; f >= math.MaxInt64 {
		return 0, errors.New("is too large a size")
	}
	return Size(f), nil
}

// String is the size in the largest binary unit that it is a multiple of.
func (s Size) String() string {
	for _, u := range sizeUnits[:4] {
		if n := Size(u.bytes); s != 0 && s%n == 0 {
			return strconv.FormatInt(int64(s/n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// ParseDuration reads Go's durations, and d for 24 hours: 7d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, errors.New("is not a duration")
		}
		return d, nil
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || strings.Trim(days, "+-0123456789.") != "" {
		return 0, errors.New("is not a duration")
	}
	if math.Abs(n) > 100*365 {
		return 0, errors.New("is too long a duration")
	}
	d := time.Duration(n * float64(24*time.Hour))
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || strings.Trim(rest[:1], "+-") == "" {
		return 0, errors.New("is not a duration")
	}
	if n < 0 || strings.HasPrefix(days, "-") {
		more = -more
	}
	if sum := d + more; (sum < d) == (more < 0) {
		return sum, nil
	}
	return 0, errors.New("is too long a duration")
}

// formatDuration writes what ParseDuration reads: 7d, 1h30m, 10m.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d != 0 && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
