package report

import (
	"context"
	"slices"
	"time"

	"oncegate/cache"
)

// Series is a report cut into steps of time. Every figure of the report's total
// is the sum of the points', and of a point's total the sum of its groups'.
type Series struct {
	Since  time.Time `json:"since"` // as a report of the same time has it
	Until  time.Time `json:"until"`
	Zone   string    `json:"zone"`
	Step   Step      `json:"step"`
	Points []Point   `json:"points"` // without gaps; of steps by day, from the first one with anything to tomorrow at the latest
}

// Point is one step. A write whose outcome is unknown now counts where it was
// sent, at the nearest point if that was before or after all of them.
type Point struct {
	At     time.Time `json:"at"` // when it begins, in the zone
	Total  Sums      `json:"total"`
	Groups []Group   `json:"groups,omitzero"` // those with anything, in the report's order
}

// MostGroups is how many groups a series tells apart. Further ones are summed
// up as the group cache.Other.
const MostGroups = 20

// MakeSeries sums the ledger over a time, step by step. q.By is no Day.
func MakeSeries(ctx context.Context, books Books, q Query, now time.Time) (*Series, error) {
	q.fill()
	c := cut{q: &q, step: StepOf(q.Since, q.Until, now), points: map[int64]*Point{}}
	if q.By != "" {
		whole, err := Make(ctx, books, q, now)
		if err != nil {
			return nil, err
		}
		c.rank(whole.Groups)
	}
	parts := plan(q, now)
	r := &Series{Since: parts[0].from.In(q.Zone), Until: parts[len(parts)-1].until.In(q.Zone), Zone: q.Zone.String(), Step: c.step}
	if c.step == ByMinute {
		for i := range parts {
			parts[i].level = cache.Minute
		}
	}
	first, last := parts[0], parts[len(parts)-1]
	end := last.until
	if last.level == cache.Day {
		end = c.date(end)
	}
	begin := c.begin(first.level, first.from)
	if c.step == ByDay { // of any time, up to the year 9999 too: what is far off is there if something is in it
		tomorrow := now.AddDate(0, 0, 1)
		if tomorrow.Before(begin) {
			tomorrow = begin.AddDate(0, 0, 1)
		}
		if tomorrow.Before(end) {
			end = tomorrow
		}
		if most := c.step.Begin(end.AddDate(0, 0, -mostPoints), q.Zone); begin.Before(most) {
			begin = most
		}
	}
	c.fill(begin, end)
	err := walk(ctx, books, &q, parts, func(level cache.Level, begin time.Time, s cache.Series, f *cache.Figures) {
		p := c.of(level, begin)
		p.Total.add(&s, f)
		if g := c.group(p, &s); g != nil {
			g.add(&s, f)
		}
	})
	if err != nil {
		return nil, err
	}
	points := c.sorted()
	if len(points) > 0 {
		c.fill(points[0].At, points[len(points)-1].At)
		points = c.sorted()
	}
	err = doubts(ctx, books, &q, func(s *cache.Series, sent time.Time) {
		i, found := slices.BinarySearchFunc(points, sent, func(p *Point, t time.Time) int { return p.At.Compare(t) })
		if !found {
			i = max(0, i-1)
		}
		if len(points) == 0 {
			points = append(points, c.at(c.step.Begin(r.Since, q.Zone)))
		}
		points[i].Total.UnknownWritesOpen++
		if g := c.group(points[i], s); g != nil {
			g.UnknownWritesOpen++
		}
	})
	if err != nil {
		return nil, err
	}
	r.Points = c.shown(points)
	return r, nil
}

// cut is a series while it is summed.
type cut struct {
	q      *Query
	step   Step
	points map[int64]*Point // by when they begin, in Unix seconds
	ranks  map[string]int   // of groups; others are summed up

	// The point that was looked for last: most buckets come after one of the same.
	level cache.Level
	begun time.Time
	last  *Point
}

// rank has the first groups of a report told apart.
func (c *cut) rank(groups []Group) {
	c.ranks = make(map[string]int, MostGroups+1)
	for i := range groups {
		if len(groups) <= MostGroups || groups[i].Name != cache.Other && len(c.ranks) < MostGroups {
			c.ranks[groups[i].Name] = len(c.ranks)
		}
	}
}

// group is the group of a series at a point; nil: there are none.
func (c *cut) group(p *Point, s *cache.Series) *Sums {
	if c.q.By == "" {
		return nil
	}
	name := c.q.By.of(s)
	if _, ok := c.ranks[name]; !ok {
		name = cache.Other
	}
	for i := range p.Groups {
		if p.Groups[i].Name == name {
			return &p.Groups[i].Sums
		}
	}
	p.Groups = append(p.Groups, Group{By: c.q.By, Name: name})
	return &p.Groups[len(p.Groups)-1].Sums
}

// of is the point that a bucket belongs to.
func (c *cut) of(level cache.Level, begin time.Time) *Point {
	if c.last == nil || level != c.level || !begin.Equal(c.begun) {
		c.level, c.begun, c.last = level, begin, c.at(c.begin(level, begin))
	}
	return c.last
}

// begin is when the point of a bucket begins. A day of the ledger is that date
// in the asked zone too: nothing tells its hours apart any more.
func (c *cut) begin(level cache.Level, bucket time.Time) time.Time {
	if level == cache.Day {
		return c.date(bucket)
	}
	return c.step.Begin(bucket, c.q.Zone)
}

// date is when the ledger's date at t begins in the asked zone.
func (c *cut) date(t time.Time) time.Time {
	y, m, d := t.In(c.q.Ledger).Date()
	return cache.Day.Begin(time.Date(y, m, d, 12, 0, 0, 0, c.q.Zone), c.q.Zone)
}

// fill makes the points of a time, so that there is no gap.
func (c *cut) fill(begin, end time.Time) {
	for at := begin; at.Before(end); at = c.step.Next(at, c.q.Zone) {
		c.at(at)
	}
}

func (c *cut) at(begin time.Time) *Point {
	p := c.points[begin.Unix()]
	if p == nil {
		p = &Point{At: begin.In(c.q.Zone)}
		if c.q.By != "" {
			p.Groups = []Group{}
		}
		c.points[begin.Unix()] = p
	}
	return p
}

func (c *cut) sorted() []*Point {
	list := make([]*Point, 0, len(c.points))
	for _, p := range c.points {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Point) int { return a.At.Compare(b.At) })
	return list
}

// shown is what is given of the points: of years, not those before anything
// was asked.
func (c *cut) shown(points []*Point) []Point {
	for len(points) > mostPoints && points[0].Total == (Sums{}) {
		points = points[1:]
	}
	list := make([]Point, len(points))
	for i, p := range points {
		slices.SortFunc(p.Groups, func(a, b Group) int { return c.place(a.Name) - c.place(b.Name) })
		list[i] = *p
	}
	return list
}

// place is where a group stands: that of all others at the end.
func (c *cut) place(name string) int {
	if n, ok := c.ranks[name]; ok {
		return n
	}
	return len(c.ranks)
}
