package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"oncegate/cache"
)

// columns are the figures of Sums, each by the way that leads to it in the
// JSON: outcomes.executed.
var columns = func() (list []column) {
	var walk func(t reflect.Type, way string, index []int)
	walk = func(t reflect.Type, way string, index []int) {
		for f := range t.Fields() {
			name, at := way+f.Tag.Get("json"), append(index[:len(index):len(index)], f.Index...)
			if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[cache.Money]() {
				walk(f.Type, name+".", at)
				continue
			}
			list = append(list, column{name, at})
		}
	}
	walk(reflect.TypeFor[Sums](), "", nil)
	return list
}()

type column struct {
	name  string
	index []int
}

// of is the figure, exactly.
func (c column) of(s *Sums) string {
	return fmt.Sprint(reflect.ValueOf(s).Elem().FieldByIndex(c.index))
}

// CSV writes a row a group, one of the total if there are no groups, by RFC
// 4180. Beside a day is when it begins in UTC. Amounts are exact.
func (r *Report) CSV(w io.Writer, by By) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	var row []string
	if by != "" {
		row = append(row, string(by))
	}
	if by == Day {
		row = append(row, "utc")
	}
	for _, c := range columns {
		row = append(row, c.name)
	}
	if err := out.Write(row); err != nil {
		return err
	}
	groups := r.Groups
	if by == "" {
		groups = []Group{{Sums: r.Total}}
	}
	for i := range groups {
		g := &groups[i]
		row = row[:0]
		if by != "" {
			row = append(row, defused(g.Name))
		}
		if by == Day {
			row = append(row, g.utc(r.Zone))
		}
		for _, c := range columns {
			row = append(row, c.of(&g.Sums))
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// utc is when a day begins.
func (g *Group) utc(zone string) string {
	begin := g.begin
	if begin.IsZero() { // as it came by JSON
		where, err := time.LoadLocation(zone)
		if err != nil {
			return ""
		}
		if begin, err = time.ParseInLocation(time.DateOnly, g.Name, where); err != nil {
			return ""
		}
	}
	return begin.UTC().Format(time.RFC3339)
}

// defused keeps a spreadsheet from taking a name that somebody chose for a
// formula.
func defused(s string) string {
	if s != "" && s != unnamed && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
