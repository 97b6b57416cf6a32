package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

type recordsShow struct {
	adminFlag
	Key    string `arg:"" name:"key" help:"The record: Oncegate-Key of its answers, or the first column of ls."`
	Format string `help:"table or json." default:"table" enum:"table,json"`
}

// wholeRecord is a record as /api/records/{key} has it.
type wholeRecord struct {
	listedRecord
	Fence              uint64
	Expires, Forgotten time.Time
	Size               *int64
	SHA256             string
	Probe              bool
	Events             []recordEvent
}

type recordEvent struct {
	At                      time.Time
	What, Actor, Reason, As string
	Fence                   uint64
	Status                  int
}

// Run shows a record and its timeline.
func (c *recordsShow) Run(in *invocation) error {
	if err := recordKey(c.Key); err != nil {
		return err
	}
	body, err := c.get(in, "api/records/"+c.Key, nil, time.Minute)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		_, err = in.stdout.Write(append(body, '\n'))
		return err
	}
	var r wholeRecord
	if err := readAnswer(body, "record", &r); err != nil {
		return err
	}
	if err := columns(in.stdout, r.facts()); err != nil {
		return err
	}
	fmt.Fprintln(in.stdout)
	return columns(in.stdout, r.timeline())
}

// facts is what there is to say of the record, each in a line.
func (r *wholeRecord) facts() [][]string {
	rows := [][]string{
		{"record", r.Key},
		{"fence", strconv.FormatUint(r.Fence, 10)},
		{"state", strings.TrimSuffix(r.State+": "+stateMeans[r.State], ": ")},
		{"tool", plain(r.Tool)},
		{"write", plain(r.Method + " " + r.Path)},
		{"principal", orDash(r.Principal)},
	}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if r.User != "" {
		add("user", plain(r.User))
	}
	if r.Unkeyed {
		add("key", "none was sent: nothing can repeat it")
	}
	if r.Status > 0 && r.State == "unknown" {
		add("upstream", fmt.Sprintf("answered %d, which does not say whether it happened", r.Status))
	} else if r.Status > 0 {
		answer := strconv.Itoa(r.Status)
		if r.Size != nil {
			answer += fmt.Sprintf(", %d bytes, sha256 %s", *r.Size, r.SHA256)
		}
		add("answer", answer)
	}
	if r.Probe {
		add("probe", "the upstream can be asked what became of it")
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"answer goes", r.Expires}, {"key goes", r.Forgotten}} {
		if !t.at.IsZero() {
			add(t.name, stamp(t.at))
		}
	}
	return rows
}

// timeline is what happened, the first first. Runs are the claims, numbered as
// they come: a store's own fences have many digits.
func (r *wholeRecord) timeline() [][]string {
	rows := [][]string{{"AT", "AFTER", "EVENT", "RUN", "STATUS", "WHAT"}}
	var before time.Time
	runs := map[uint64]int{}
	for _, e := range r.Events {
		if runs[e.Fence] == 0 {
			runs[e.Fence] = len(runs) + 1
		}
		after, status := "", "-"
		if !before.IsZero() {
			after = "+" + e.At.Sub(before).Round(time.Millisecond).String()
		}
		before = e.At
		if e.Status > 0 {
			status = strconv.Itoa(e.Status)
		}
		rows = append(rows, []string{e.At.UTC().Format("2006-01-02 15:04:05.000Z"), orDash(after), e.What, strconv.Itoa(runs[e.Fence]), status, e.words()})
	}
	return rows
}

// words is what is said of an event beside its name.
func (e *recordEvent) words() string {
	s := e.As
	if e.Actor != "" {
		s = strings.TrimSpace(s + " by " + plain(e.Actor))
	}
	if e.Reason != "" {
		s = strings.TrimPrefix(s+": "+plain(e.Reason), ": ")
	}
	return s
}
