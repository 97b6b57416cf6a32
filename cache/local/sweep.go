package local

import (
	"time"

	"oncegate/cache"
)

const (
	sweepEvery  = 2 * time.Second
	expireEvery = time.Minute
	sweepBatch  = 64 // records that are dropped under one lock
	// forgetFlight is how long after its lease a claim that nobody settled
	// or took over is forgotten.
	forgetFlight = 10 * time.Minute
)

// sweep frees what expired records hold. Nothing depends on when it comes:
// they are invisible at once.
func (s *Store) sweep() {
	defer close(s.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	posts := time.NewTicker(postEvery)
	defer posts.Stop()
	var expired time.Time
	for {
		select {
		case <-posts.C:
			if s.ledger.dirty() {
				s.writer.put(op{what: post})
			}
			continue
		case now := <-tick.C:
			if now.Sub(expired) >= expireEvery {
				expired = now
				s.writer.put(op{what: expire})
				s.writer.put(op{what: sweeping})
			}
		case <-s.closed:
			return
		}
		for i := range s.shards {
			for s.sweepShard(&s.shards[i]) {
			}
			s.sweepRestless(&s.shards[i], s.now())
		}
		s.reserveFences()
	}
}

// sweepShard drops a batch, and says whether there is more.
func (s *Store) sweepShard(sh *shard) bool {
	now := time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for range sweepBatch {
		if len(sh.deadlines) == 0 || !sh.deadlines[0].gone(now) {
			for r := sh.flights.first; r != nil; {
				next := r.next
				if r.state == cache.Dispatched && now.Sub(r.lease) > forgetFlight {
					s.drop(sh, r)
				}
				r = next
			}
			return false
		}
		s.drop(sh, sh.deadlines[0])
	}
	return true
}
