package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"
)

type recordsLs struct {
	adminFlag
	State     string `help:"Only those that are claimed, dispatched, completed, unknown or tombstone." placeholder:"STATE"`
	Tool      string `help:"Only those of a tool." placeholder:"NAME"`
	Principal string `help:"Only those of a key of auth.keys, or what a record shows as its principal." placeholder:"NAME"`
	Limit     int    `help:"At most so many, ${default} if left out; 0: all there are." default:"200" placeholder:"N"`
	Format    string `help:"table or json." default:"table" enum:"table,json"`
}

// recordsPage is how many records are asked for at once.
const recordsPage = 200

// Run lists records, page after page.
func (c *recordsLs) Run(in *invocation) error {
	if _, known := stateMeans[c.State]; c.State != "" && !known {
		return usage{fmt.Errorf("--state %s is none: write claimed, dispatched, completed, unknown or tombstone", quoted(c.State))}
	}
	if c.Limit < 0 {
		return usage{fmt.Errorf("--limit %d is not a number of records: write 0 for all, or 1 and more", c.Limit)}
	}
	all := []json.RawMessage{}
	next := ""
	for {
		want := recordsPage
		if c.Limit > 0 {
			want = min(want, c.Limit-len(all))
		}
		page, more, err := c.page(in, next, want)
		if err != nil {
			return err
		}
		all, next = append(all, page...), more
		if next == "" || c.Limit > 0 && len(all) >= c.Limit {
			break
		}
	}
	if c.Format == "json" {
		e := json.NewEncoder(in.stdout)
		e.SetEscapeHTML(false)
		return e.Encode(struct {
			Records []json.RawMessage `json:"records"`
			Next    string            `json:"next,omitempty"`
		}{all, next})
	}
	if err := c.table(in, all); err != nil {
		return err
	}
	if next != "" {
		fmt.Fprintf(in.stderr, "there are more than %d: --limit 0 lists all, --state and --tool some of them\n", len(all))
	}
	return nil
}

func (c *recordsLs) page(in *invocation, cursor string, limit int) ([]json.RawMessage, string, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, v := range map[string]string{"state": c.State, "tool": c.Tool, "principal": c.Principal, "cursor": cursor} {
		if v != "" {
			query.Set(name, v)
		}
	}
	body, err := c.get(in, "api/records", query, time.Minute)
	if err != nil {
		return nil, "", err
	}
	var page struct {
		Records []json.RawMessage
		Next    string
	}
	err = readAnswer(body, "list of records", &page)
	return page.Records, page.Next, err
}

func (c *recordsLs) table(in *invocation, all []json.RawMessage) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(in.stdout, "no records")
		return err
	}
	rows := [][]string{{"KEY", "STATE", "SINCE", "TOOL", "WRITE", "STATUS", "PRINCIPAL", "USER"}}
	for _, text := range all {
		var r listedRecord
		if err := readAnswer(text, "record", &r); err != nil {
			return err
		}
		status := "-"
		if r.Status > 0 {
			status = strconv.Itoa(r.Status)
		}
		rows = append(rows, []string{r.Key, r.State, stamp(r.since()), plain(r.Tool), plain(r.Method + " " + r.Path), status, orDash(r.Principal), orDash(r.User)})
	}
	return columns(in.stdout, rows)
}
