package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "0": 0, "0s": 0, "-1d": -24 * time.Hour,
		"-1d12h": -36 * time.Hour, "500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "1w", "1d1d", "1d-1h", "x1d", "1e3d", "99999999d", "NaNd", "1h1d", "1d ", "36500d2000000h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"32MiB": 32 << 20, "1GiB": 1 << 30, "1.5KiB": 1536, "64KB": 64000, "10": 10, "0": 0, "12B": 12, "1 MiB": 1 << 20,
		"9223372036854775807": 1<<63 - 1,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1e3", "1PiB", "9999999TiB", "1.2.3", "0x10", "12 13"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestUnitsReadWhatTheyWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(200*365*24*time.Hour)).Draw(t, "duration"))
		if d >= 36500*24*time.Hour {
			d %= 24 * time.Hour
		}
		if got, err := ParseDuration(formatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %q and read as %v, %v", d, formatDuration(d), got, err)
		}
		s := Size(rapid.Int64Range(0, 1<<62).Draw(t, "size"))
		if got, err := ParseSize(s.String()); err != nil || got != s {
			t.Fatalf("%d is written %q and read as %d, %v", s, s, got, err)
		}
	})
}

func TestNearest(t *testing.T) {
	keys := []string{"listen", "admin_listen", "max_body", "max_buffered", "mode"}
	for word, want := range map[string]string{
		"lisen": "listen", "Listen": "listen", "lsiten": "listen", "adminlisten": "admin_listen", "maxbody": "max_body",
		"zzz": "", "x": "", "": "",
	} {
		if got := nearest(word, keys); got != want {
			t.Errorf("%q is taken for %q, want %q", word, got, want)
		}
	}
}
