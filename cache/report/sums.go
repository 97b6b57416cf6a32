package report

import "oncegate/cache"

// Sums are a report's figures. Tokens and money are those of whole answers.
type Sums struct {
	Requests int64    `json:"requests"` // the sum of Outcomes
	Outcomes Outcomes `json:"outcomes"`
	Attempts Attempts `json:"attempts"`
	Saved    Saved    `json:"saved"`
	Billed   Billed   `json:"billed"`

	UnpricedRequests         int64 `json:"unpriced_requests"` // whose answer has tokens and no price
	DuplicateWritesPrevented int64 `json:"duplicate_writes_prevented"`
	UnknownWritesOpen        int64 `json:"unknown_writes_open"`
}

// Outcomes are requests by how they were answered.
type Outcomes struct {
	Executed  int64 `json:"executed"`
	Coalesced int64 `json:"coalesced"`
	Replayed  int64 `json:"replayed"`
	Bypassed  int64 `json:"bypassed"`
	Refused   int64 `json:"refused"`
	Failed    int64 `json:"failed"`
	Unknown   int64 `json:"unknown"`
}

// Attempts are calls upstream by what they cost.
type Attempts struct {
	Billed    int64 `json:"billed"`
	Unbilled  int64 `json:"unbilled"`
	Ambiguous int64 `json:"ambiguous"` // sent, and nobody knows
}

// Saved is what was answered without an upstream call of its own.
type Saved struct {
	Requests int64       `json:"requests"`
	Tokens   Tokens      `json:"tokens"`
	USD      cache.Money `json:"usd"`
	By       Shares      `json:"by"` // requests, by why they were shared
}

// Shares are the reasons for which an answer is shared.
type Shares struct {
	RetryMarked int64 `json:"retry_marked"`
	Owed        int64 `json:"owed"`
	Twin        int64 `json:"twin"`
	Key         int64 `json:"key"`
	WithinTTL   int64 `json:"within_ttl"`
}

// Billed is what whole answers cost.
type Billed struct {
	Tokens Tokens      `json:"tokens"`
	USD    cache.Money `json:"usd"`
}

// Tokens of answers. Cached and reasoning tokens are parts of them.
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// outcomes and shares say where the words of the ledger are counted.
var (
	outcomes = map[string]func(*Outcomes) *int64{
		"executed":  func(o *Outcomes) *int64 { return &o.Executed },
		"coalesced": func(o *Outcomes) *int64 { return &o.Coalesced },
		"replayed":  func(o *Outcomes) *int64 { return &o.Replayed },
		"bypassed":  func(o *Outcomes) *int64 { return &o.Bypassed },
		"refused":   func(o *Outcomes) *int64 { return &o.Refused },
		"failed":    func(o *Outcomes) *int64 { return &o.Failed },
		"unknown":   func(o *Outcomes) *int64 { return &o.Unknown },
	}
	shares = map[string]func(*Shares) *int64{
		string(cache.RetryMarked): func(s *Shares) *int64 { return &s.RetryMarked },
		string(cache.ByDebt):      func(s *Shares) *int64 { return &s.Owed },
		string(cache.ByTwin):      func(s *Shares) *int64 { return &s.Twin },
		string(cache.ByKey):       func(s *Shares) *int64 { return &s.Key },
		string(cache.WithinTTL):   func(s *Shares) *int64 { return &s.WithinTTL },
	}
)

// add adds a series' figures.
func (t *Sums) add(s *cache.Series, f *cache.Figures) {
	t.Requests += f.Requests
	if count := outcomes[s.Outcome]; count != nil {
		*count(&t.Outcomes) += f.Requests
	}
	t.Attempts.Billed += f.Billed
	t.Attempts.Unbilled += f.Unbilled
	t.Attempts.Ambiguous += f.Ambiguous
	t.Saved.Requests += f.SavedRequests
	t.Saved.Tokens.Input += f.SavedInput
	t.Saved.Tokens.Output += f.SavedOutput
	t.Saved.USD.Add(f.Saved)
	if count := shares[s.Reason]; count != nil {
		*count(&t.Saved.By) += f.SavedRequests
	}
	t.Billed.Tokens.Input += f.BilledInput
	t.Billed.Tokens.Output += f.BilledOutput
	t.Billed.USD.Add(f.Spent)
	t.UnpricedRequests += f.Unpriced
	t.DuplicateWritesPrevented += f.Prevented
}
