package browser

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// Where clocks are set back to midnight a day has two of them, and begins with the
// first, as the server's days do (cache.Level.Begin): "today" is all of that day.
func TestTodayBeginsWithTheFirstOfTwoMidnights(t *testing.T) {
	p := open(t, newFake(t))
	p.visit("/tools")
	for at, day := range map[string][2]string{
		"Atlantic/Azores, between them": {"2026-10-25T00:30:00Z", "2026-10-25T00:00:00Z"}, "Atlantic/Azores, without one": {"2026-03-29T12:00:00Z", "2026-03-29T01:00:00Z"},
		"Atlantic/Azores": {"2026-10-25T12:00:00Z", "2026-10-25T00:00:00Z"},
		"America/Havana":  {"2026-11-01T18:00:00Z", "2026-11-01T04:00:00Z"},
	} {
		zone, _, _ := strings.Cut(at, ",")
		if got := p.try("calendar", fmt.Sprintf("m.midnight(%q, Date.parse(%q))", zone, day[0])); got != strconv.Quote(day[1]) {
			t.Errorf("%s: the day began at %s, not %s", at, got, day[1])
		}
	}
}
