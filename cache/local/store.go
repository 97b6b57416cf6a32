// Package local is the embedded engine of the cache: records in memory, those
// that must outlive the process in SQLite, and the journal of attempts. One
// process has one directory.
package local

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"oncegate/cache"
)

// Options of a store. The zero value works.
type Options struct {
	// MemoryBytes bounds the settled answers that are held in memory. What is
	// on disk is read again when it is asked for. Zero is 256 MiB.
	MemoryBytes int64
	// LockWait is how long Open waits for a directory that another process
	// has. Zero: it fails at once.
	LockWait time.Duration
	// Waiting is told once, at once, if Open has to wait; may be nil.
	Waiting func(holder string)
	// Secret is what Store.Secret gives in place of the database's own.
	Secret []byte
	// Zone is that of the ledger's days. Nil is UTC.
	Zone *time.Location
	// Oops is told of a step behind that failed; may be nil. It must not
	// call the store.
	Oops func(step string, err error)
}

// Store keeps records in one directory. Claims and settlements of derived
// keys are steps in memory, as are claims of writes; how those go on is on disk,
// synced, before it counts. It judges all times by the monotonic clock; only
// across restarts by the wall clock, by which a record never lives longer than
// it was settled for.
type Store struct {
	dir         string
	o           Options
	memory      int64
	lock        *os.File
	db          *sql.DB
	writeRow    *sql.Stmt // reads a write's row
	writeFrames *sql.Stmt // and its answer
	secret      []byte
	writer      *writer
	attempts    *Journal
	ledger      *ledger
	history     *history
	posted      mark // of the ledger, at start

	opened  time.Time
	doubts  doubts
	failing atomic.Bool // a write's row could not be written behind

	fence    atomic.Uint64 // the last one given out
	reserved uint64        // the last one set aside; the sweeper's
	used     atomic.Int64  // bytes of settled records in memory
	hand     atomic.Uint64 // where evict looks next
	shards   [32]shard

	closed       chan struct{}
	closing      sync.Once
	swept        chan struct{} // closed when the sweeper has ended
	checkpointed chan struct{} // likewise
	err          error         // of Close
}

var _ cache.Store = (*Store)(nil)

// Open opens the store in dir, which is made if it is not there. What it
// returns an error for needs a person: the error says what to do.
func Open(dir string, o Options) (_ *Store, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the store's directory: %w", err)
	}
	s := &Store{dir: dir, o: o, memory: o.MemoryBytes, opened: time.Now(), closed: make(chan struct{}), swept: make(chan struct{}), checkpointed: make(chan struct{})}
	if s.memory <= 0 {
		s.memory = 256 << 20
	}
	for i := range s.shards {
		s.shards[i].records = make(map[cache.Key]*record)
		s.shards[i].writes = make(map[cache.Key]*write)
		s.shards[i].restless = make(map[*write]struct{})
	}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	if s.lock, err = lockDir(dir, o.LockWait, o.Waiting); err != nil {
		return nil, err
	}
	if err = s.openDatabase(filepath.Join(dir, "oncegate.db")); err != nil {
		return nil, err
	}
	if s.attempts, err = openJournal(dir, 0, o.Oops); err != nil {
		return nil, err
	}
	if s.ledger, err = openLedger(dir, o.Zone, s.posted, s.writer.put, s.oops); err != nil {
		return nil, err
	}
	if s.history, err = openHistory(dir, s.oops); err != nil {
		return nil, err
	}
	s.writer.ledger = s.ledger
	s.history.start()
	s.writer.start()
	go s.sweep()
	go s.checkpoint()
	return s, nil
}

// Journal is the attempts' journal of this directory.
func (s *Store) Journal() *Journal { return s.attempts }

// Secret gives what all keys are derived from: 32 random bytes that were made
// at first start, or Options.Secret.
func (s *Store) Secret(context.Context) ([]byte, error) {
	if len(s.o.Secret) > 0 {
		return bytes.Clone(s.o.Secret), nil
	}
	return bytes.Clone(s.secret), nil
}

// Durability is "strict": what is acknowledged as on disk was synced.
func (s *Store) Durability() string { return "strict" }

// Close writes down what is still to be written, and lets the directory go.
// The store's other methods give ErrAway from then on.
func (s *Store) Close() error {
	s.closing.Do(func() {
		close(s.closed)
		<-s.swept
		<-s.checkpointed
		if s.ledger.dirty() {
			s.ledger.post(context.Background(), s.writer.done) // or it is told, and left in the daybook
		}
		s.writer.stop()
		s.err = s.release()
	})
	return s.err
}

// release lets go of whatever Open got hold of.
func (s *Store) release() error {
	var errs []error
	if s.attempts != nil {
		errs = append(errs, s.attempts.Close())
	}
	if s.history != nil {
		errs = append(errs, s.history.close())
	}
	if s.ledger != nil {
		errs = append(errs, s.ledger.close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	for _, stmt := range []*sql.Stmt{s.writeRow, s.writeFrames} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

func (s *Store) shard(k cache.Key) *shard { return &s.shards[k[0]%uint8(len(s.shards))] }

// away says that the store was closed.
func (s *Store) away() error {
	select {
	case <-s.closed:
		return fmt.Errorf("%w: it was closed", cache.ErrAway)
	default:
		return nil
	}
}

func (s *Store) oops(step string, err error) {
	if err != nil && s.o.Oops != nil {
		s.o.Oops(step, err)
	}
}
