package gateway

import (
	"context"
	"time"

	"oncegate/cache"
	"oncegate/policy"
)

// claimTool finds out what a call of a tool is, or refuses it. A read leads a
// record that nobody else can join; a write is never run without the store.
func (g *Gateway) claimTool(ctx context.Context, c *call, ev *event) (*cache.Entry, *refusal) {
	w := c.tool.write
	if w == nil {
		return g.private(c), nil
	}
	entry, err := g.records.Open(ctx, cache.Claim{
		Key: c.key, Fingerprint: c.fingerprint, Explicit: true, Write: w, Lapses: c.tool.lapses(c),
	}, c.until)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, clientGone
	case err != nil:
		return nil, writesRefused
	}
	ev.key = c.key
	if entry.Lapsed {
		g.metrics.attempt(c.tool.Name, "crash", policy.Ambiguous)
	}
	switch entry.Role {
	case cache.Mismatch:
		return nil, keyReused
	case cache.Twin: // its answer grew too large to be shared
		return nil, inFlight
	case cache.Aged:
		return nil, keyExpired
	case cache.Gone:
		return nil, resultGone(c.key, entry.Result)
	case cache.InDoubt:
		ev.repeated = true
		status := 0
		if entry.Result != nil {
			status = entry.Result.Status
		}
		g.probes.add(c.key, w.About, 0) // another node may have left it so
		return nil, outcomeUnknown(c.key, status)
	case cache.Replay:
		if frames := entry.Result.Frames; len(frames) > 0 && frames[len(frames)-1].Kind == cache.ErrorFrame {
			entry.Reader.Leave()
			p := *responseLost(c.key, entry.Result.Status)
			p.outcome = outcomeReplayed
			ev.repeated = true
			return nil, &p
		}
	}
	ev.repeated = entry.Role != cache.Lead
	ev.share = entry.Share
	return entry, nil
}

// lapses is what a write comes to in the ledger if nobody tells more of it.
func (t *toolCall) lapses(c *call) []cache.Line {
	return []cache.Line{{
		At: time.Now(), Series: t.series(c, outcomeInDoubt, string(policy.OutcomeUnknown)), Figures: cache.Figures{Ambiguous: 1},
	}}
}

// series is what the lines of a call of the tool are about.
func (t *toolCall) series(c *call, outcome, reason string) cache.Series {
	return cache.Series{Operation: toolCalls.name, User: named(c.endUser), Key: c.who.name, Tool: t.Name, Outcome: outcome, Reason: reason}
}
