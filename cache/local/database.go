package local

import (
	"container/heap"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"
	sqlitelib "modernc.org/sqlite/lib"

	"oncegate/cache"
)

const (
	// schemaVersion is this program's. It reads no later one.
	schemaVersion = 3
	// applicationID marks the file as ours ("OGAT"), for file(1) and for us.
	applicationID = 0x4f474154
	// fenceBlock is how many fences are set aside at a time. A start leaves
	// what is unused of its block behind, so that no fence comes again.
	fenceBlock = 1 << 32
)

// Times are in nanoseconds since 1970 by the wall clock, keep is in
// nanoseconds. frames is last, so that the others are read without it.
const schema = `
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE records (
	key         BLOB PRIMARY KEY,
	fence       INTEGER NOT NULL,
	fingerprint BLOB NOT NULL,
	cut         INTEGER NOT NULL,
	settled     INTEGER NOT NULL,
	keep        INTEGER NOT NULL,
	owed        BLOB NOT NULL,
	frames      BLOB NOT NULL
);` + ledgerSchema + writesSchema

// ledgerSchema came with version 2. A bucket's level is a cache.Level, its
// begin is in seconds since 1970; booked has the lines of settlements until
// they are posted. meta has the mark up to where the daybooks are posted.
const ledgerSchema = `
CREATE TABLE ledger (
	level INTEGER NOT NULL,
	begin INTEGER NOT NULL,
	sums  BLOB NOT NULL,
	PRIMARY KEY (level, begin)
);
CREATE TABLE booked (
	sums BLOB NOT NULL
);
INSERT INTO meta (name, value) VALUES ('ledger', zeroblob(24));`

// openDatabase opens or makes the database, and learns what is in it.
func (s *Store) openDatabase(file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	// Answers and the secret are nobody else's to read: SQLite would make it
	// by the umask.
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open the store's database: %w", err)
	}
	f.Close()

	name := url.URL{Scheme: "file", OmitHost: true, Path: file, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "synchronous(NORMAL)", "journal_size_limit(67108864)"},
		"_txlock": {"immediate"},
	}.Encode()}
	if s.db, err = sql.Open("sqlite", name.String()); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(4)
	s.db.SetMaxIdleConns(4)
	conn, err := s.db.Conn(context.Background())
	if err == nil {
		s.writer = newWriter(conn, s.begun, s.committed, s.oops)
		s.writer.sweep = s.sweepWrites
		err = s.prepare(conn)
	}
	if err == nil {
		err = s.index(conn)
	}
	if err == nil {
		err = s.writer.prepare()
	}
	if err == nil {
		err = s.prepareReads(context.Background())
	}
	return explain(file, err)
}

// prepare brings the database to this program's schema, and takes a block of
// fences.
func (s *Store) prepare(conn *sql.Conn) error {
	ctx := context.Background()
	var id, tables int
	if err := conn.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	if id != applicationID && tables > 0 {
		return errForeign
	}
	if _, err := conn.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
		return err
	}
	// What fences and keys rest on must outlive a power cut, unlike answers.
	if _, err := conn.ExecContext(ctx, "PRAGMA synchronous=FULL"); err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if tables == 0 {
		secret := make([]byte, 32)
		rand.Read(secret)
		for _, stmt := range []string{schema, fmt.Sprintf("PRAGMA application_id=%d", applicationID)} {
			if _, err := tx.ExecContext(ctx, stmt); err != nil {
				return err
			}
		}
		for name, value := range map[string]any{"schema": int64(schemaVersion), "secret": secret, "fences": int64(0)} {
			if _, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES (?, ?)", name, value); err != nil {
				return err
			}
		}
	}
	var version, fences int64
	get := func(name string, into any) error {
		err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", name).Scan(into)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: it has no %s", errDamaged, name)
		}
		return err
	}
	if err := get("schema", &version); err != nil {
		return err
	}
	if version > schemaVersion {
		return fmt.Errorf("%w: its schema is version %d, this program knows up to %d", errLater, version, schemaVersion)
	}
	if version < 2 {
		if _, err := tx.ExecContext(ctx, ledgerSchema+"UPDATE meta SET value = 2 WHERE name = 'schema'"); err != nil {
			return fmt.Errorf("bring it from schema version %d to %d: %w", version, schemaVersion, err)
		}
	}
	if version < 3 {
		if _, err := tx.ExecContext(ctx, writesSchema+"UPDATE meta SET value = 3 WHERE name = 'schema'"); err != nil {
			return fmt.Errorf("bring it from schema version %d to %d: %w", version, schemaVersion, err)
		}
	}
	if err := s.recoverWrites(ctx, tx); err != nil {
		return err
	}
	var mark []byte
	if err := errors.Join(get("secret", &s.secret), get("fences", &fences), get("ledger", &mark)); err != nil {
		return err
	}
	if s.posted, err = markOf(mark); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE meta SET value = ? WHERE name = 'fences'", fences+fenceBlock); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.fence.Store(uint64(fences))
	s.reserved = uint64(fences) + fenceBlock
	_, err = conn.ExecContext(ctx, fmt.Sprintf("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=%d", mostLogged))
	return err
}

// reserveFences sets the next block aside when half of this one is used. The
// sweeper calls it, long before the block can be used up.
func (s *Store) reserveFences() {
	if s.reserved-s.fence.Load() < fenceBlock/2 {
		s.reserved += fenceBlock
		s.writer.put(op{what: fences, fence: cache.Fence(s.reserved)})
	}
}

// index learns what records are on disk, without their frames.
func (s *Store) index(conn *sql.Conn) error {
	rows, err := conn.QueryContext(context.Background(),
		"SELECT key, fence, fingerprint, cut, settled, keep, owed FROM records")
	if err != nil {
		return err
	}
	defer rows.Close()
	now := time.Now()
	wall := now.UnixNano()
	for rows.Next() {
		var key, fingerprint, owed []byte
		var fence, settled, keep int64
		r := &record{state: cache.Completed, where: stored, index: -1}
		if err := rows.Scan(&key, &fence, &fingerprint, &r.cut, &settled, &keep, &owed); err != nil {
			return err
		}
		if len(key) != len(r.key) || len(fingerprint) != len(r.fingerprint) || len(owed)%8 != 0 {
			return fmt.Errorf("%w: a record's row is not as it was written", errDamaged)
		}
		copy(r.key[:], key)
		copy(r.fingerprint[:], fingerprint)
		r.fence, r.keep = cache.Fence(fence), time.Duration(keep)
		// A wall clock that was set back makes nothing live longer than it
		// was settled for.
		age := time.Duration(max(0, wall-settled))
		r.settled, r.expires = now.Add(-age), now.Add(r.keep-age)
		for ; len(owed) > 0; owed = owed[8:] {
			end := now.Add(time.Duration(int64(binary.BigEndian.Uint64(owed)) - wall))
			if now.Before(end) {
				r.owe(end)
			}
		}
		sh := s.shard(r.key)
		sh.records[r.key] = r
		heap.Push(&sh.deadlines, r)
	}
	return rows.Err()
}

// errNoRow says that a record is not on disk (any more).
var errNoRow = sql.ErrNoRows

// readAnswer reads a record's frames, encoded; cache.ErrCodec when they are
// damaged.
func (s *Store) readAnswer(k cache.Key, f cache.Fence) ([]byte, error) {
	var b []byte
	err := s.db.QueryRowContext(context.Background(),
		"SELECT frames FROM records WHERE key = ? AND fence = ?", k[:], int64(f)).Scan(&b)
	if err == nil {
		_, err = cache.DecodeFrames(b)
	}
	return b, err
}

var (
	errForeign = errors.New("it is a database of another program")
	errDamaged = errors.New("it is damaged")
	errLater   = errors.New("it was written by a later version of this program")
)

// explain says what to do about a database that can't be used.
func explain(file string, err error) error {
	if err == nil {
		return nil
	}
	var code int
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		code = e.Code() & 0xff // less the extension
	}
	switch {
	case errors.Is(err, errLater):
		return fmt.Errorf("the store's database %s can't be used: %w: run that version, or give this one a directory of its own (store.url)", file, err)
	case errors.Is(err, errForeign), code == sqlitelib.SQLITE_NOTADB:
		return fmt.Errorf("the store's database %s can't be used: it is not this program's: %w: give the store a directory of its own (store.url), or move that file away", file, err)
	case errors.Is(err, errDamaged), code == sqlitelib.SQLITE_CORRUPT:
		return fmt.Errorf("the store's database %s is damaged: %w: restore it from a backup, or move it and its -wal and -shm files away, and the store starts empty: kept answers and the secret are lost with it", file, err)
	case code == sqlitelib.SQLITE_BUSY:
		return fmt.Errorf("the store's database %s is locked by another program, perhaps a database browser: close it: %w", file, err)
	case code == sqlitelib.SQLITE_FULL:
		return fmt.Errorf("the store's database %s can't grow, the disk is full: %w", file, err)
	}
	return fmt.Errorf("the store's database %s: %w", file, err)
}
