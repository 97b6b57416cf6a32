package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"oncegate/cache"
)

// probes ask the APIs that can tell what became of writes whose outcome is
// unknown, each with backoff, until somebody knows.
type probes struct {
	g     *Gateway
	tools bool // some tool can be asked

	mu     sync.Mutex
	asking map[cache.Key]*asked
	open   map[cache.Key]int // attempts that nobody waits for any more, and that are not over
}

// asked is a record that is asked for.
type asked struct {
	led  cache.Fence // of the claim that this process made; 0: another did, or did before this one
	over time.Time   // when the last attempt of it was that nobody waited for
}

const (
	probeFirst  = time.Second      // the wait after the first time that was in vain; doubled with each one
	probeMost   = time.Minute      // up to this
	probeLook   = 30 * time.Second // how often the store is asked for outcomes that another node left
	probesMost  = 256              // asked for at once; the others wait for a later look
	probesLong  = 128              // of these, those that are asked for until somebody knows; the others make room
	probeListed = 64
)

func newProbes(g *Gateway) *probes {
	p := &probes{g: g, asking: make(map[cache.Key]*asked), open: make(map[cache.Key]int)}
	for _, t := range g.tools {
		p.tools = p.tools || t.Probe != nil
	}
	return p
}

// start looks for what dead processes left, now and then again.
func (p *probes) start() {
	if p.tools {
		go p.look()
	}
}

func (p *probes) look() {
	tick := time.NewTicker(probeLook)
	defer tick.Stop()
	for cursor := ""; ; { // where there was no room for more, it goes on the next time
		for p.room() >= probeListed {
			page, next, err := p.g.opt.Store.Records(context.Background(), cache.Filter{State: cache.Unknown}, cursor, probeListed)
			if err != nil {
				p.g.log.Warn("the unknown outcomes could not be listed", zap.Error(err))
				cursor = ""
				break
			}
			for i := range page {
				p.add(page[i].Key, page[i].About, 0)
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		select {
		case <-tick.C:
		case <-p.g.workers.stop:
			return
		}
	}
}

// room is for how many more there is time.
func (p *probes) room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return probesMost - len(p.asking)
}

// late notes an attempt that is not over when the waiting for it is. over is
// called when it is.
func (p *probes) late(k cache.Key) (over func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[k]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open[k]--; p.open[k] == 0 {
			delete(p.open, k)
		}
		if a := p.asking[k]; a != nil {
			a.over = time.Now()
		}
	}
}

// quiet is for how long, at least, no attempt of a record has been under way
// that its outcome is unknown of: the API may yet do what it does not have so
// far. Those of this process are known; another's last as long as an attempt may.
func (p *probes) quiet(rec *cache.Record, t *tool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	quiet, a := rec.Read.Sub(rec.Settled), p.asking[rec.Key]
	switch {
	case p.open[rec.Key] > 0:
		return 0
	case a == nil || a.led != rec.Fence:
		return min(quiet, rec.Read.Sub(rec.Claimed)-t.Policy.Timeouts.Total)
	case !a.over.IsZero():
		return min(quiet, time.Since(a.over))
	}
	return quiet
}

// add has an outcome asked for, if its tool can be asked. led: see asked.
func (p *probes) add(k cache.Key, about cache.About, led cache.Fence) {
	t := p.g.tools[about.Tool]
	if t == nil || t.Probe == nil || about.Probe == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking[k] != nil || len(p.asking) >= probesMost {
		return
	}
	p.asking[k] = &asked{led: led}
	go p.ask(k, t)
}

func (p *probes) ask(k cache.Key, t *tool) {
	defer func() {
		p.mu.Lock()
		delete(p.asking, k)
		p.mu.Unlock()
	}()
	for wait := probeFirst; ; wait = min(2*wait, probeMost) {
		if p.once(k, t) || p.room() < probesMost-probesLong { // it may never be found
			return
		}
		timer := time.NewTimer(wait/2 + time.Duration(rand.Int64N(int64(wait))))
		select {
		case <-timer.C:
		case <-p.g.workers.stop:
			timer.Stop()
			return
		}
	}
}

// once asks once. It says whether that was the last time.
func (p *probes) once(k cache.Key, t *tool) (over bool) {
	rec, err := p.g.opt.Store.Record(context.Background(), k)
	switch {
	case errors.Is(err, cache.ErrNone):
		return true
	case err != nil:
		return false
	case rec.State != cache.Unknown:
		return true
	case rec.About.Probe == "": // written before there was a probe, or of a body that does not name it
		return true
	}
	state, err := t.find(p.g, &rec, "")
	if err != nil {
		p.g.log.Info("a probe learned nothing", zap.String("tool", t.Name), zap.String("key", keyText(k)), zap.Error(err))
		return errors.Is(err, cache.ErrSettled) || errors.Is(err, cache.ErrNone)
	}
	return state != cache.Unknown
}
