package gateway

import (
	"slices"
	"strings"
	"time"

	"oncegate/cache"
	"oncegate/policy"
)

// maxName bounds, in bytes, a name that clients choose where the ledger keeps it.
const maxName = 256

// named gives a name as the ledger keeps it.
func named(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxName)], "") }

// kept is named without what it is a part of: a body is large.
func kept(s string) string { return strings.Clone(named(s)) }

// book counts a request that is over, in the metrics and the ledger alike.
func (g *Gateway) book(ev *event) {
	if ev.op.name == unknownPath.name { // no operation: models, unknown paths
		return
	}
	line := ev.line()
	g.metrics.request(ev, &line)
	g.opt.Store.Book(line)
	g.remember(ev, &line)
}

// line is what a request comes to in the ledger: itself, and what it saved if
// it was answered by another's success. Its call's attempts and what they cost
// are the record's, see run.lines.
func (ev *event) line() cache.Line {
	provider, _, _ := strings.Cut(ev.target, "/")
	line := cache.Line{
		At: time.Now(),
		Series: cache.Series{
			Model: named(ev.model), Provider: provider, Operation: ev.op.name, User: named(ev.user), Key: ev.principal,
			Tool: ev.tool, Outcome: ev.outcome, Reason: ev.reason,
		},
		Figures: cache.Figures{Requests: 1},
	}
	if ev.tool != "" { // nothing is billed for it, and what did not run twice is counted apart
		line.Provider = ""
		switch ev.outcome {
		case outcomeCoalesced, outcomeReplayed, outcomeInDoubt:
			if ev.repeated {
				line.Prevented = 1
			}
		}
		return line
	}
	if b := ev.bill; b != nil && b.Unpriced {
		line.Unpriced = 1
	}
	if !ev.whole || ev.outcome != outcomeCoalesced && ev.outcome != outcomeReplayed {
		return line
	}
	line.SavedRequests = 1
	if b := ev.bill; b != nil {
		line.SavedInput, line.SavedOutput = b.Input, b.Output
		line.Saved = cache.Picodollars(b.Cost)
	}
	return line
}

// count takes an attempt that is over into the lines of the record.
func (r *run) count(t *target, b policy.Billing) {
	provider := t.up.Provider.Name()
	var line *cache.Line
	for i := range r.booked {
		if r.booked[i].Provider == provider {
			line = &r.booked[i]
		}
	}
	if line == nil {
		r.booked = append(r.booked, cache.Line{Series: cache.Series{
			Model: named(r.c.up.Model), Provider: provider, Operation: r.c.op.name, User: named(r.c.endUser), Key: r.c.who.name,
		}})
		line = &r.booked[len(r.booked)-1]
	}
	switch b {
	case policy.Billed:
		line.Billed++
		if bill := r.bill; bill != nil {
			line.BilledInput += bill.Input
			line.BilledOutput += bill.Output
			line.Spent.Add(cache.Picodollars(bill.Cost))
		}
	case policy.Unbilled:
		line.Unbilled++
	default:
		line.Ambiguous++
	}
}

// lines is what the record comes to in the ledger, now that it ends with this
// answer: all attempts that were made for it, and what was paid.
func (r *run) lines(head *cache.Head) []cache.Line {
	now := time.Now()
	outcome, reason := ledBy(head, r.c.bypassed)
	for i := range r.booked {
		l := &r.booked[i]
		l.At, l.Outcome, l.Reason = now, outcome, reason
	}
	return r.booked
}

// bookLost books the attempts that a process which died had in the air.
func (g *Gateway) bookLost(lost []cache.Attempt) {
	for _, a := range lost {
		provider, model, _ := strings.Cut(a.Target, "/")
		g.metrics.attempt(a.Target, "crash", policy.Ambiguous)
		g.opt.Store.Book(cache.Line{
			At:      time.Now(),
			Series:  cache.Series{Provider: provider, Model: named(model), Outcome: outcomeFailed, Reason: string(policy.Ambiguous)},
			Figures: cache.Figures{Ambiguous: 1},
		})
	}
}

// lapses is what an attempt comes to if this process dies: nobody will know
// more of it. A node with a journal books by that.
func lapses(c *call, t *target) []cache.Line {
	return []cache.Line{{
		At: time.Now(),
		Series: cache.Series{
			Model: named(c.up.Model), Provider: t.up.Provider.Name(), Operation: c.op.name, User: named(c.endUser), Key: c.who.name,
			Outcome: outcomeFailed, Reason: string(policy.Ambiguous),
		},
		Figures: cache.Figures{Ambiguous: 1},
	}}
}

// lapsed is what the attempts that are over come to, should no end be booked.
func (r *run) lapsed() []cache.Line {
	lines := slices.Clone(r.booked)
	for i := range lines {
		lines[i].At, lines[i].Outcome, lines[i].Reason = time.Now(), outcomeFailed, string(policy.Ambiguous)
	}
	return lines
}
