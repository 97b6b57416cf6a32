// Package report sums the ledger: the one aggregation that the report, its
// CSV, the API and the pages are made of.
package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"oncegate/cache"
)

// Query says what is summed.
type Query struct {
	Since, Until time.Time
	By           By             // what the groups are; empty: none
	Only         Filter         // what is counted; empty: all
	Zone         *time.Location // in which days begin
	Ledger       *time.Location // in which the ledger's own days begin; nil: UTC
}

func (q *Query) fill() {
	if q.Zone == nil {
		q.Zone = time.UTC
	}
	if q.Ledger == nil {
		q.Ledger = time.UTC
	}
}

// By is what a report's groups are.
type By string

// What a report can be grouped by.
const (
	Model     By = "model"
	Provider  By = "provider"
	Operation By = "operation"
	User      By = "user"
	Key       By = "key"
	Tool      By = "tool"
	Outcome   By = "outcome"
	Reason    By = "reason"
	Day       By = "day"
)

// Groupings are all of them, as the contract lists them.
var Groupings = []By{Model, Provider, Operation, User, Key, Tool, Outcome, Reason, Day}

// Filters are what a report can be limited by: every name that a series has.
var Filters = Groupings[:len(Groupings)-1]

// Filter chooses the series that have these names; unnamed ones are "-", as in
// a report's groups.
type Filter map[By]string

// ParseBy reads the name of a grouping; empty is none.
func ParseBy(s string) (By, error) {
	if by := By(s); by == "" || slices.Contains(Groupings, by) {
		return by, nil
	}
	names := make([]string, len(Groupings))
	for i, by := range Groupings {
		names[i] = string(by)
	}
	return "", fmt.Errorf("by can be %s, not %.50q", strings.Join(names, ", "), s)
}

// Report is what was asked for in a time, what it cost and what was saved. Every
// figure of Total is the sum of the groups'.
type Report struct {
	Since  time.Time `json:"since"` // as far as the ledger tells times apart
	Until  time.Time `json:"until"`
	Zone   string    `json:"zone"`
	Total  Sums      `json:"total"`
	Groups []Group   `json:"groups"`
	// Answered is how many answers with tokens there are, shared ones too, as far
	// as series tell them apart: what UnpricedRequests are a part of.
	Answered int64 `json:"-"`
}

// Group is one group's sums. By JSON, its first member is its name.
type Group struct {
	By   By
	Name string // - for what has none; of a day its date
	Sums
	begin time.Time // of a day
}

// unnamed stands for what has no name: no user, no tool.
const unnamed = "-"

// Make sums the ledger over a time.
func Make(ctx context.Context, books Books, q Query, now time.Time) (*Report, error) {
	q.fill()
	parts := plan(q, now)
	r := &Report{Since: parts[0].from.In(q.Zone), Until: parts[len(parts)-1].until.In(q.Zone), Zone: q.Zone.String(), Groups: []Group{}}
	groups := make(map[string]*Group)
	group := func(name string, day time.Time) *Group {
		g := groups[name]
		if g == nil {
			g = &Group{By: q.By, Name: name, begin: day}
			groups[name] = g
		}
		return g
	}
	days := dayNames{q: &q}
	err := walk(ctx, books, &q, parts, func(level cache.Level, begin time.Time, s cache.Series, f *cache.Figures) {
		r.Total.add(&s, f)
		if s.Tool == "" && f.SavedInput+f.SavedOutput+f.BilledInput+f.BilledOutput > 0 {
			r.Answered += f.SavedRequests + f.Billed
		}
		switch q.By {
		case "":
		case Day:
			name, day := days.of(level, begin)
			group(name, day).add(&s, f)
		default:
			group(q.By.of(&s), time.Time{}).add(&s, f)
		}
	})
	if err != nil {
		return nil, err
	}
	err = doubts(ctx, books, &q, func(s *cache.Series, sent time.Time) {
		r.Total.UnknownWritesOpen++
		switch q.By {
		case "":
		case Day:
			day := cache.Day.Begin(sent, q.Zone)
			group(day.Format(time.DateOnly), day).UnknownWritesOpen++
		default:
			group(q.By.of(s), time.Time{}).UnknownWritesOpen++
		}
	})
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		r.Groups = append(r.Groups, *g)
	}
	slices.SortFunc(r.Groups, func(a, b Group) int {
		if q.By == Day {
			return strings.Compare(a.Name, b.Name)
		}
		return cmp.Or(
			b.Saved.USD.Cmp(a.Saved.USD), b.Billed.USD.Cmp(a.Billed.USD),
			cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	return r, nil
}

// dayNames names the days that buckets belong to. Most buckets come after one
// of the same day.
type dayNames struct {
	q     *Query
	begin time.Time // of the bucket that is named
	name  string
	day   time.Time
}

// of is the date of a bucket, and when that day begins.
func (d *dayNames) of(level cache.Level, begin time.Time) (string, time.Time) {
	if d.name == "" || !begin.Equal(d.begin) {
		zone := d.q.Zone
		if level == cache.Day {
			zone = d.q.Ledger
		}
		d.begin, d.day = begin, cache.Day.Begin(begin, zone)
		d.name = d.day.Format(time.DateOnly)
	}
	return d.name, d.day
}

// of is the series' name in a grouping.
func (by By) of(s *cache.Series) string {
	var name string
	switch by {
	case Model:
		name = s.Model
	case Provider:
		name = s.Provider
	case Operation:
		name = s.Operation
	case User:
		name = s.User
	case Key:
		name = s.Key
	case Tool:
		name = s.Tool
	case Outcome:
		name = s.Outcome
	case Reason:
		name = s.Reason
	}
	return cmp.Or(name, unnamed)
}
