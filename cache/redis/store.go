// Package redis is the engine of the cache for many nodes on one Redis, or
// one Redis Cluster. Each step is one Lua script there, judged by that
// server's clock; this process keeps nothing of a record.
package redis

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	redis "github.com/redis/go-redis/v9"

	"oncegate/cache"
)

// Options of a store. The zero value works.
type Options struct {
	// Secret is what all keys are derived from, in place of one that the
	// first node makes and the store keeps. All nodes must have the same.
	Secret []byte
	// TLS replaces what the URL says of TLS; nil leaves it.
	TLS *tls.Config
	// PoolSize is how many connections a server gets at most, beside one for
	// notices. Zero: 10 a core, 64 at least.
	PoolSize int
	// KeepLost: a claim whose answer was lost (cache.ErrLost) is the caller's to
	// end by GiveBack. Else the store gives it back by itself, and the caller must
	// not send it again.
	KeepLost bool
	// Replicas is how many must have what makes a write safe to run, and how it
	// ended, before that counts. One that too few have is ErrAway. Zero: none.
	Replicas int
	// Zone is that of the ledger's days. Nil is UTC. All nodes must have the
	// same; after a change, days that were kept are those of the old zone.
	Zone *time.Location
	// Away is told why a server is away, when it goes, and nil when it is back;
	// of a cluster once for each tag. It may be nil, and must not block.
	Away func(cause error)
	// Oops is told of a step behind that failed; may be nil. It must not
	// call the store.
	Oops func(step string, err error)

	patience time.Duration // times longer than usual until a server is away, for tests that are not about that; zero: once
}

// Store keeps records in Redis. Its methods finish on their own time-outs,
// whatever becomes of the request's context: a connection that is dropped in
// the middle costs a new one. Only Read's waiting ends with its context.
//
// Any failure of the server or the way to it is cache.ErrAway, with its cause.
// After three in a row that took time or were refusals, the store is away:
// steps fail at once, and one probe a second finds out when it is back.
type Store struct {
	o        Options
	client   *client
	node     string // this process, among those that share the store
	id       identity
	settings durability
	stepFor  time.Duration // how long a step may take
	dogs     []*watchdog   // one for each tag of a cluster; else one
	notices  *notices
	lost     lost
	ledger   ledger
	history  history
	now      func() time.Time

	onWanted atomic.Pointer[func(cache.Hold)]
	closed   chan struct{}
	closing  sync.Once
	err      error // of Close
}

var _ cache.Store = (*Store)(nil)

// Open makes a store for the Redis that the URL names. It dials nothing: an
// error is in the URL and says what to write. Secret is the first to find out
// whether the store is there and may be used.
func Open(url string, o Options) (*Store, error) {
	a, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if o.TLS != nil {
		a.tls = o.TLS
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	o.patience = max(o.patience, 1)
	n := cache.NewNonce()
	s := &Store{o: o, stepFor: o.patience * stepTimeout, node: hex.EncodeToString(n[:]), closed: make(chan struct{}), now: time.Now}
	if len(o.Secret) > 0 {
		s.id.secret, s.id.stored = slices.Clone(o.Secret), recogniser(o.Secret)
	}
	s.client = connect(a, o.PoolSize, o.patience*timeout, s.greet)
	s.dogs = make([]*watchdog, 1)
	if a.kind == cluster {
		s.dogs = make([]*watchdog, tags)
	}
	for t := range s.dogs {
		s.dogs[t] = &watchdog{closed: s.closed, probe: func() error { return s.probe(t) }, told: func(cause error) { s.told(t, cause) }}
	}
	s.notices = newNotices(s)
	s.lost.start(s)
	s.ledger.start(s, int(n[0])%tags)
	s.history.start(s)
	return s, nil
}

// greet looks at each new connection's server. A Redis that was replaced by
// one with another secret is refused here; a cluster is asked by probe.
func (s *Store) greet(ctx context.Context, addr string, cn *redis.Conn) error {
	if s.client.sentinels {
		// Those are connected to by the same settings, and are no stores.
		if role, err := cn.Do(ctx, "role").Slice(); err == nil && len(role) > 0 && role[0] == "sentinel" {
			return nil
		}
	}
	if err := s.settings.read(ctx, addr, cn, s.o.Replicas); err != nil {
		return unsent(err)
	}
	if s.client.cluster != nil || s.id.known() == nil {
		return nil
	}
	if err := s.id.introduce(ctx, cn); err != nil {
		return unsent(err)
	}
	return nil
}

// probe finds out whether a tag's server works, by writing to it.
func (s *Store) probe(t int) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.stepFor)
	defer cancel()
	if s.client.cluster != nil && s.id.known() != nil {
		if err := s.id.introduce(ctx, s.client.universal); err != nil {
			return err
		}
	}
	_, err := s.client.do(ctx, probeScript, []string{probeName(t)}, nil, nil)
	if err != nil {
		return failed(err).cause
	}
	return nil
}

// Secret gives what all keys are derived from. An error is ErrAway with its
// cause: the store can't be reached, refuses this user, or belongs to nodes
// with another secret. One that does not answer is asked for a while, and longer
// while it reads its data: both may have been started at once.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	start := time.Now()
	for end := start.Add(startWithin); ; {
		err := s.away(0)
		if err == nil {
			err = s.introduce()
		}
		var f *failure
		if errors.As(err, &f) && f.loading {
			f.silent, end = true, start.Add(loadWithin)
		}
		switch {
		case err == nil:
			return s.id.known(), nil
		case f == nil || !f.silent || time.Now().After(end):
			return nil, err
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (s *Store) introduce() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*s.stepFor)
	defer cancel()
	if err := s.id.introduce(ctx, s.client.universal); err != nil {
		return failed(err)
	}
	return nil
}

// startWithin is how long a server that does not answer is asked for what all
// begins with.
const startWithin = 5 * time.Second

// loadWithin is the same for one that reads its data.
const loadWithin = time.Minute

// Durability is "strict" when all servers that this node is connected to keep
// through a crash what they acknowledged; else "relaxed: " and why.
func (s *Store) Durability() string { return s.settings.String() }

// Reachable says why a server is away; nil: all can be asked.
func (s *Store) Reachable() error {
	for t := range s.dogs {
		if err := s.away(t); err != nil {
			return err
		}
	}
	return nil
}

// Close gives back what can still be given back, writes what was booked, and ends all connections. The
// other methods give ErrAway from then on.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.lost.stop()
		s.ledger.stop()
		s.history.stop()
		close(s.closed)
		s.notices.stop()
		s.err = s.client.universal.Close()
	})
	return s.err
}

// away says that a tag's server is away, or that the store was closed.
func (s *Store) away(t int) error {
	select {
	case <-s.closed:
		return errClosed
	default:
		return s.dogs[t%len(s.dogs)].refuses()
	}
}

// allAway says that there is no server that can be asked.
func (s *Store) allAway() bool {
	for _, dog := range s.dogs {
		if dog.refuses() == nil {
			return false
		}
	}
	return true
}

// do runs a step and gives its reply, whose form is the script's.
func (s *Store) do(sc *script, t int, keys []string, args ...any) ([]any, error) {
	return s.run(sc, t, nil, keys, args)
}

// durably is do, and waits for the replicas that the options ask for.
func (s *Store) durably(sc *script, t int, keys []string, args ...any) ([]any, error) {
	if s.o.Replicas <= 0 {
		return s.run(sc, t, nil, keys, args)
	}
	acked := s.o.Replicas
	reply, err := s.run(sc, t, &acked, keys, args)
	if err != nil || reply[0] != "ok" { // it changed nothing
		return reply, err
	}
	s.settings.replicas(s.client.addr(keys[0]), acked, s.o.Replicas)
	if acked < s.o.Replicas {
		return nil, &failure{cause: fmt.Errorf("%s: %w: %d of %d within %v", sc.name, errUnacknowledged, acked, s.o.Replicas, acknowledge), sent: true}
	}
	return reply, nil
}

func (s *Store) run(sc *script, t int, acked *int, keys []string, args []any) ([]any, error) {
	if err := s.away(t); err != nil {
		return nil, err
	}
	// Never the request's context: see Store.
	ctx, cancel := context.WithTimeout(context.Background(), s.stepFor)
	defer cancel()
	reply, err := s.client.do(ctx, sc, keys, args, acked)
	if err != nil {
		f := failed(err)
		if s.dogs[t%len(s.dogs)].heard(f) && f.silent {
			s.awayTogether(t, f.cause)
		}
		if f.forgotten {
			s.client.giveUp(ctx, fencesName(t))
		}
		f.cause = fmt.Errorf("%s: %w", sc.name, f.cause)
		return nil, f
	}
	s.dogs[t%len(s.dogs)].heard(nil)
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return nil, malformed(sc, reply)
	}
	return list, nil
}

// told hears that a tag's server is away, and with no cause that it is back.
// The connections to it that are idle may lead nowhere then: they are dropped.
func (s *Store) told(t int, cause error) {
	if cause != nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.stepFor)
		defer cancel()
		s.client.giveUp(ctx, fencesName(t))
	}
	select {
	case <-s.closed:
	default:
		if s.o.Away != nil {
			s.o.Away(cause)
		}
	}
}

// awayTogether makes a cluster's other tags away that are on the same server,
// which does not answer. Each comes back by itself: they may part.
func (s *Store) awayTogether(t int, cause error) {
	if s.client.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.stepFor)
	defer cancel()
	server, err := s.client.cluster.MasterForKey(ctx, fencesName(t))
	if err != nil {
		return
	}
	for other, dog := range s.dogs {
		if with, err := s.client.cluster.MasterForKey(ctx, fencesName(other)); err == nil && with == server {
			dog.goAway(cause)
		}
	}
}

func malformed(sc *script, reply any) error {
	return fmt.Errorf("%w: %s answered with something unreadable, a %T: is another version running?", cache.ErrAway, sc.name, reply)
}

func (s *Store) oops(step string, err error) {
	if err != nil && s.o.Oops != nil {
		s.o.Oops(step, err)
	}
}

// millis is a duration in whole milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
