package gateway

import (
	"strings"
	"time"

	"oncegate/policy"
	"oncegate/providers"
)

// Tool is one HTTP API that clients reach at /tools/NAME/...
type Tool struct {
	Name     string
	Upstream *providers.Tool

	KeyRequired bool          // a write without a key is refused
	KeyFrom     []string      // JSON pointers into the body: the first that points at anything but null is the key
	KeyFields   []string      // JSON pointers: what they all point at, together, is the key
	Window      time.Duration // how long after it settled a record by KeyFields is shared

	UpstreamKeyWindow time.Duration // how long the upstream remembers our key; 0: it knows no keys
	Probe             *Probe        // nil: it can't be asked
	Reads             []ToolRead    // writes by their method that only read
	ReplayHeaders     []string      // response headers that replays have beside the usual ones; canonical
	Wait              time.Duration // the longest a duplicate waits before 409
	Policy            policy.Config
}

// Probe asks an upstream whether a write of unknown outcome happened.
type Probe struct {
	Get         string        // path and query of a GET, with {/pointer} into the body and {upstream_key}
	Executed    string        // JSON pointer of what only an answer about a write that happened has
	AbsentAfter time.Duration // from when on, after the dispatch, absence means that it did not happen; 0: never
}

// ToolRead is a call that only reads although its method writes. Of its path
// a segment in {braces} stands for any one segment, * as the last for all below.
type ToolRead struct{ Method, Path string }

// matches says whether a call is this one; path is escaped, as it came. What
// is in doubt is no read: a segment with an escaped slash may be two to the
// upstream, and an empty one none.
func (t ToolRead) matches(method, path string) bool {
	if lower := strings.ToLower(path); method != t.Method || strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") {
		return false
	}
	want, got := strings.Split(t.Path, "/"), strings.Split(path, "/")
	for i, w := range want {
		if w == "*" && i == len(want)-1 {
			return len(got) > i && strings.Join(got[i:], "") != ""
		}
		if i >= len(got) {
			return false
		}
		if open := strings.HasPrefix(w, "{"); open && got[i] == "" || !open && w != got[i] {
			return false
		}
	}
	return len(got) == len(want)
}

// mayUse says whether the principal may call the tool.
func (p principal) mayUse(tool string) bool {
	return p.key == nil || p.key.Tools == nil || fits(p.key.Tools, tool)
}

// fits says whether one of the patterns is the name, or its beginning with a *
// after it.
func fits(patterns []string, name string) bool {
	for _, p := range patterns {
		if prefix, ok := strings.CutSuffix(p, "*"); p == name || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
