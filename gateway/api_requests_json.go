package gateway

import (
	"time"

	"oncegate/cache"
)

// shownRequest is a request that is over, as the admin listener shows it. Times
// are milliseconds.
type shownRequest struct {
	At        time.Time     `json:"at"`    // when it was over
	Place     string        `json:"place"` // in the log: no other has it, whereas an upstream's id is that of all that share its answer
	ID        string        `json:"id"`
	Outcome   string        `json:"outcome"`
	Reason    string        `json:"reason"`
	Operation string        `json:"operation"`
	Model     string        `json:"model"`
	Provider  string        `json:"provider"`
	Tool      string        `json:"tool"`
	User      string        `json:"user"`
	Key       string        `json:"key"`    // name of the client's gateway key
	Record    string        `json:"record"` // empty: it is about none
	Status    int           `json:"status"` // 499: the client left first
	Attempts  int           `json:"attempts"`
	Took      float64       `json:"took_ms"`
	Upstream  float64       `json:"upstream_ms"` // in attempts of its own
	Overhead  float64       `json:"overhead_ms"` // before the first of them
	Tokens    *shownTokens  `json:"tokens"`      // null: the answer did not say
	Billed    *cache.Money  `json:"billed"`      // that its own call cost; null: not known, or it made none
	Saved     *cache.Money  `json:"saved"`       // that the answer which it shared had cost
	Target    string        `json:"target"`
	Left      bool          `json:"left"` // the client left before it had all
	Timeline  []shownMoment `json:"timeline,omitzero"`
}

type shownTokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Cached int64 `json:"cached"` // of input: from the provider's own prompt cache
}

// shownMoment is an entry of a timeline. What does not apply is left out.
type shownMoment struct {
	At     float64     `json:"at_ms"` // from the request's arrival
	What   string      `json:"what"`  // claimed, shared, attempt, wait, answered, stored
	Target string      `json:"target,omitempty"`
	Status int         `json:"status,omitempty"`
	Result string      `json:"result,omitempty"` // of an attempt; why it was shared; as what it was stored
	For    float64     `json:"ms,omitempty"`
	Of     float64     `json:"of_ms,omitempty"` // wait: the upper bound that ms was drawn below
	Fence  cache.Fence `json:"fence,omitempty"`
}

func showRequest(r *cache.Request, timeline bool) shownRequest {
	out := shownRequest{
		At: r.At.UTC(), Place: r.Place, ID: r.ID, Outcome: r.Outcome, Reason: r.Reason, Operation: r.Operation, Model: r.Model, Provider: r.Provider, Tool: r.Tool,
		User: r.User, Key: r.Key, Status: r.Status, Attempts: r.Attempts,
		Took: milliseconds(r.Took), Upstream: milliseconds(r.Upstream), Overhead: milliseconds(r.Overhead), Target: r.Target, Left: r.Left,
	}
	if r.Record != (cache.Key{}) {
		out.Record = keyText(r.Record)
	}
	if r.Tokens.Known {
		out.Tokens = &shownTokens{r.Tokens.Input, r.Tokens.Output, r.Tokens.Cached}
	}
	if r.Billed.Known {
		out.Billed = &r.Billed.Money
	}
	if r.Saved.Known {
		out.Saved = &r.Saved.Money
	}
	if timeline {
		out.Timeline = make([]shownMoment, len(r.Timeline))
		for i := range r.Timeline {
			m := &r.Timeline[i]
			out.Timeline[i] = shownMoment{
				At: milliseconds(m.At), What: m.What.String(), Target: m.Target, Status: m.Status, Result: m.Result,
				For: milliseconds(m.For), Of: milliseconds(m.Of), Fence: m.Fence,
			}
		}
	}
	return out
}

func showRequests(list []cache.Request, timeline bool) []shownRequest {
	out := make([]shownRequest, len(list))
	for i := range list {
		out[i] = showRequest(&list[i], timeline)
	}
	return out
}
