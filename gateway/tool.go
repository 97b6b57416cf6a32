package gateway

import (
	"net/http"
	"slices"
	"strings"

	"oncegate/policy"
)

// tool is one configured HTTP API, with what is known of how it does.
type tool struct {
	*Tool
	state *policy.Target
}

// toolCalls is the operation that all calls of tools are.
var toolCalls = operation{name: "tools", surface: problemJSON, noModel: true}

func newTools(configured []Tool) map[string]*tool {
	tools := make(map[string]*tool, len(configured))
	for i := range configured {
		t := &configured[i]
		tools[t.Name] = &tool{Tool: t, state: &policy.Target{
			Name: t.Name, Config: t.Policy, Credentials: []*policy.Credential{new(policy.Credential)},
		}}
	}
	return tools
}

// toolPath gives the tool's name and the path at its API, escaped as it came.
func toolPath(escaped string) (name, path string) {
	name, path, found := strings.Cut(strings.TrimPrefix(escaped, "/tools/"), "/")
	if found {
		path = "/" + path
	}
	return name, path
}

// reads says whether a call has no effect: it may be tried again, and is
// neither kept nor shared.
func (t *tool) reads(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return slices.ContainsFunc(t.Reads, func(r ToolRead) bool { return r.matches(method, path) })
}

// replayedHeaders are those of a tool's answer that whoever asks again gets.
var replayedHeaders = []string{
	"Content-Type", "Content-Language", "Content-Disposition", "Location", "Etag", "Last-Modified", "Link", "Vary", "Cache-Control",
}

// split parts the headers of an answer into those for every reader of the
// record, and those for the leader's own client.
func (t *tool) split(h http.Header) (shared, own map[string][]string) {
	shared, own = make(map[string][]string, 4), make(map[string][]string, len(h))
	for name, values := range h {
		switch {
		case slices.Contains(replayedHeaders, name), slices.Contains(t.ReplayHeaders, name):
			shared[name] = values
		case toolOwned(name), name == "Content-Length": // that of a HEAD
			own[name] = values
		}
	}
	return shared, own
}

// toolOwned says that a header of a tool's answer is for its caller; the
// others are ours to say.
func toolOwned(name string) bool {
	switch name {
	case "Retry-After", "Retry-After-Ms", "X-Should-Retry", "Www-Authenticate":
		return true
	}
	return !ownedHeader(name)
}
