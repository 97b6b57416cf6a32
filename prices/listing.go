package prices

import (
	"slices"
	"strings"
	"time"
)

// Listed is a line of the price list, for people to read.
type Listed struct {
	Model  string // its name, or a pattern: * stands for anything, and between slashes is a regular expression
	Vendor string // of the table: who sells at this price; empty: it holds at every upstream
	Source Source // Config or Table
	Rates  Rates  // now, for little input
	Varies bool   // by the hour, the day, or how much the input is: answers are priced by what holds for them
}

// List gives all prices: the config's, then the table's, each by vendor and name.
// A model of the table that can't be priced from what an answer tells is not
// in it.
func (b *Book) List(now time.Time) []Listed {
	var own, table []Listed
	for name, p := range b.own {
		own = append(own, p.listed(name, "", now))
	}
	for _, v := range builtIn().vendors {
		for i := range v.models {
			if p := v.models[i].price; p != nil {
				table = append(table, p.listed(v.models[i].match.String(), v.id, now))
			}
		}
	}
	for _, list := range [][]Listed{own, table} {
		slices.SortStableFunc(list, func(a, b Listed) int {
			if c := strings.Compare(a.Vendor, b.Vendor); c != 0 {
				return c
			}
			return strings.Compare(a.Model, b.Model)
		})
	}
	return append(own, table...)
}

func (p *Price) listed(name, vendor string, now time.Time) Listed {
	return Listed{Model: name, Vendor: vendor, Source: p.source, Rates: *p.Rates(0, now), Varies: len(p.always) > 1 || len(p.when) > 0}
}

// String is the names that the rules fit, as people write patterns.
func (rs rules) String() string {
	names := make([]string, len(rs))
	for i, parts := range rs {
		words := make([]string, len(parts))
		for j := range parts {
			words[j] = parts[j].String()
		}
		names[i] = strings.Join(words, " and ")
	}
	return strings.Join(names, ", ")
}

func (r *rule) String() string {
	switch r.kind {
	case '=':
		return r.text
	case '^':
		return r.text + "*"
	case '$':
		return "*" + r.text
	case '*':
		return "*" + r.text + "*"
	case '!':
		return "not /" + r.text + "/"
	}
	return "/" + r.text + "/"
}
