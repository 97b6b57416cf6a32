package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

type recordsResolve struct {
	adminFlag
	Keys        []string `arg:"" name:"key" help:"The records."`
	As          string   `help:"executed or not-executed: what you found out at the upstream." required:"" enum:"executed,not-executed" placeholder:"WHAT"`
	Reason      string   `help:"How you know. It is kept." required:"" placeholder:"TEXT"`
	Fence       uint64   `help:"Of one record: the run that you looked at, as show has it. What you say falls on no later one." placeholder:"N"`
	Actor       string   `help:"Who says so; else the name of the system's user." placeholder:"NAME"`
	Status      int      `help:"Executed: the status that repeats are answered with, 200 to 499..." placeholder:"N"`
	Body        string   `help:"...and the body, from a file or - for standard input. Without them repeats get 410." placeholder:"FILE"`
	ContentType string   `help:"What the body is." placeholder:"TYPE" default:"application/json"`
}

// Bounds of what the gateway takes: characters of the reason and the actor,
// records at once.
const (
	mostReason   = 1000
	mostActor    = 200
	mostResolved = 200
)

// saidOfRecord is what the gateway is told of one record.
type saidOfRecord struct {
	Key         string  `json:"key"`
	As          string  `json:"as"`
	Reason      string  `json:"reason"`
	Actor       string  `json:"actor"`
	Fence       uint64  `json:"fence,omitempty"`
	Status      int     `json:"status,omitempty"`
	Body        *string `json:"body,omitempty"`
	ContentType string  `json:"content_type,omitempty"`
}

// Run says of each record the same, and prints a line for each.
func (c *recordsResolve) Run(in *invocation) error {
	said, err := c.said()
	if err != nil {
		return err
	}
	failed := 0
	at := mostResolved
	if said.Body != nil { // as many as fit into one request
		at = max(1, min(at, (16<<20)/(len(*said.Body)+1)))
	}
	for keys := range slices.Chunk(c.Keys, at) {
		n, err := c.resolve(in, said, keys)
		if err != nil {
			return err
		}
		failed += n
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d were not resolved", failed, len(c.Keys))
	}
	return nil
}

// said reads the flags, and the body from its file.
func (c *recordsResolve) said() (saidOfRecord, error) {
	s := saidOfRecord{As: c.As, Reason: c.Reason, Fence: c.Fence, Actor: cmp.Or(c.Actor, systemUser()), Status: c.Status}
	for i, k := range c.Keys {
		if err := recordKey(k); err != nil {
			return s, err
		}
		if c.Keys[i] = strings.ToLower(k); slices.Contains(c.Keys[:i], c.Keys[i]) {
			return s, usage{fmt.Errorf("%s stands there twice; name each record once", k)}
		}
	}
	switch {
	case c.Fence != 0 && len(c.Keys) > 1:
		return s, usage{errors.New("--fence is that of one record: resolve those that have one by themselves")}
	case strings.TrimSpace(c.Reason) == "" || utf8.RuneCountInString(c.Reason) > mostReason:
		return s, usage{fmt.Errorf("--reason must say how you know, in 1 to %d characters", mostReason)}
	case utf8.RuneCountInString(s.Actor) > mostActor:
		return s, usage{fmt.Errorf("--actor is longer than %d characters: write a name", mostActor)}
	case c.As != "executed" && (c.Status != 0 || c.Body != ""):
		return s, usage{errors.New("--status and --body are for --as executed: what was not executed has no answer; leave them out")}
	case c.Status != 0 && (c.Status < 200 || c.Status > 499):
		return s, usage{fmt.Errorf("--status %d is none that the write was answered with: write one from 200 to 499", c.Status)}
	case c.Status != 0 && c.Body == "":
		return s, usage{errors.New("--status needs --body beside it, /dev/null for an empty one; leave both out and repeats get 410")}
	case c.Body == "":
		return s, nil
	}
	text, err := readBodyFile(c.Body)
	if err != nil {
		return s, usage{fmt.Errorf("--body: %w", err)}
	}
	if !utf8.Valid(text) {
		return s, usage{errors.New("--body is not UTF-8 text: leave --status and --body out, and repeats are told that the answer is gone")}
	}
	body := string(text)
	if s.Body = &body; body != "" {
		s.ContentType = c.ContentType
		if s.ContentType == "application/json" && !json.Valid(text) {
			return s, usage{errors.New("--body is not JSON: --content-type says what it is, as text/plain")}
		}
	}
	return s, nil
}

// maxBodyFile bounds, in bytes, what is read of a body: no gateway keeps more
// by default.
const maxBodyFile = 30 << 20

func readBodyFile(name string) ([]byte, error) {
	from := os.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxBodyFile+1))
	if err == nil && len(text) > maxBodyFile {
		err = fmt.Errorf("it is larger than %d bytes, more than can be kept", maxBodyFile)
	}
	return text, err
}

// systemUser names who runs this program.
func systemUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), "operator")
}

// resolve tells the gateway of some records, prints what came of each, and
// counts those that were not resolved.
func (c *recordsResolve) resolve(in *invocation, said saidOfRecord, keys []string) (failed int, err error) {
	var ask struct {
		Resolve []saidOfRecord `json:"resolve"`
	}
	for _, k := range keys {
		said.Key = k
		ask.Resolve = append(ask.Resolve, said)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return 0, err
	}
	answer, err := c.post(in, "api/records/resolve", body, 5*time.Minute)
	if err != nil {
		return 0, err
	}
	var out struct {
		Results []struct {
			Key    string
			Status int
			State  string
			Error  struct{ Message string }
		}
	}
	if err := readAnswer(answer, "list of results", &out); err != nil {
		return 0, err
	}
	if len(out.Results) != len(keys) {
		return 0, fmt.Errorf("the gateway answered for %d of %d records; look at them with oncegate records show", len(out.Results), len(keys))
	}
	for _, r := range out.Results {
		if r.Status == 200 {
			fmt.Fprintf(in.stdout, "ok    %s: %s\n", r.Key, r.State)
			continue
		}
		failed++
		fmt.Fprintf(in.stdout, "FAIL  %s: %d: %s\n", r.Key, r.Status, r.Error.Message)
	}
	return failed, nil
}
