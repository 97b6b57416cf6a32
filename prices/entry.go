package prices

import (
	"fmt"
	"strings"
	"time"
)

// entry is one line of a model's prices in the table. The first holds always;
// one with a condition holds before those that stand above it. One with Above
// is a further step of the line before it.
type entry struct {
	From  string // a day, UTC
	Hours string // 01:00-04:00, UTC
	// Weekdays says that Hours are those of Monday to Friday, UTC.
	Weekdays bool
	Above    int64 // tokens of input
	Rates
}

func readPrice(lines []entry) (*Price, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	p := &Price{source: Table}
	var groups []dated
	for _, l := range lines {
		if l.Above > 0 {
			if len(groups) == 0 {
				return nil, fmt.Errorf("a step above %d without a base", l.Above)
			}
			g := &groups[len(groups)-1]
			g.steps = append(g.steps, step{above: l.Above, rates: l.Rates})
			continue
		}
		g := dated{weekdays: l.Weekdays, steps: []step{{rates: l.Rates}}}
		if l.From != "" {
			t, err := time.Parse(time.DateOnly, l.From)
			if err != nil {
				return nil, err
			}
			g.from = t.Unix()
		}
		if l.Hours != "" {
			start, end, _ := strings.Cut(l.Hours, "-")
			for to, text := range map[*int]string{&g.start: start, &g.end: end} {
				t, err := time.Parse("15:04", text)
				if err != nil {
					return nil, err
				}
				*to = t.Hour()*3600 + t.Minute()*60
			}
		}
		groups = append(groups, g)
	}
	p.always = groups[0].steps
	for i := len(groups) - 1; i > 0; i-- {
		p.when = append(p.when, groups[i])
	}
	p.free = p.isFree()
	return p, nil
}
