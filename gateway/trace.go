package gateway

import (
	"sync"
	"time"

	"oncegate/cache"
	"oncegate/policy"
)

// trace is what became of a call while it runs, for the log of requests: the
// timeline of the request that leads it. That is logged when both are over, the
// request and its record, for a record is often settled after its client has
// all.
type trace struct {
	arrived time.Time // what moments are counted from

	mu       sync.Mutex
	moments  []cache.Moment
	upstream time.Duration // in attempts
	overhead time.Duration // before the first
	asked    time.Duration // when the last attempt was over
	settled  bool
	waits    *cache.Request // for the record to be settled

	room [3]cache.Moment // of a call that goes well
}

// joined notes what a claim came to. It begins the trace of one that leads.
func joined(c *call, entry *cache.Entry, ev *event) *trace {
	ev.trace = nil
	if entry.Role != cache.Lead {
		ev.joined = time.Since(c.arrived)
		return nil
	}
	t := &trace{arrived: c.arrived}
	ev.trace = t
	t.moments = t.room[:0]
	if !entry.Private() {
		t.moments = append(t.moments, cache.Moment{At: time.Since(c.arrived), What: cache.WasClaimed, Fence: entry.Fence})
	}
	return t
}

func (t *trace) add(m cache.Moment) {
	if len(t.moments) < cache.MostMoments {
		t.moments = append(t.moments, m)
	}
}

// tried notes an attempt that began then and took so long.
func (t *trace) tried(begun time.Time, took time.Duration, target string, status int, result string) {
	at := begun.Sub(t.arrived)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.upstream == 0 {
		t.overhead = at
	}
	t.upstream += took
	t.asked = at + took
	t.add(cache.Moment{At: at, What: cache.WasTried, Target: target, Status: status, Result: result, For: took})
}

// heldBack notes the wait that a retry ends.
func (t *trace) heldBack(ev policy.Event) {
	if ev.Kind != policy.Retried || ev.Of == 0 {
		return
	}
	now := time.Since(t.arrived)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(cache.Moment{At: t.asked, What: cache.WasHeldBack, For: now - t.asked, Of: ev.Of})
}

// settle notes how the record ended; empty: it has none that others could know
// of. Only the first time counts. It gives the request that waits for it.
func (t *trace) settle(as string) *cache.Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled {
		return nil
	}
	t.settled = true
	if as != "" {
		t.add(cache.Moment{At: time.Since(t.arrived), What: cache.WasStored, Result: as})
	}
	r := t.waits
	if t.waits = nil; r != nil {
		t.fill(r)
	}
	return r
}

// fill puts into a request what is known by now.
func (t *trace) fill(r *cache.Request) {
	r.Upstream, r.Overhead = t.upstream, t.overhead
	var own [1]cache.Moment // that it was answered
	n := copy(own[:], r.Timeline)
	r.Timeline = append(append(r.Timeline[:0], t.moments...), own[:n]...)
	for i := len(r.Timeline) - 1; i > 0 && r.Timeline[i].At < r.Timeline[i-1].At; i-- {
		r.Timeline[i], r.Timeline[i-1] = r.Timeline[i-1], r.Timeline[i]
	}
}

// over says that the request is over, and whether it is to be logged now. ended:
// its record's answer is over too, and what is left of that is its settlement.
func (t *trace) over(r *cache.Request, ended bool) (now bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ended && !t.settled {
		t.waits = r
		return false
	}
	t.fill(r)
	return true
}

// settled is the end of the record of a call.
func (g *Gateway) settled(t *trace, as string) {
	if r := t.settle(as); r != nil {
		g.keep(r)
	}
}

// ending is how a record ended, in the words of the log of requests.
func ending(entry *cache.Entry, res cache.Result, err error) string {
	switch {
	case entry.Private():
		return ""
	case err != nil:
		return "not recorded"
	}
	switch res.State {
	case cache.Completed:
		return "completed"
	case cache.Failed:
		return "failed"
	case cache.Unknown:
		return "unknown"
	}
	return "released"
}

var requests = sync.Pool{New: func() any { return new(cache.Request) }}

// keep logs a request. It must not be used any more.
func (g *Gateway) keep(r *cache.Request) {
	g.opt.Store.Log(r)
	g.live.kept.Add(1)
	*r = cache.Request{Timeline: r.Timeline[:0]}
	requests.Put(r)
}

// remember has a request logged, of which the ledger has this line.
func (g *Gateway) remember(ev *event, line *cache.Line) {
	if ev.id == "" { // its client left before it was told
		ev.id = newRequestID()
	}
	r := requests.Get().(*cache.Request)
	r.At, r.ID, r.Series, r.Record, r.Target = line.At, ev.id, line.Series, ev.key, ev.target
	r.Status, r.Left, r.Attempts, r.Took = ev.status, ev.left, ev.attempts, line.At.Sub(ev.start)
	shared := ev.outcome == outcomeCoalesced || ev.outcome == outcomeReplayed
	if b := ev.bill; b != nil {
		r.Tokens = cache.Tokens{Known: b.Known, Input: b.Input, Output: b.Output, Cached: b.Cached}
		cost := cache.Amount{Money: cache.Picodollars(b.Cost), Known: b.Priced}
		switch {
		case !cost.Known:
		case !shared:
			r.Billed = cost
		case ev.whole:
			r.Saved = cost
		}
	}
	if shared {
		r.Timeline = append(r.Timeline, cache.Moment{At: ev.joined, What: cache.WasShared, Result: ev.reason})
	}
	if !ev.left {
		r.Timeline = append(r.Timeline, cache.Moment{At: r.Took, What: cache.WasAnswered, Status: ev.status})
	}
	if ev.trace == nil || ev.trace.over(r, ev.ended) {
		g.keep(r)
	}
}
