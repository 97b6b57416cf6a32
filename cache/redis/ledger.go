package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"oncegate/cache"
)

// The ledger goes two steps. What is booked is appended to the tail of a shard:
// a settlement's lines by the settlement's own script to its record's, all
// others once a second. From there one node folds it into the buckets, see
// fold. So a settlement costs one command more, on a cluster too, and a bucket
// has each series once, however many shards it came by.

const (
	// workEvery is how often a node pushes and folds, more or less.
	workEvery = time.Second
	// pushSums is how many go in one element of a tail.
	pushSums = 128
	// rememberPush is how long a node's last push is known. What could not be
	// sent again within that time may be there: it is dropped.
	rememberPush = 24 * time.Hour
	// silentFor is how long the ledger may stand still before that is told.
	silentFor = time.Minute
)

// ledger books lines and folds tails, behind.
type ledger struct {
	s     *Store
	shard int // that this node pushes to

	mu     sync.Mutex
	booked cache.Tally // since the last push

	turn chan struct{} // taken by who pushes and folds; what follows is theirs
	// waiting are elements to be pushed, the first under this number; it may
	// have been sent first then
	waiting [][]byte
	number  int64
	sentAt  time.Time
	swept   time.Time
	folds   bool // this node is the one

	quit     chan struct{}
	finished chan struct{}
}

func (l *ledger) start(s *Store, shard int) {
	l.s, l.shard, l.number = s, shard, 1
	l.turn, l.quit, l.finished = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(l.finished)
		var failing time.Time // since when nothing worked
		told := false
		for {
			// Never all nodes at once.
			next := time.NewTimer(workEvery*3/4 + rand.N(workEvery/2))
			select {
			case <-next.C:
			case <-l.quit:
				next.Stop()
				return
			}
			if err := l.work(context.Background(), false); err == nil {
				failing, told = time.Time{}, false
			} else if failing.IsZero() {
				failing = time.Now()
			} else if !told && time.Since(failing) > silentFor {
				told = true
				s.oops("ledger", err)
			}
		}
	}()
}

// stop pushes what is there once more, for as long as the store answers.
func (l *ledger) stop() {
	close(l.quit)
	<-l.finished
	l.turn <- struct{}{} // a Scan may have it
	if err := l.push(); err != nil {
		l.s.oops("ledger", fmt.Errorf("what was booked last is lost: %w", err))
	}
	if l.folds {
		_, _ = l.s.do(leaveScript, ledgerTag, []string{folderName}, l.s.node) // or its time runs out
	}
	<-l.turn
}

// Book adds lines in memory. They are in Redis a second later, or as soon as
// it can be reached.
func (s *Store) Book(lines ...cache.Line) {
	l := &s.ledger
	for i := range lines {
		l.mu.Lock()
		err := l.booked.Add(&lines[i])
		l.mu.Unlock()
		s.oops("ledger", err)
	}
}

// encodeLines gives those of a settlement as one element of a tail.
func (s *Store) encodeLines(lines []cache.Line) []byte {
	var b []byte
	for _, line := range lines {
		if err := line.Fit(); err != nil {
			s.oops("ledger", err)
			continue
		}
		b = cache.AppendSum(b, line.Minute(), &line.Series, &line.Figures)
	}
	return b
}

// work pushes and folds. whoever: though another node be the one that folds.
func (l *ledger) work(ctx context.Context, whoever bool) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	err := errors.Join(l.push(), l.fold(ctx, whoever))
	if err == nil && l.folds && time.Since(l.swept) > sweepEvery {
		l.swept = time.Now()
		err = l.sweep()
	}
	return err
}

// push appends what was booked to a tail. An element whose acknowledgement was
// lost is sent again, as it was and under its number, before any other.
func (l *ledger) push() error {
	if err := l.send(); err != nil { // what waits from before
		return err
	}
	l.mu.Lock()
	booked := l.booked
	l.booked = cache.Tally{}
	l.mu.Unlock()
	l.waiting = encodeTally(&booked)
	return l.send()
}

func (l *ledger) send() error {
	for len(l.waiting) > 0 {
		if !l.sentAt.IsZero() && time.Since(l.sentAt) > rememberPush-time.Hour {
			l.s.oops("ledger", fmt.Errorf("up to %d sums may have been written a day ago, or not: they are dropped", pushSums))
		} else if _, err := l.s.do(pushScript, l.shard, []string{tailName(l.shard), pushedName(l.shard, l.s.node)},
			l.number, millis(rememberPush), l.waiting[0]); err != nil {
			if f, ok := errors.AsType[*failure](err); ok && f.sent && l.sentAt.IsZero() {
				l.sentAt = time.Now()
			}
			return err
		}
		l.waiting = l.waiting[1:]
		l.number++
		l.sentAt = time.Time{}
	}
	return nil
}

func encodeTally(t *cache.Tally) (all [][]byte) {
	var (
		b []byte
		n int
	)
	t.Each(func(minute int64, s *cache.Series, sum *cache.Figures) {
		b = cache.AppendSum(b, minute, s, sum)
		if n++; n%pushSums == 0 {
			all, b = append(all, b), nil
		}
	})
	if len(b) > 0 {
		all = append(all, b)
	}
	return all
}
