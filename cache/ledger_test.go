package cache

import (
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones below, wherever this runs
)

func TestLevels(t *testing.T) {
	kolkata := time.FixedZone("", 5*3600+1800)
	at := time.Date(2026, 11, 30, 20, 44, 59, 999, time.UTC)
	for _, c := range []struct {
		level Level
		zone  *time.Location
		want  string
	}{
		{Minute, nil, "2026-11-30T20:44:00Z"},
		{Minute, kolkata, "2026-11-30T20:44:00Z"},
		{Quarter, kolkata, "2026-11-30T20:30:00Z"},
		{Day, nil, "2026-11-30T00:00:00Z"},
		{Day, kolkata, "2026-11-30T18:30:00Z"},
	} {
		if got := c.level.Begin(at.In(time.FixedZone("", -3600)), c.zone).UTC().Format(time.RFC3339Nano); got != c.want {
			t.Errorf("level %d in %v begins at %s, want %s", c.level, c.zone, got, c.want)
		}
	}
}

// TestDaysBegin looks at every minute around each change of clocks in zones
// that change at midnight, by half hours, or across the date line: a day
// begins with the first minute that has its date.
func TestDaysBegin(t *testing.T) {
	for _, name := range []string{
		"America/Sao_Paulo", "America/Havana", "America/St_Johns", "America/Asuncion", "Atlantic/Azores", "Africa/Cairo",
		"Asia/Beirut", "Asia/Amman", "Asia/Tehran", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "America/Nuuk",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		for at := time.Date(1995, 1, 1, 0, 0, 0, 0, zone); ; changes++ {
			_, change := at.ZoneBounds()
			if change.IsZero() || change.Year() > 2027 {
				break
			}
			at = change
			first := map[[3]int]time.Time{}
			for m := -60 * 60; m <= 30*60; m++ {
				now := change.Add(time.Duration(m) * time.Minute)
				y, mon, d := now.Date()
				date := [3]int{y, int(mon), d}
				if _, ok := first[date]; !ok {
					first[date] = now
				}
				if m < -30*60 || m%7 != 0 && m != 0 && m != -1 && m != 1 { // the day before began earlier
					continue
				}
				if got := Day.Begin(now, zone); !got.Equal(first[date]) {
					t.Fatalf("the day of %v begins at %v, want %v", now, got, first[date])
				}
			}
		}
		if changes < 2 && name != "Asia/Kathmandu" {
			t.Errorf("%s has %d changes", name, changes)
		}
	}
}

func TestFitCutsNames(t *testing.T) {
	for name, want := range map[string]int{
		"short":                                   5,
		strings.Repeat("x", MostName):             MostName,
		strings.Repeat("x", MostName+1):           MostName,
		strings.Repeat("é", MostName):             MostName,
		"x" + strings.Repeat("é", MostName):       MostName - 1,
		"xx" + strings.Repeat("\U0001F600", 1000): MostName - 2,
		strings.Repeat("\x80", 1000):              MostName - 4, // no text at all
	} {
		l := Line{At: time.Unix(0, 0), Series: Series{Model: name, Reason: name}}
		if err := l.Fit(); err != nil || len(l.Model) != want || l.Reason != l.Model || !strings.HasPrefix(name, l.Model) {
			t.Errorf("%.9q of %d bytes is cut to %d, %v, want %d", name, len(name), len(l.Model), err, want)
		}
	}
	l := Line{At: time.Unix(-1, 0)}
	if err := l.Fit(); !errors.Is(err, ErrLine) {
		t.Errorf("from before 1970: %v", err)
	}
}
