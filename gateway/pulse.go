package gateway

import (
	"math"
	"math/bits"
	"strings"
	"sync"
	"time"
)

// pulse is how this node did, minute by minute, in memory: what the dashboard
// draws of times and of attempts, fed where the metrics are. Minutes in which
// nothing happened take no room; those that are over keep their histograms
// without what is empty in them.
type pulse struct {
	mu   sync.Mutex
	now  pulseMinute // the one that is under way
	ring [pulseMinutes]*pulsePast
}

// pulseMinutes is how far back it goes: 48 hours.
const pulseMinutes = 48 * 60

// pulseClass is how an attempt came out, as far as a chart tells it apart.
type pulseClass uint8

const (
	pulseOK pulseClass = iota
	pulse429
	pulse5xx
	pulseTimeout
	pulseUnreachable
	pulseOther
	pulseClasses
)

// classOf is the class of an attempt by the word that metrics have for it.
func classOf(result string) pulseClass {
	switch result {
	case "ok":
		return pulseOK
	case "429":
		return pulse429
	case "timeout":
		return pulseTimeout
	case "unreachable":
		return pulseUnreachable
	}
	if len(result) == 3 && strings.HasPrefix(result, "5") {
		return pulse5xx
	}
	return pulseOther
}

// pulseCounts are the counts of a time.
type pulseCounts struct {
	attempts [pulseClasses]int64
	retries  int64
}

func (c *pulseCounts) add(o *pulseCounts) {
	for i, n := range o.attempts {
		c.attempts[i] += n
	}
	c.retries += o.retries
}

// pulseMinute is a minute that is counted into.
type pulseMinute struct {
	minute             int64 // since 1970
	used               bool
	overhead, upstream histogram
	pulseCounts
}

// pulsePast is one that is over.
type pulsePast struct {
	minute             int64
	overhead, upstream []bucketCount
	pulseCounts
}

// at makes the minute of t the one that is under way. A clock that was set back
// counts on where it was.
func (p *pulse) at(t time.Time) *pulseMinute {
	minute := t.Unix() / 60
	if minute > p.now.minute {
		p.turn()
		p.now.minute = minute
	}
	p.now.used = true
	return &p.now
}

// turn puts the minute under way to those that are over.
func (p *pulse) turn() {
	if p.now.used {
		p.ring[p.now.minute%pulseMinutes] = &pulsePast{
			minute: p.now.minute, overhead: p.now.overhead.counts(), upstream: p.now.upstream.counts(), pulseCounts: p.now.pulseCounts,
		}
	}
	p.now = pulseMinute{}
}

// began counts what a request took from its arrival to its call's first attempt.
func (p *pulse) began(now time.Time, overhead time.Duration) {
	p.mu.Lock()
	p.at(now).overhead.observe(overhead)
	p.mu.Unlock()
}

// attempt counts one that is over.
func (p *pulse) attempt(now time.Time, took time.Duration, result string) {
	class := classOf(result)
	p.mu.Lock()
	m := p.at(now)
	m.upstream.observe(took)
	m.attempts[class]++
	p.mu.Unlock()
}

func (p *pulse) retried(now time.Time) {
	p.mu.Lock()
	p.at(now).retries++
	p.mu.Unlock()
}

// each calls f with all minutes in [from, until), in any order. What f is given
// must not be changed.
func (p *pulse) each(from, until time.Time, f func(*pulsePast)) {
	first, last := from.Unix()/60, (until.Unix()+59)/60
	p.mu.Lock()
	kept := make([]*pulsePast, 0, 64)
	for _, m := range p.ring {
		if m != nil && m.minute >= first && m.minute < last && m.minute > p.now.minute-pulseMinutes {
			kept = append(kept, m)
		}
	}
	if p.now.used && p.now.minute >= first && p.now.minute < last {
		kept = append(kept, &pulsePast{
			minute: p.now.minute, overhead: p.now.overhead.counts(), upstream: p.now.upstream.counts(), pulseCounts: p.now.pulseCounts,
		})
	}
	p.mu.Unlock()
	for _, m := range kept {
		f(m)
	}
}

// histogram counts durations in buckets that are an eighth of their octave
// wide: a quantile is off by a sixteenth at most.
type histogram [histogramBuckets]uint32

const (
	histogramLeast   = 10 // 2^10 ns: about a microsecond; what is less is as much
	histogramOctaves = 32 // up to an hour
	histogramBuckets = 8 * histogramOctaves
)

// bucketCount is a bucket that is not empty.
type bucketCount struct {
	bucket uint8
	n      uint32
}

func (h *histogram) observe(d time.Duration) { h[bucketOf(d)]++ }

func bucketOf(d time.Duration) int {
	n := uint64(max(d, 1<<histogramLeast))
	octave := bits.Len64(n) - 1
	return min(8*(octave-histogramLeast)+int(n>>(octave-3)&7), histogramBuckets-1)
}

// middle is the middle of a bucket.
func middle(bucket int) time.Duration {
	octave := bucket/8 + histogramLeast
	width := math.Exp2(float64(octave - 3))
	return time.Duration((float64(8+bucket%8) + .5) * width)
}

func (h *histogram) counts() []bucketCount {
	var list []bucketCount
	for i, n := range h {
		if n > 0 {
			list = append(list, bucketCount{uint8(i), n})
		}
	}
	return list
}

func (h *histogram) add(list []bucketCount) {
	for _, b := range list {
		h[b.bucket] += b.n
	}
}

// quantile is the duration that a part q of all are not longer than. false:
// there are none.
func (h *histogram) quantile(q float64) (time.Duration, bool) {
	var all, seen uint64
	for _, n := range h {
		all += uint64(n)
	}
	rank := max(1, uint64(math.Ceil(q*float64(all))))
	for i, n := range h {
		if seen += uint64(n); n > 0 && seen >= rank {
			return middle(i), true
		}
	}
	return 0, false
}
