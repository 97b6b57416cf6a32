// Package verify plays scenarios against a gateway: requests in turn or at
// once, and what is expected of their answers and of the calls upstream.
// docs/verify.md describes the files for those who write them.
package verify

import (
	"time"

	"oncegate/cmd/oncegate/config"
	"oncegate/providers/mock"
)

// Scenario is one file.
type Scenario struct {
	File    string
	Config  *config.Config // of a gateway in this process; its mock providers are the scripted one
	Script  mock.Script    // of that mock
	MockURL string         // where the mock of another gateway listens; empty: nobody says
	Steps   []Step
	Total   *Expect // of all steps; nil: nothing

	script     []byte // as the file has it
	scriptLine int    // 0: the file has none
	configLine int    // 0: the file has none
	totalLine  int    // of Total
}

// Step is one request, in turn as often as it is repeated, or several at once.
type Step struct {
	Name   string
	Line   int
	Wait   time.Duration // before it
	AtOnce bool
	Asks   []Ask  // one, unless AtOnce
	Expect Expect // of all answers of the step
}

// Ask is a request that a client sends.
type Ask struct {
	Wait    time.Duration // before it; of those at once
	Method  string
	Path    string
	Headers map[string][]string
	Body    string
	Timeout time.Duration // the client leaves after it
	Repeat  int           // how often; at least 1
	Expect  Expect        // of these answers; of those at once
}

// defaultTimeout is how long a client waits that says nothing of it.
const defaultTimeout = time.Minute

// maxRepeat bounds how often a request is repeated.
const maxRepeat = 10_000

// Defaults of a request: a chat.
const (
	defaultPath = "/v1/chat/completions"
	defaultBody = `{"model":"mock","messages":[{"role":"user","content":"hello"}]}`
)

// HasConfig says whether the file has a configuration for its gateway.
func (s *Scenario) HasConfig() bool { return s.configLine > 0 }
