package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"oncegate/cache"
)

// books is a ledger in memory that has what real ones keep, and no more.
type books struct {
	doubts []cache.Record // one a page
	zone   *time.Location
	lines  []cache.Line
	now    time.Time
	scans  int
}

func (b *books) Book(lines ...cache.Line) { b.lines = append(b.lines, lines...) }

func (b *books) Records(_ context.Context, f cache.Filter, cursor string, _ int) ([]cache.Record, string, error) {
	if f.State != cache.Unknown || len(b.doubts) == 0 {
		return nil, "", nil
	}
	at, _ := strconv.Atoi(cursor)
	next := ""
	if at+1 < len(b.doubts) {
		next = strconv.Itoa(at + 1)
	}
	return b.doubts[at : at+1], next, nil
}

func (b *books) Scan(_ context.Context, level cache.Level, from, until time.Time, f func(time.Time, cache.Series, *cache.Figures)) error {
	b.scans++
	type bucket struct {
		begin  int64
		series cache.Series
	}
	sums := map[bucket]*cache.Figures{}
	for _, l := range b.lines {
		begin := level.Begin(l.At, b.zone)
		keep := map[cache.Level]time.Duration{cache.Minute: cache.KeepMinutes, cache.Quarter: cache.KeepQuarters, cache.Day: 1 << 62}[level]
		if begin.Before(from) || !begin.Before(until) || b.now.Sub(begin) > keep {
			continue
		}
		k := bucket{begin.Unix(), l.Series}
		if sums[k] == nil {
			sums[k] = new(cache.Figures)
		}
		sums[k].Add(&l.Figures)
	}
	for k, sum := range sums {
		f(time.Unix(k.begin, 0), k.series, sum)
	}
	return nil
}

func line(at time.Time, s cache.Series, n int64) cache.Line {
	return cache.Line{At: at, Series: s, Figures: cache.Figures{Requests: n}}
}

func zone(t testing.TB, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// The days of a range sum to the range, whatever the zone: half hours, days of
// 23 and 25 hours, ends in the middle of a day. What happened up to now is in.
func TestDaysSumToTheRange(t *testing.T) {
	names := []string{"UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham", "Asia/Bangkok"}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(t, "now"), 0)
		b := &books{zone: time.UTC, now: now}
		q := Query{By: Day, Until: now}
		var err error
		if q.Zone, err = time.LoadLocation(rapid.SampledFrom(names).Draw(t, "zone")); err != nil {
			t.Fatal(err)
		}
		hours := rapid.SampledFrom([]int{1, 24, 47, 48, 24 * 30, 24 * 89, 24 * 200}).Draw(t, "hours")
		q.Since = now.Add(-time.Duration(hours) * time.Hour)
		inside := int64(0)
		for range rapid.IntRange(0, 200).Draw(t, "lines") {
			ago := time.Duration(rapid.Int64Range(0, int64(hours)*3600*5/4).Draw(t, "ago")) * time.Second
			b.Book(line(now.Add(-ago), cache.Series{Outcome: "executed"}, 1))
		}
		r, err := Make(context.Background(), b, q, now)
		if err != nil {
			t.Fatal(err)
		}
		// What the report says it covers is what it has.
		for _, l := range b.lines {
			if !l.At.Before(r.Since) && l.At.Before(r.Until) {
				inside++
			}
		}
		sum := int64(0)
		for _, g := range r.Groups {
			sum += g.Requests
		}
		if r.Total.Requests != inside || sum != inside || r.Total.Outcomes.Executed != inside {
			t.Fatalf("total %d, days %d, outcomes %d; %d lines from %v to %v", r.Total.Requests, sum, r.Total.Outcomes.Executed, inside, r.Since, r.Until)
		}
		if r.Since.After(q.Since) || !r.Until.After(q.Until.Add(-time.Second)) {
			t.Fatalf("%v to %v was asked for, %v to %v is covered", q.Since, q.Until, r.Since, r.Until)
		}
		if hours <= 24*89 && q.Since.Sub(r.Since) >= 15*time.Minute {
			t.Fatalf("it begins %v early", q.Since.Sub(r.Since))
		}
	})
}

// A line is on the day that its clock showed, and on no other.
func TestDayOfALine(t *testing.T) {
	kolkata := zone(t, "Asia/Kolkata")
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Time
		zone *time.Location
		day  string
	}{
		{time.Date(2026, 11, 29, 18, 29, 59, 0, time.UTC), kolkata, "2026-11-29"},
		{time.Date(2026, 11, 29, 18, 30, 0, 0, time.UTC), kolkata, "2026-11-30"},
		{time.Date(2026, 11, 29, 23, 59, 59, 0, time.UTC), time.UTC, "2026-11-29"},
		{time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), zone(t, "Europe/Berlin"), "2026-10-25"},
		{time.Date(2026, 10, 25, 23, 30, 0, 0, time.UTC), zone(t, "Europe/Berlin"), "2026-10-26"},
	} {
		b := &books{zone: time.UTC, now: now}
		b.Book(line(c.at, cache.Series{}, 1))
		r, err := Make(t.Context(), b, Query{Since: now.AddDate(0, 0, -60), Until: now, By: Day, Zone: c.zone}, now)
		if err != nil || len(r.Groups) != 1 || r.Groups[0].Name != c.day {
			t.Errorf("%v in %v: %+v, %v; want %s", c.at, c.zone, r.Groups, err, c.day)
		}
	}
}

// A day's report reads few buckets.
func TestPlan(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 7, 30, 0, time.UTC)
	for _, c := range []struct{ since, until, want string }{
		{"24h", "0s", "minute 12:07 to 12:15, quarter 12:15 to 12:00, minute 12:00 to 12:08"},
		{"5m", "0s", "minute 12:02 to 12:08"},
		{"7d", "0s", "quarter 12:00 to 12:00, minute 12:00 to 12:08"},
		{"7d", "6d", "quarter 12:00 to 12:15"},
		{"100d", "0s", "day 00:00 to 00:00, quarter 00:00 to 12:00, minute 12:00 to 12:08"},
		{"100d", "99d", "day 00:00 to 00:00"},
	} {
		since, _ := ParseTime(c.since, now)
		until, _ := ParseTime(c.until, now)
		var got []string
		for _, p := range plan(Query{Since: since, Until: until, Ledger: time.UTC, Zone: time.UTC}, now) {
			got = append(got, fmt.Sprintf("%s %s to %s", [...]string{"minute", "quarter", "day"}[p.level], p.from.Format("15:04"), p.until.Format("15:04")))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s to %s ago: %s, want %s", c.since, c.until, strings.Join(got, ", "), c.want)
		}
	}
}

// Every figure of the total is the sum of the groups', in every grouping, as
// JSON, CSV and Go alike.
func TestGroupsSumToTheTotal(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"", "a", "b/c", "=1+1", "-", "ü,\"\n"})
		amount := func(what string) int64 { return rapid.Int64Range(0, 1<<40).Draw(t, what) }
		b := &books{zone: time.UTC, now: now}
		for range rapid.IntRange(0, 30).Draw(t, "lines") {
			b.Book(cache.Line{
				At: now.Add(-time.Duration(rapid.Int64Range(0, 86000).Draw(t, "ago")) * time.Second),
				Series: cache.Series{
					Model: name.Draw(t, "model"), Provider: name.Draw(t, "provider"), Operation: name.Draw(t, "operation"), User: name.Draw(t, "user"),
					Key: name.Draw(t, "key"), Tool: name.Draw(t, "tool"),
					Outcome: rapid.SampledFrom([]string{"executed", "coalesced", "replayed", "bypassed", "refused", "failed", "unknown"}).Draw(t, "outcome"),
					Reason:  rapid.SampledFrom([]string{"", "key", "twin", "owed", "retry_marked", "within_ttl", "deadline"}).Draw(t, "reason"),
				},
				Figures: cache.Figures{
					Requests: amount("requests"), Billed: amount("billed"), Unbilled: amount("unbilled"), Ambiguous: amount("ambiguous"),
					SavedRequests: amount("saved"), SavedInput: amount("in"), SavedOutput: amount("out"), Saved: cache.Picodollars(amount("$") << 20),
					BilledInput: amount("in"), BilledOutput: amount("out"), Spent: cache.Picodollars(amount("$") << 20),
					Unpriced: amount("unpriced"), Prevented: amount("prevented"),
				},
			})
		}
		var first Sums
		for i, by := range Groupings {
			r, err := Make(context.Background(), b, Query{Since: now.Add(-24 * time.Hour), Until: now.Add(time.Minute), By: by}, now)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = r.Total
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var back Report
			if err := json.Unmarshal(text, &back); err != nil {
				t.Fatal(err)
			}
			var sum Sums
			for _, g := range back.Groups {
				addAll(reflect.ValueOf(&sum).Elem(), reflect.ValueOf(g.Sums))
			}
			if sum != r.Total || back.Total != r.Total || first != r.Total {
				t.Fatalf("by %s the groups sum to\n%+v, the total is\n%+v, of another grouping\n%+v", by, sum, r.Total, first)
			}
			o := r.Total.Outcomes
			if r.Total.Requests != o.Executed+o.Coalesced+o.Replayed+o.Bypassed+o.Refused+o.Failed+o.Unknown {
				t.Fatalf("requests %d are not the sum of %+v", r.Total.Requests, o)
			}
			var file bytes.Buffer
			if err := r.CSV(&file, by); err != nil {
				t.Fatal(err)
			}
			rows, err := csv.NewReader(&file).ReadAll()
			if err != nil || len(rows) != len(r.Groups)+1 {
				t.Fatalf("%d rows of %d groups, %v", len(rows), len(r.Groups), err)
			}
			for column, name := range rows[0] {
				var total cache.Money
				for _, row := range rows[1:] {
					if strings.ContainsAny(row[0][:1], "=+@") {
						t.Fatalf("a cell begins like a formula: %q", row[0])
					}
					if name == string(by) || name == "utc" {
						continue
					}
					m, err := cache.ParseMoney(row[column])
					if err != nil {
						t.Fatalf("%s: %q", name, row[column])
					}
					total.Add(m)
				}
				if name == "saved.usd" && total != r.Total.Saved.USD || name == "attempts.billed" && total.Dollars != r.Total.Attempts.Billed {
					t.Fatalf("the CSV's %s sums to %v", name, total)
				}
			}
		}
	})
}

// addAll adds every figure of a struct to another of its type.
func addAll(to, from reflect.Value) {
	for i := range to.NumField() {
		switch f := to.Field(i).Addr().Interface().(type) {
		case *int64:
			*f += from.Field(i).Int()
		case *cache.Money:
			f.Add(from.Field(i).Interface().(cache.Money))
		default:
			addAll(to.Field(i), from.Field(i))
		}
	}
}

// The JSON is the contract's, name by name.
func TestJSON(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := &books{zone: time.UTC, now: now}
	b.Book(cache.Line{At: now, Series: cache.Series{Model: "gpt-4.1", Outcome: "replayed", Reason: "key"}, Figures: cache.Figures{
		Requests: 1, SavedRequests: 1, SavedInput: 12, SavedOutput: 3, Saved: cache.Picodollars(1_234_000_000)}})
	r, err := Make(t.Context(), b, Query{Since: now.Add(-time.Hour), Until: now.Add(time.Second), By: Model}, now)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	sums := `"requests":1,"outcomes":{"executed":0,"coalesced":0,"replayed":1,"bypassed":0,"refused":0,"failed":0,"unknown":0},` +
		`"attempts":{"billed":0,"unbilled":0,"ambiguous":0},` +
		`"saved":{"requests":1,"tokens":{"input":12,"output":3},"usd":"0.001234","by":{"retry_marked":0,"owed":0,"twin":0,"key":1,"within_ttl":0}},` +
		`"billed":{"tokens":{"input":0,"output":0},"usd":"0"},` +
		`"unpriced_requests":0,"duplicate_writes_prevented":0,"unknown_writes_open":0}`
	want := `{"since":"2026-11-30T11:00:00Z","until":"2026-11-30T12:01:00Z","zone":"UTC","total":{` + sums + `,"groups":[{"model":"gpt-4.1",` + sums + `]}`
	if string(got) != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

func TestDollars(t *testing.T) {
	for amount, want := range map[string]string{
		"0": "$0", "0.000000000001": "$0.000000000001", "0.000042": "$0.00004200", "0.12345678": "$0.1235", "0.5": "$0.5000",
		"0.00099994": "$0.0009999", "0.000999999": "$0.0010000", "0.9999": "$0.9999", "0.99994": "$0.9999", "0.99995": "$1.00", "0.1": "$0.1000",
		"1": "$1.00", "1.235": "$1.24", "1234567.1": "$1,234,567.10", "9.999": "$10.00",
	} {
		m, err := cache.ParseMoney(amount)
		if err != nil {
			t.Fatal(err)
		}
		if got := Dollars(m); got != want {
			t.Errorf("%s is shown as %s, want %s", amount, got, want)
		}
	}
}

func TestWhatIf(t *testing.T) {
	r := &Report{Groups: []Group{
		{By: Model, Name: "small", Sums: Sums{Attempts: Attempts{Billed: 3}, Billed: Billed{USD: cache.Picodollars(1_260_000_000)}}},
		{By: Model, Name: "some", Sums: Sums{Attempts: Attempts{Billed: 3}, Billed: Billed{USD: cache.Picodollars(1)}, UnpricedRequests: 1}},
		{By: Model, Name: "refused", Sums: Sums{Requests: 3}},
	}}
	w := r.WhatIf(1_000_000, .1)
	if len(w.Lines) != 2 || w.Lines[1].Call != nil || w.Lines[0].Call.String() != "0.00042" || w.Lines[0].With.String() != "420" {
		t.Fatalf("%+v", w)
	}
	if saved := w.Lines[0].Saved; Dollars(*saved) != "$42.00" {
		t.Errorf("saved %v", saved)
	}
	var out strings.Builder
	if err := w.Table(&out); err != nil || !strings.Contains(out.String(), "$42.00") || !strings.Contains(out.String(), "unpriced") || strings.Contains(out.String(), "refused") {
		t.Error(out.String(), err)
	}
}

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"24h": now.Add(-24 * time.Hour), "7d": now.AddDate(0, 0, -7), "1d12h": now.Add(-36 * time.Hour), "0s": now,
		"2026-11-30T08:00:00+02:00": time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC),
	} {
		if got, err := ParseTime(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "yesterday", "-1h", "-3d", "99999999d", "2026-11-30", "1.5d", "9999-01-01T00:00:00Z", "9998-12-31T23:30:00-01:00", "0001-01-01T00:00:00+01:00", "0000-06-01T00:00:00Z"} {
		if got, err := ParseTime(s, now); err == nil {
			t.Errorf("%q was read as %v", s, got)
		}
	}
}

// Outcomes that are unknown now are counted in the group that each belongs to,
// whenever it was sent.
func TestDoubts(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	b := &books{zone: time.UTC, now: now, doubts: []cache.Record{
		{State: cache.Unknown, About: cache.About{Tool: "payments", Principal: "research", User: "u1"}, Dispatched: now.Add(-time.Minute)},
		{State: cache.Unknown, About: cache.About{Tool: "mail", Principal: "research"}, Dispatched: now.AddDate(0, 0, -9)},
		{State: cache.Unknown, About: cache.About{Tool: "payments", Principal: "ops"}, Dispatched: now},
	}}
	b.Book(cache.Line{At: now, Series: cache.Series{Tool: "payments", Operation: "tools", Outcome: "executed"}, Figures: cache.Figures{Requests: 1}})
	for _, by := range append([]By{""}, Groupings...) {
		r, err := Make(t.Context(), b, Query{Since: now.Add(-time.Hour), Until: now.Add(time.Minute), By: by}, now)
		if err != nil {
			t.Fatal(err)
		}
		var sum int64
		named := map[string]int64{}
		for _, g := range r.Groups {
			sum += g.UnknownWritesOpen
			named[g.Name] = g.UnknownWritesOpen
		}
		if r.Total.UnknownWritesOpen != 3 || by != "" && sum != 3 {
			t.Errorf("by %q: total %d, groups %d, want 3", by, r.Total.UnknownWritesOpen, sum)
		}
		want := map[By]map[string]int64{
			Tool: {"payments": 2, "mail": 1}, Key: {"research": 2, "ops": 1}, User: {"u1": 1, "-": 2},
			Day: {"2026-11-30": 2, "2026-11-21": 1}, Outcome: {"unknown": 3}, Operation: {"tools": 3},
		}[by]
		for name, n := range want {
			if named[name] != n {
				t.Errorf("by %s: %s has %d, want %d", by, name, named[name], n)
			}
		}
	}
}
