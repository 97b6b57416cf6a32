package policy

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	paceMost  = 10 * time.Second // the longest that a hint makes a call wait
	paceReset = 9 * time.Second  // the longest until a reset: with its spread no more than that
	paceFresh = time.Minute      // how long a hint counts
)

// RateLimit is what an upstream said of one of its limits, with an answer.
type RateLimit struct {
	Name      string        // requests, tokens, input-tokens, output-tokens; empty where it names none
	Limit     int64         // -1: it did not say
	Remaining int64         // of Limit
	Reset     time.Duration // until it is whole again, from when it was said; 0: it did not say
}

// rateHeaders are where it says so: as OpenAI, Azure, Groq and most others do,
// and as Anthropic does. Azure spells one of them differently.
var rateHeaders = [...]struct{ name, limit, remaining, reset, also string }{
	{"requests", "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests", "X-Rate-Limit-Reset-Requests"},
	{"tokens", "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens", "X-Rate-Limit-Reset-Tokens"},
	{"", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", ""},
	{"requests", "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset", ""},
	{"tokens", "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset", ""},
	{"input-tokens", "Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset", ""},
	{"output-tokens", "Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset", ""},
}

// rateLimits reads them into found, and says how many there are. Keys of h are
// in http.Header's canonical form. What can't be read was not said: Azure has
// been seen to send -1.
func rateLimits(h map[string][]string, now time.Time, found *[len(rateHeaders)]RateLimit) (n int) {
	base := now
	for _, names := range rateHeaders {
		remaining, ok := count(h[names.remaining])
		if !ok {
			continue
		}
		if n == 0 { // dates are by the upstream's own clock
			if d, ok := longest(h["Date"], httpDate); ok && d.Sub(now).Abs() <= 24*time.Hour {
				base = d
			}
		}
		l := RateLimit{Name: names.name, Limit: -1, Remaining: remaining}
		if limit, ok := count(h[names.limit]); ok {
			l.Limit = limit
		}
		lines := h[names.reset]
		if len(lines) == 0 {
			lines = h[names.also]
		}
		l.Reset, _ = longestWait(lines, func(s string) (time.Duration, bool) { return reset(s, base) })
		found[n] = l
		n++
	}
	return n
}

func count(lines []string) (int64, bool) {
	if len(lines) != 1 {
		return 0, false
	}
	v, ok := number(strings.Trim(lines[0], " \t"))
	return int64(min(v, 1e15)), ok
}

// pace keeps what an upstream last said of its limits, to one credential on
// one target, and makes calls wait a little where going on would only earn a
// 429. The zero value lets all go.
type pace struct {
	tight atomic.Bool // false: nobody need wait, or lock

	mu      sync.Mutex
	limits  [len(rateHeaders)]RateLimit
	n       int
	seen    time.Time
	until   time.Time     // something is used up: nobody before
	spacing *rate.Limiter // requests are about to be; nil: they are not
}

// Observe takes over what the headers of an answer say of rate limits. An
// answer that says nothing changes nothing. Keys of h are in http.Header's
// canonical form.
func (t *Target) Observe(credential int, h map[string][]string, now time.Time) {
	var found [len(rateHeaders)]RateLimit
	n := rateLimits(h, now, &found)
	if n == 0 {
		return
	}
	paces := t.paces.Load()
	for paces == nil {
		fresh := make([]pace, len(t.Credentials))
		t.paces.CompareAndSwap(nil, &fresh)
		paces = t.paces.Load()
	}
	(*paces)[credential].observe(found, n, now)
}

func (p *pace) observe(limits [len(rateHeaders)]RateLimit, n int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits, p.n, p.seen, p.until = limits, n, now, time.Time{}
	var every time.Duration
	for _, l := range limits[:n] {
		switch {
		case l.Reset <= 0:
		case l.Remaining == 0:
			if end := now.Add(min(l.Reset, paceReset)); end.After(p.until) {
				p.until = end
			}
		case l.Name == "requests" && 10*l.Remaining <= l.Limit:
			// A bucket refills by what is missing until the reset; of a window
			// that ends then, at least what remains may still go.
			every = max(every, l.Reset/time.Duration(max(l.Remaining, l.Limit-l.Remaining)))
		}
	}
	switch every = min(every, paceMost); {
	case every == 0:
		p.spacing = nil
	case p.spacing == nil:
		p.spacing = rate.NewLimiter(rate.Every(every), 1)
	default:
		p.spacing.SetLimitAt(now, rate.Every(every))
	}
	p.tight.Store(p.spacing != nil || !p.until.IsZero())
}

// reserve says how long the next call is to wait, and counts on it to go then.
// Those who wait for the same moment are spread over a little time after it.
func (p *pace) reserve(now time.Time, rnd float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var wait time.Duration
	if d := p.until.Sub(now); d > 0 {
		wait = d + spread(d, rnd)
	}
	if p.spacing != nil {
		turn := p.spacing.ReserveN(now, 1)
		d := turn.DelayFrom(now)
		if d > paceMost { // it goes by then in any case
			turn.CancelAt(now)
		}
		wait = max(wait, d)
	}
	return min(wait, paceMost)
}

// holdsBack says whether calls may have to wait.
func (p *pace) holdsBack(now time.Time) bool {
	if !p.tight.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.seen) > paceFresh || p.spacing == nil && !now.Before(p.until) {
		p.tight.Store(false)
		p.spacing = nil
		return false
	}
	return true
}

// pace says how long the next call is to wait before it goes to the target,
// and which credentials it had better not take. skip are those it can't.
func (t *Target) pace(now time.Time, skip uint64, rnd func() float64) (wait time.Duration, avoid uint64) {
	paces := t.paces.Load()
	if paces == nil {
		return 0, 0
	}
	paced := -1
	count, first := len(t.Credentials), int(t.first.Load())
	free := false
	for k := range count {
		i := (first + k) % count
		switch {
		case skip&(1<<i) != 0 || t.look(i, now).wait > 0:
		case (*paces)[i].holdsBack(now):
			avoid |= 1 << i
			if paced < 0 {
				paced = i
			}
		default:
			free = true
		}
	}
	if free || paced < 0 {
		return 0, avoid
	}
	return (*paces)[paced].reserve(now, rnd()), avoid &^ (1 << paced)
}
