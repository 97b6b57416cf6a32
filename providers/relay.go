package providers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"oncegate/policy"
)

// Kind says what an upstream speaks.
type Kind string

const (
	KindOpenAI    Kind = "openai"    // OpenAI's API, and anything compatible
	KindAnthropic Kind = "anthropic" // Anthropic's API
	KindMock      Kind = "mock"      // both, on one base URL
)

// StreamUsage says whether streams are asked for their usage (DESIGN.md 5).
type StreamUsage string

const (
	AskUsage   StreamUsage = "ask"
	LeaveUsage StreamUsage = "leave"
)

// DefaultMaxJudged is the size up to which an answer that is no stream is
// read whole before any of it is given out.
const DefaultMaxJudged = 8 << 20

// Options describe one upstream.
type Options struct {
	Name        string          // as the config names it
	Kind        Kind            // "" is openai
	BaseURL     string          // http or https; without a path it gets /v1
	APIKeys     []string        // none: no credential is sent
	StreamUsage StreamUsage     // "" is ask
	Timeouts    policy.Timeouts // zero fields have the policy's defaults; Total is not used here
	MaxJudged   int64           // bytes; 0 is DefaultMaxJudged
}

// Relay is a Provider that forwards calls as they are: raw bytes both ways.
// It is safe for use by many goroutines.
type Relay struct {
	endpoint
	kind      Kind
	bearer    [][]string // Authorization's values, one credential each
	apiKey    [][]string // x-api-key's values, one credential each
	askUsage  bool
	maxJudged int64
}

var _ Provider = (*Relay)(nil)

// New makes a relay to an upstream. It dials nothing. All faults of the
// options are told at once; none of them shows a key.
func New(o Options) (*Relay, error) {
	if o.Kind == "" {
		o.Kind = KindOpenAI
	}
	if o.MaxJudged <= 0 {
		o.MaxJudged = DefaultMaxJudged
	}
	var faults []error
	if !slices.Contains([]Kind{KindOpenAI, KindAnthropic, KindMock}, o.Kind) {
		faults = append(faults, fmt.Errorf("kind: %q is not known here, use openai, anthropic or mock", o.Kind))
	}
	if !slices.Contains([]StreamUsage{"", AskUsage, LeaveUsage}, o.StreamUsage) {
		faults = append(faults, fmt.Errorf("stream_usage: %q is neither ask nor leave", o.StreamUsage))
	}
	b, err := parseBase(o.BaseURL, "/v1")
	if err != nil {
		faults = append(faults, fmt.Errorf("base_url: %w", err))
	}
	for i, key := range o.APIKeys {
		if !fitsHeader(key) {
			faults = append(faults, fmt.Errorf("api_keys[%d]: is empty, has a space at its end, or holds a line break or another character that no header may carry", i))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}

	r := &Relay{
		kind:      o.Kind,
		askUsage:  o.StreamUsage != LeaveUsage,
		maxJudged: o.MaxJudged,
	}
	for _, key := range o.APIKeys {
		r.bearer = append(r.bearer, []string{"Bearer " + key})
		r.apiKey = append(r.apiKey, []string{key})
	}
	r.open(o.Name, b, append(b.secrets(), o.APIKeys...), o.Timeouts, idleFor)
	return r, nil
}

// Serves says whether this kind of upstream speaks w. The passthrough goes
// to any.
func (r *Relay) Serves(w Wire) bool {
	native := w == Messages || w == CountTokens
	switch r.kind {
	case KindOpenAI:
		return !native
	case KindAnthropic:
		return native || w == Raw
	default:
		return true
	}
}

// fitsHeader reports whether a key can be sent as it is: no control character,
// no space at its ends.
func fitsHeader(key string) bool {
	for i := range len(key) {
		if key[i] < ' ' && key[i] != '\t' || key[i] == 0x7f {
			return false
		}
	}
	return key != "" && strings.TrimSpace(key) == key
}
