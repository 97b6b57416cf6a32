package report

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"oncegate/cache"
)

// plus adds figures, whatever figures there are.
func (t *Sums) plus(o *Sums) {
	var add func(a, b reflect.Value)
	add = func(a, b reflect.Value) {
		switch m := a.Addr().Interface().(type) {
		case *cache.Money:
			m.Add(b.Interface().(cache.Money))
		case *int64:
			*m += b.Int()
		default:
			for i := range a.NumField() {
				add(a.Field(i), b.Field(i))
			}
		}
	}
	add(reflect.ValueOf(t).Elem(), reflect.ValueOf(o).Elem())
}

func sumOf(groups []Group) (all Sums) {
	for i := range groups {
		all.plus(&groups[i].Sums)
	}
	return all
}

// traffic is random lines and doubts of the hours before now, some older.
func traffic(t *rapid.T, b *books, now time.Time, hours int) {
	names := func(kind string, n int) string {
		if i := rapid.IntRange(0, n).Draw(t, kind); i > 0 {
			return fmt.Sprint(kind, i)
		}
		return ""
	}
	at := func() time.Time {
		return now.Add(-time.Duration(rapid.Int64Range(0, int64(hours)*3600*5/4).Draw(t, "ago")) * time.Second)
	}
	number := rapid.Int64Range(0, 1<<30)
	for range rapid.IntRange(0, 120).Draw(t, "lines") {
		s := cache.Series{
			Model: names("model", 40), Provider: names("provider", 2), Operation: rapid.SampledFrom([]string{"chat", "tools"}).Draw(t, "operation"),
			User: names("user", 60), Key: names("key", 3), Tool: names("tool", 2),
			Outcome: rapid.SampledFrom(slices.Sorted(maps.Keys(outcomes))).Draw(t, "outcome"),
			Reason:  rapid.SampledFrom(append(slices.Sorted(maps.Keys(shares)), "")).Draw(t, "reason"),
		}
		if rapid.IntRange(0, 20).Draw(t, "overflow") == 0 {
			s = cache.OtherSeries(s)
		}
		b.Book(cache.Line{At: at(), Series: s, Figures: cache.Figures{
			Requests: 1, Billed: number.Draw(t, "billed"), Unbilled: 2, Ambiguous: 3, SavedRequests: 1, SavedInput: number.Draw(t, "tokens"), SavedOutput: 5,
			Saved: cache.Picodollars(number.Draw(t, "saved") * 4000), BilledInput: 7, BilledOutput: 8, Spent: cache.Picodollars(number.Draw(t, "spent") * 4000),
			Unpriced: 1, Prevented: 1,
		}})
	}
	for range rapid.IntRange(0, 3).Draw(t, "doubts") {
		b.doubts = append(b.doubts, cache.Record{State: cache.Unknown, Dispatched: at(),
			About: cache.About{Tool: names("tool", 2), Principal: names("key", 3), User: names("user", 60)}})
	}
}

// Whatever is shown of the ledger adds up: the report's groups and a series'
// points to the total, a point's groups to the point, and what a filter chooses
// to the group of that name.
func TestEverythingAddsUp(t *testing.T) {
	zones := []string{"UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham", "Africa/Cairo"}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(t, "now"), 0)
		hours := rapid.SampledFrom([]int{1, 5, 24, 60, 24 * 7, 24 * 40, 24 * 120, 24 * 500}).Draw(t, "hours")
		b := &books{zone: time.UTC, now: now}
		q := Query{Since: now.Add(-time.Duration(hours) * time.Hour), Until: now}
		if rapid.Bool().Draw(t, "past") {
			q.Until = now.Add(-time.Duration(rapid.IntRange(0, hours*3600-1).Draw(t, "until")) * time.Second)
		}
		var err error
		if q.Zone, err = time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone")); err != nil {
			t.Fatal(err)
		}
		if b.zone, err = time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "ledger")); err != nil {
			t.Fatal(err)
		}
		q.Ledger = b.zone
		traffic(t, b, now, hours)
		ctx := context.Background()
		whole, err := Make(ctx, b, q, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range append([]By{""}, Groupings...) {
			q.By, q.Only = by, nil
			r, err := Make(ctx, b, q, now)
			if err != nil {
				t.Fatal(err)
			}
			if r.Total != whole.Total || by != "" && sumOf(r.Groups) != whole.Total {
				t.Fatalf("by %s: total %+v, groups %+v, want %+v", by, r.Total, sumOf(r.Groups), whole.Total)
			}
			if by == Day {
				continue
			}
			checkSeries(t, b, q, now, whole)
			if len(r.Groups) == 0 {
				continue
			}
			g := rapid.SampledFrom(r.Groups).Draw(t, "group")
			q.By, q.Only = "", Filter{by: g.Name}
			if by == "" {
				continue
			}
			chosen, err := Make(ctx, b, q, now)
			if err != nil || chosen.Total != g.Sums {
				t.Fatalf("only %s %q: %+v, %v; its group has %+v", by, g.Name, chosen.Total, err, g.Sums)
			}
			q.By = Day
			if chosen, err = Make(ctx, b, q, now); err != nil || sumOf(chosen.Groups) != g.Sums {
				t.Fatalf("the days of only %s %q: %+v, %v; its group has %+v", by, g.Name, sumOf(chosen.Groups), err, g.Sums)
			}
			q.By = User
			checkSeries(t, b, q, now, chosen)
		}
	})
}

func checkSeries(t *rapid.T, b *books, q Query, now time.Time, whole *Report) {
	s, err := MakeSeries(context.Background(), b, q, now)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Since.Equal(whole.Since) || !s.Until.Equal(whole.Until) || len(s.Points) == 0 {
		t.Fatalf("a series of %d points from %v to %v; the report is from %v to %v", len(s.Points), s.Since, s.Until, whole.Since, whole.Until)
	}
	var all Sums
	groups := map[string]bool{}
	for i := range s.Points {
		p := &s.Points[i]
		all.plus(&p.Total)
		if i > 0 && !s.Points[i-1].At.Before(p.At) {
			t.Fatalf("%v stands before %v", s.Points[i-1].At, p.At)
		}
		if i > 0 && !s.Step.Next(s.Points[i-1].At, q.Zone).Equal(p.At) {
			t.Fatalf("from %v to %v is no %s in %v", s.Points[i-1].At, p.At, s.Step, q.Zone)
		}
		if sum := sumOf(p.Groups); q.By != "" && sum != p.Total {
			t.Fatalf("by %s at %v: groups %+v, total %+v", q.By, p.At, sum, p.Total)
		}
		for _, g := range p.Groups {
			groups[g.Name] = true
		}
	}
	if all != whole.Total {
		t.Fatalf("by %s, step %s: points %+v, want %+v", q.By, s.Step, all, whole.Total)
	}
	if len(groups) > MostGroups+1 {
		t.Fatalf("by %s: %d groups", q.By, len(groups))
	}
	if len(s.Points) > mostPoints+2 && s.Points[0].Total == (Sums{}) {
		t.Fatalf("%d points, and the first is empty", len(s.Points))
	}
}

// Each point begins where clocks in its zone say so, on days of 23 and 25 hours
// too, and where they are set by half an hour.
func TestStepsOfAZone(t *testing.T) {
	for name, c := range map[string]struct {
		zone, since, until string
		step               Step
		want               []string
	}{
		"a day of 25 hours": {"Europe/Berlin", "2026-10-24T00:00:00+02:00", "2026-10-27T00:00:00+01:00", ByDay,
			[]string{"2026-10-24T00:00:00+02:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"}},
		"its hours": {"Europe/Berlin", "2026-10-25T01:30:00+02:00", "2026-10-25T03:30:00+01:00", ByHour,
			[]string{"2026-10-25T01:00:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}},
		"half hours": {"Asia/Kolkata", "2026-11-01T00:10:00+05:30", "2026-11-01T02:00:00+05:30", ByHour,
			[]string{"2026-11-01T00:00:00+05:30", "2026-11-01T01:00:00+05:30"}},
		"set by half an hour": {"Australia/Lord_Howe", "2026-04-05T01:00:00+11:00", "2026-04-05T03:00:00+10:30", ByHour,
			[]string{"2026-04-05T01:00:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T02:00:00+10:30"}},
		"midnight that is not there": {"Africa/Cairo", "2026-04-23T00:00:00+02:00", "2026-04-26T00:00:00+03:00", ByDay,
			[]string{"2026-04-23T00:00:00+02:00", "2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			z := zone(t, c.zone)
			read := func(s string) time.Time {
				at, err := time.Parse(time.RFC3339, s)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			var got []string
			for at := c.step.Begin(read(c.since), z); at.Before(read(c.until)); at = c.step.Next(at, z) {
				got = append(got, at.Format(time.RFC3339))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestStepOf(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ago, long time.Duration
		want      Step
	}{
		{time.Hour, time.Hour, ByMinute},
		{400 * time.Minute, 400 * time.Minute, ByMinute},
		{401 * time.Minute, 401 * time.Minute, ByQuarter},
		{24 * time.Hour, 24 * time.Hour, ByQuarter},
		{72 * time.Hour, time.Hour, ByQuarter}, // minutes are gone
		{7 * 24 * time.Hour, 7 * 24 * time.Hour, ByHour},
		{30 * 24 * time.Hour, 30 * 24 * time.Hour, ByDay},
		{95 * 24 * time.Hour, time.Hour, ByDay},
	} {
		if got := StepOf(now.Add(-c.ago), now.Add(c.long-c.ago), now); got != c.want {
			t.Errorf("%v from %v ago: by %s, want %s", c.long, c.ago, got, c.want)
		}
	}
}

// A range that nobody could draw costs no more than one that can be drawn.
func TestSeriesOfEver(t *testing.T) {
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	year := func(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	b := &books{zone: time.UTC, now: now}
	for name, q := range map[string]Query{
		"of ever": {Since: year(1), Until: year(9999)}, "from now on": {Since: now, Until: year(9999)}, "of a time to come": {Since: year(3000), Until: year(9999)},
	} {
		s, err := MakeSeries(t.Context(), b, q, now)
		if err != nil || len(s.Points) == 0 || len(s.Points) > mostPoints+2 {
			t.Errorf("%s: %d points, %v", name, len(s.Points), err)
		}
	}
}
