package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

type recordsCommand struct {
	Ls      recordsLs      `cmd:"" help:"List records of writes, those whose outcome is unknown with --state unknown."`
	Show    recordsShow    `cmd:"" help:"One record, and what happened to it when."`
	Resolve recordsResolve `cmd:"" help:"Say what became of writes whose outcome is unknown."`
}

// listedRecord is a record as /api/records has it.
type listedRecord struct {
	Key, State, Tool, Method, Path, Principal, User string
	Unkeyed                                         bool
	Claimed, Dispatched, Settled                    time.Time
	Status                                          int
}

// since is when the record came into its state, as far as it says.
func (r *listedRecord) since() time.Time {
	for _, t := range []time.Time{r.Settled, r.Dispatched} {
		if !t.IsZero() {
			return t
		}
	}
	return r.Claimed
}

// stateMeans says what the states mean to whoever reads them.
var stateMeans = map[string]string{
	"claimed":    "nothing was sent yet",
	"dispatched": "sent, and not answered yet",
	"completed":  "done; its answer is replayed to repeats",
	"unknown":    "it may or may not have happened: look at the upstream, then oncegate records resolve",
	"tombstone":  "done; its answer is no longer kept, and repeats get 410",
}

// recordKey checks a record's name, so that a slip is told before a gateway is
// asked.
func recordKey(name string) error {
	if b, err := hex.DecodeString(name); err != nil || len(b) != 32 {
		return usage{fmt.Errorf("%s is not a record's key: it is the 64 hex digits of Oncegate-Key, or of the first column of oncegate records ls", quoted(name))}
	}
	return nil
}

// stamp is a time as tables have it, in UTC; a dash for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// plain is a text that clients chose, as it may be written to a terminal.
func plain(s string) string {
	if strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strconv.Quote(s)
	}
	return s
}

// quoted is a word of the command line, and not much of it.
func quoted(s string) string { return fmt.Sprintf("%.80q", s) }

// orDash is a column that may be empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return plain(s)
}

// columns writes rows whose cells stand below each other.
func columns(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for i := len(r); i > 0 && r[i-1] == ""; i-- { // no blanks at the end of a line
			r = r[:i-1]
		}
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

// readAnswer reads what the gateway answered.
func readAnswer(body []byte, what string, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("what the gateway answered is no %s: %w", what, err)
	}
	return nil
}
