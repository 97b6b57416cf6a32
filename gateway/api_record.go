package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"oncegate/cache"
)

// recordPage is what GET /api/records/{key} answers with: the record, where it
// is one of a write, and in any case who asked for it and what came of it.
type recordPage struct {
	wholeRecord
	Kind     string         `json:"kind"`     // write, completion
	Sentence string         `json:"sentence"` // why this answer, for people to read
	Requests []shownRequest `json:"requests"` // the latest first, at most 200
	Price    *shownPrice    `json:"price"`    // null: nothing is known of it
}

// shownPrice is what the answer cost, with what it was reckoned from.
type shownPrice struct {
	Model  string          `json:"model"`
	Source string          `json:"source"` // upstream, config, table; empty: there is no price, or the record is gone and the log has the sum only
	Rates  json.RawMessage `json:"rates"`  // dollars a million units; null: none are kept
	Tokens priceTokens     `json:"tokens"`
	Cost   *cache.Money    `json:"cost"` // null: unpriced
}

// priceTokens are tokens by kind; null: not kept.
type priceTokens struct {
	Input        int64  `json:"input"`
	Cached       int64  `json:"cached"`
	CacheWrite5m *int64 `json:"cache_write_5m"`
	CacheWrite1h *int64 `json:"cache_write_1h"`
	Output       int64  `json:"output"`
	Reasoning    *int64 `json:"reasoning"`
}

// oneRecord answers GET /api/records/{key}: all there is to know of a record but
// the body of its answer. Of a completion that is what the log of requests has.
func (g *Gateway) oneRecord(w http.ResponseWriter, r *http.Request, name string) {
	key, refused := readKey(name)
	if refused == nil {
		_, refused = readQuery(r)
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	rec, err := g.opt.Store.Record(r.Context(), key)
	if err != nil && !errors.Is(err, cache.ErrNone) {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	callers, logged := g.findRequests(r.Context(), cache.RequestFilter{Find: cache.Find{Record: keyText(key)}}, cache.MostPage)
	if logged != nil && !errors.Is(logged, context.DeadlineExceeded) {
		g.refuse(w, &unknownPath, unread(logged))
		return
	}
	page := recordPage{Requests: showRequests(callers, true), Kind: "write"}
	switch {
	case err == nil && recordStates[rec.State] != "":
		page.wholeRecord = showWhole(&rec)
		page.Sentence = writeSentence(&rec, callers)
	case len(callers) > 0:
		page.wholeRecord = fromLog(key, callers)
		if callers[0].Tool == "" {
			page.Kind, page.Price = "completion", g.priceOf(r.Context(), key, callers)
			page.Sentence = completionSentence(callers)
		} else {
			page.Sentence = "What is known of this write is forgotten; the log still has who asked for it."
		}
	default:
		g.refuse(w, &unknownPath, noRecord)
		return
	}
	writeFresh(w, page)
}

// leaderOf is the latest request that led the record; nil: the log has none.
func leaderOf(callers []cache.Request) (r *cache.Request, fence cache.Fence) {
	for i := range callers {
		for _, m := range callers[i].Timeline {
			if m.What == cache.WasClaimed {
				return &callers[i], m.Fence
			}
		}
	}
	return nil, 0
}

// fromLog is what the log has of a record.
func fromLog(key cache.Key, callers []cache.Request) wholeRecord {
	last := &callers[0]
	out := wholeRecord{Events: []shownStep{}}
	out.Key, out.Tool, out.Principal, out.User, out.Status = keyText(key), last.Tool, last.Key, last.User, last.Status
	led, fence := leaderOf(callers)
	if led == nil {
		return out
	}
	arrived := led.At.Add(-led.Took)
	out.Fence, out.Claimed, out.Status = fence, shownTime(arrived), led.Status
	for _, m := range led.Timeline {
		if m.What == cache.WasStored {
			out.State, out.Settled = m.Result, shownTime(arrived.Add(m.At))
		}
	}
	return out
}

// readBillFor is how long the record is waited for. One that is settled is
// there at once.
const readBillFor = 200 * time.Millisecond

// priceOf is what a completion cost: as its record has it, or, once that is
// gone, as the log does.
func (g *Gateway) priceOf(ctx context.Context, key cache.Key, callers []cache.Request) *shownPrice {
	if _, fence := leaderOf(callers); fence > 0 {
		ctx, cancel := context.WithTimeout(ctx, readBillFor)
		defer cancel()
		frames, result, err := g.opt.Store.Read(ctx, cache.Hold{Key: key, Fence: fence}, 0)
		if err == nil && result != nil {
			for i := len(frames) - 1; i >= 0; i-- {
				if b := frames[i].Bill; b != nil && b.Known {
					return showBill(b)
				}
			}
		}
	}
	for i := range callers {
		c := &callers[i]
		if !c.Tokens.Known {
			continue
		}
		p := &shownPrice{Model: c.Model, Tokens: priceTokens{Input: c.Tokens.Input, Cached: c.Tokens.Cached, Output: c.Tokens.Output}}
		if c.Billed.Known {
			p.Cost = &c.Billed.Money
		} else if c.Saved.Known {
			p.Cost = &c.Saved.Money
		}
		return p
	}
	return nil
}

func showBill(b *cache.Bill) *shownPrice {
	p := &shownPrice{Model: b.Model, Source: b.Source, Tokens: priceTokens{
		Input: b.Input, Cached: b.Cached, CacheWrite5m: &b.CacheWrite5m, CacheWrite1h: &b.CacheWrite1h, Output: b.Output, Reasoning: &b.Reasoning,
	}}
	if b.Rates != "" {
		p.Rates = json.RawMessage(b.Rates)
	}
	if b.Priced {
		cost := cache.Picodollars(b.Cost)
		p.Cost = &cost
	}
	return p
}

// shared counts the callers that got another's answer, by why.
func sharedBy(callers []cache.Request) (n int, why []string) {
	seen := map[string]bool{}
	for i := range callers {
		if o := callers[i].Outcome; o != outcomeCoalesced && o != outcomeReplayed {
			continue
		}
		n++
		if words := sharedWords[cache.Share(callers[i].Reason)]; words != "" && !seen[words] {
			seen[words] = true
			why = append(why, words)
		}
	}
	return n, why
}

var sharedWords = map[cache.Share]string{
	cache.ByKey:       "they came with the same Idempotency-Key",
	cache.RetryMarked: "they said that they were retries",
	cache.ByDebt:      "the answer was owed: its client had lost the connection",
	cache.ByTwin:      "the same call was still running",
	cache.WithinTTL:   "the answer was still kept",
}

// completionSentence says why there is this answer.
func completionSentence(callers []cache.Request) string {
	var b strings.Builder
	led, _ := leaderOf(callers)
	switch {
	case led == nil:
		b.WriteString("The log does not go back to the call that this answer is from.")
	case led.Outcome == outcomeFailed:
		fmt.Fprintf(&b, "The call failed after %s (%s).", times(led.Attempts, "attempt"), led.Reason)
	case led.Attempts > 1:
		fmt.Fprintf(&b, "%s answered with %d at attempt %d.", led.Target, led.Status, led.Attempts)
	default:
		fmt.Fprintf(&b, "%s was called once and answered with %d.", led.Target, led.Status)
	}
	if n, why := sharedBy(callers); n > 0 {
		fmt.Fprintf(&b, " %s got the same answer without a call of their own: %s.", times(n, "request"), strings.Join(why, "; "))
	}
	return b.String()
}

// writeSentence says what became of a write.
func writeSentence(rec *cache.Record, callers []cache.Request) string {
	var b strings.Builder
	runs := dispatches(rec.Trail)
	switch rec.State {
	case cache.Claimed:
		b.WriteString("It is claimed, and nothing was sent yet.")
	case cache.Dispatched:
		b.WriteString("It was sent, and its answer is awaited.")
	case cache.Unknown:
		b.WriteString("It was sent, and nobody knows whether it happened. It is not run again by itself: say what became of it.")
	case cache.Tombstone:
		fmt.Fprintf(&b, "It ran%s; its answer is no longer kept.", once(runs))
	default:
		fmt.Fprintf(&b, "It ran%s and was answered with %d.", once(runs), rec.Status)
	}
	for i := range rec.Trail {
		if s := &rec.Trail[i]; s.What == cache.StepResolved {
			fmt.Fprintf(&b, " That was settled by %s: %s.", s.Actor, strings.TrimSuffix(s.Reason, "."))
			break
		}
	}
	prevented := 0
	for i := range callers {
		switch callers[i].Outcome {
		case outcomeCoalesced, outcomeReplayed:
			prevented++
		}
	}
	if prevented > 0 {
		fmt.Fprintf(&b, " %s asked for it again and got this answer.", times(prevented, "request"))
	}
	return b.String()
}

func once(runs int) string {
	if runs == 1 {
		return " once"
	}
	return ""
}

func times(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
