package gateway

import (
	"encoding/hex"
	"time"

	"oncegate/cache"
)

// The shapes in which the admin listener shows records of writes.

// shownRecord is a record in a list.
type shownRecord struct {
	Key        string      `json:"key"`
	Fence      cache.Fence `json:"fence"` // of the claim that this is of
	State      string      `json:"state"`
	Tool       string      `json:"tool"`
	Method     string      `json:"method"`
	Path       string      `json:"path"`
	Principal  string      `json:"principal"`
	User       string      `json:"user"`
	Unkeyed    bool        `json:"unkeyed"`
	Claimed    time.Time   `json:"claimed,omitzero"`
	Dispatched time.Time   `json:"dispatched,omitzero"`
	Settled    time.Time   `json:"settled,omitzero"`
	Status     int         `json:"status,omitempty"` // of the upstream; left out: it sent none

	RequestSize   int64  `json:"request_size"`             // of the request's body, in bytes
	RequestSHA256 string `json:"request_sha256,omitempty"` // of it; left out: there was none
	Probe         bool   `json:"probe"`                    // there is a way to ask the upstream what became of it

	Last *shownStep `json:"last,omitempty"` // of its events
}

// wholeRecord is one record by itself. Of its answer it has what identifies
// it, and never the body.
type wholeRecord struct {
	shownRecord
	Origin    cache.Fence `json:"origin"`
	Expires   time.Time   `json:"expires,omitzero"`
	Forgotten time.Time   `json:"forgotten,omitzero"`
	Size      *int64      `json:"size,omitempty"`
	SHA256    string      `json:"sha256,omitempty"`
	Events    []shownStep `json:"events"`
}

// shownStep is an entry of a record's trail.
type shownStep struct {
	At     time.Time   `json:"at"`
	What   string      `json:"what"`
	Fence  cache.Fence `json:"fence"`
	Status int         `json:"status,omitempty"`
	Actor  string      `json:"actor,omitempty"`
	Reason string      `json:"reason,omitempty"`
	As     string      `json:"as,omitempty"`
}

// shownAudit is an entry of the audit.
type shownAudit struct {
	shownStep
	Key       string `json:"key"`
	Tool      string `json:"tool"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Principal string `json:"principal"`
	User      string `json:"user"`
	Unkeyed   bool   `json:"unkeyed"`
}

// recordStates are the states of a write's record, in the words that clients
// read and write.
var recordStates = map[cache.State]string{
	cache.Claimed:    "claimed",
	cache.Dispatched: "dispatched",
	cache.Completed:  "completed",
	cache.Unknown:    "unknown",
	cache.Tombstone:  "tombstone",
}

// What a person can say of an unknown outcome.
const (
	asExecuted    = "executed"
	asNotExecuted = "not-executed"
)

func showRecord(r *cache.Record) shownRecord {
	out := shownRecord{
		Key: keyText(r.Key), Fence: r.Fence, State: recordStates[r.State],
		Tool: r.About.Tool, Method: r.About.Method, Path: r.About.Path,
		Principal: r.About.Principal, User: r.About.User, Unkeyed: r.About.Unkeyed,
		Claimed: shownTime(r.Claimed), Dispatched: shownTime(r.Dispatched), Settled: shownTime(r.Settled),
		Status: r.Status, RequestSize: r.About.Size, RequestSHA256: r.About.SHA256, Probe: r.About.Probe != "",
	}
	if n := len(r.Trail); n > 0 {
		last := showStep(&r.Trail[n-1])
		out.Last = &last
	}
	return out
}

func showWhole(r *cache.Record) wholeRecord {
	out := wholeRecord{
		shownRecord: showRecord(r), Origin: r.Origin,
		Expires: shownTime(r.Expires), Forgotten: shownTime(r.Forgotten),
		Events: make([]shownStep, len(r.Trail)),
	}
	if r.Sum != [32]byte{} { // there was a body, be it empty
		out.Size, out.SHA256 = &r.Size, hex.EncodeToString(r.Sum[:])
	}
	for i := range r.Trail {
		out.Events[i] = showStep(&r.Trail[i])
	}
	return out
}

func showStep(s *cache.Step) shownStep {
	out := shownStep{At: shownTime(s.At), What: s.What, Fence: s.Fence, Status: s.Status, Actor: s.Actor, Reason: s.Reason, As: s.As}
	switch s.As { // a record completes, an operator says that it was executed
	case cache.StepCompleted:
		out.As = asExecuted
	case cache.StepReleased:
		out.As = asNotExecuted
	}
	return out
}

func showAudit(a *cache.Audit) shownAudit {
	return shownAudit{
		shownStep: showStep(&a.Step), Key: keyText(a.Key),
		Tool: a.About.Tool, Method: a.About.Method, Path: a.About.Path,
		Principal: a.About.Principal, User: a.About.User, Unkeyed: a.About.Unkeyed,
	}
}

// shownTime is a time in UTC, to the millisecond.
func shownTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}
