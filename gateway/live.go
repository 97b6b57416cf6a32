package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
	"oncegate/cache/report"
)

// live is what pages that are open watch: the summary of the last 24 hours and
// the latest request. Pages come and look, and share what one of them has made;
// so one that reads slowly holds nothing back, and while nobody looks it costs
// a count.
type live struct {
	g       *Gateway
	kept    atomic.Int64 // requests that came into the log
	viewers atomic.Int32

	mu      sync.Mutex
	summary liveSummary
	latest  liveRequest
}

// liveSummary is the summary as it was last made.
type liveSummary struct {
	text     []byte
	made     time.Time
	tried    time.Time
	cost     time.Duration // that making it took
	kept     int64         // see live; when it was made
	draining bool
}

// liveRequest is the latest request as it was last looked up.
type liveRequest struct {
	cache.Request
	kept   int64
	looked time.Time
}

const (
	// summaryAtMost and summaryShare bound how often a summary is made: once a
	// second, and so that it takes a fiftieth of one core.
	summaryAtMost = time.Second
	summaryShare  = 50
	// summaryAtLeast is how often it is made though nothing came here: something
	// may have to another node, or was decided, and its 24 hours go on.
	summaryAtLeast = 5 * time.Second
	// The latest request is looked up lookAtMost often, and lookAtLeast though
	// nothing came here: it may have to another node.
	lookAtMost  = eventsEvery / 2
	lookAtLeast = time.Second
)

// current is the summary. It is made anew if something came since, and that is
// not too soon.
func (l *live) current(ctx context.Context, now time.Time) (text []byte, made time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.summary
	old, kept, draining := now.Sub(s.tried), l.kept.Load(), l.g.unready.Load()
	changed := s.kept != kept || s.draining != draining || old >= summaryAtLeast
	if !changed || old < max(summaryAtMost, summaryShare*s.cost) {
		return s.text, s.made
	}
	made = time.Now()
	sum, err := l.g.summaryOf(ctx, report.Query{Since: made.Add(-24 * time.Hour), Until: made, Zone: l.g.opt.Zone, Ledger: l.g.opt.Zone}, made)
	if err != nil {
		l.g.log.Debug("the summary for open pages can't be made", zap.Error(err))
		s.tried = made // what was made stands
		return s.text, s.made
	}
	b, err := json.Marshal(sum)
	if err != nil {
		panic(err)
	}
	*s = liveSummary{text: b, made: made, tried: made, cost: time.Since(made), kept: kept, draining: draining}
	return s.text, s.made
}

// last is the latest request, and how many this node's log had by then.
func (l *live) last(ctx context.Context, now time.Time) (cache.Request, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &l.latest
	if kept, old := l.kept.Load(), now.Sub(n.looked); n.kept != kept && old >= lookAtMost || old >= lookAtLeast {
		page, _, err := l.g.opt.Store.Requests(ctx, cache.RequestFilter{}, "", 1)
		if n.looked = now; err == nil && len(page) == 1 {
			n.Request, n.kept = page[0], kept
		}
	}
	return n.Request, n.kept
}
