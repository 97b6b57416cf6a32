package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"oncegate/cache"
)

// lostMost is how many claims wait to be given back at most. More are lost in
// a longer outage only: before it, the store is away and none is sent.
const lostMost = 4096

// lost are claims of which the answer was lost. They may have landed, and may
// even land later; each is asked for until the store has heard it.
type lost struct {
	mu      sync.Mutex
	claims  []lostClaim
	stopped bool
	woken   chan struct{}
	quit    chan struct{}
	done    chan struct{}
}

type lostClaim struct {
	claim cache.Claim
	set   *cache.Settlement
	until time.Time // when it has lapsed anyway
}

// GiveBack ends, behind, a claim of which the answer was lost. If it leads, it
// is settled: as given, with the answer of a call that ran without the store,
// or else released. If it does not lead it can't from now on, though it be
// still on its way.
func (s *Store) GiveBack(c cache.Claim, set *cache.Settlement) {
	if c.Nonce == (cache.Nonce{}) {
		return // nothing tells it from others
	}
	l := &s.lost
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
	case len(l.claims) >= lostMost:
		s.oops("give back", fmt.Errorf("%d claims wait for the store: this one is left to lapse", len(l.claims)))
	default:
		l.claims = append(l.claims, lostClaim{c, set, time.Now().Add(c.Lease + linger)})
		select {
		case l.woken <- struct{}{}:
		default:
		}
	}
}

func (l *lost) start(s *Store) {
	l.woken, l.quit, l.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(l.done)
		retry := time.NewTicker(pollEvery)
		defer retry.Stop()
		for {
			select {
			case <-l.woken:
			case <-retry.C:
			case <-l.quit:
				l.work(s)
				return
			}
			l.work(s)
		}
	}()
}

// stop tries once more, for as long as the store answers.
func (l *lost) stop() {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	close(l.quit)
	<-l.done
}

// work asks for each claim until the store does not answer.
func (l *lost) work(s *Store) {
	for {
		l.mu.Lock()
		if len(l.claims) == 0 {
			l.mu.Unlock()
			return
		}
		c := l.claims[0]
		l.mu.Unlock()
		if time.Now().Before(c.until) {
			if err := s.end(c); errors.Is(err, cache.ErrAway) {
				return
			}
		}
		l.mu.Lock()
		l.claims = l.claims[1:]
		l.mu.Unlock()
	}
}

// Landed finds out whether a claim of which the answer was lost leads. If it
// does not it can't from now on, though it be still on its way.
func (s *Store) Landed(c cache.Claim) (h cache.Hold, leads bool, err error) {
	sc, keys := landedScript, []string{recordName(c.Key)}
	if c.Write != nil {
		sc, keys = writeLandedScript, writeKeys(c.Key)
	}
	reply, err := s.do(sc, tag(c.Key), keys, nonce(c.Nonce), millis(rememberReleased))
	if err != nil || reply[0] != "leads" || len(reply) < 2 {
		return h, false, err
	}
	h.Key = c.Key
	if h.Fence, err = fence(reply[1]); err != nil {
		return cache.Hold{}, false, malformed(sc, reply)
	}
	return h, true, nil
}

// end is safe to be repeated from its beginning.
func (s *Store) end(c lostClaim) error {
	h, leads, err := s.Landed(c.claim)
	if !leads {
		return err
	}
	set := cache.Settlement{Nonce: c.claim.Nonce, Result: cache.Result{State: cache.Released}}
	if c.set != nil {
		set = *c.set
	}
	return s.Settle(context.Background(), h, set)
}
