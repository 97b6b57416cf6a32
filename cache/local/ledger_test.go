package local

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

// numbered is a line that can be told from others in a sum: the nth has n
// tokens.
func numbered(n int) cache.Line {
	l := ledgerLine(time.Unix(1_800_000_000+int64(n/100)*60, 0), n%7)
	l.Figures = cache.Figures{Requests: 1, BilledInput: int64(n)}
	return l
}

// ledgerTotal is the sum of a level.
func ledgerTotal(t testing.TB, s *Store, level cache.Level) (all cache.Figures) {
	t.Helper()
	if err := s.Scan(context.Background(), level, time.Unix(0, 0), time.Unix(1<<33, 0), func(_ time.Time, _ cache.Series, sum *cache.Figures) {
		all.Add(sum)
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// hasFirst checks that the ledger has the first n lines, and each once.
func hasFirst(t testing.TB, s *Store, when string, n int) {
	t.Helper()
	want := cache.Figures{Requests: int64(n), BilledInput: int64(n) * int64(n+1) / 2}
	for _, level := range []cache.Level{cache.Minute, cache.Quarter, cache.Day} {
		if got := ledgerTotal(t, s, level); got != want {
			t.Errorf("%s, level %d has %d lines and %d tokens, want %d and %d",
				when, level, got.Requests, got.BilledInput, want.Requests, want.BilledInput)
		}
	}
}

// copyDir copies the store's directory as a kill would leave it, less the
// attempts, and less most of the zeros at the end of a daybook.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".journal") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if strings.HasSuffix(e.Name(), daybookSuffix) {
			b = b[:min(len(b), len(bytes.TrimRight(b, "\x00"))+2*sumSize)]
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func daybookFiles(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.daybook"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestLedgerKillNine: through kills at any moment, all that was booked is
// there, and once.
func TestLedgerKillNine(t *testing.T) {
	if dir := os.Getenv("ONCEGATE_TEST_KILL_LEDGER"); dir != "" {
		bookUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	booked := 0
	for round := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLedgerKillNine$")
		cmd.Env = append(os.Environ(), "ONCEGATE_TEST_KILL_LEDGER="+dir, fmt.Sprint("ONCEGATE_TEST_FROM=", booked))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		from := booked
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "booked %d", &booked); err == nil && booked >= from+100+round*177 {
				cmd.Process.Kill() // and what it still wrote is read
			}
		}
		cmd.Wait()
		if booked < from+100 {
			t.Fatalf("round %d booked %d lines", round, booked-from)
		}
		s, err := Open(copyDir(t, dir), Options{})
		if err != nil {
			t.Fatal(err)
		}
		total := ledgerTotal(t, s, cache.Day)
		if n := int(total.Requests); n != booked && n != booked+1 { // one was on its way
			t.Fatalf("round %d: the ledger has %d lines of %d", round, n, booked)
		}
		booked = int(total.Requests)
		hasFirst(t, s, fmt.Sprint("after kill ", round), booked)
		s.Close()
	}
}

func bookUntilKilled(t *testing.T, dir string) {
	s := mustOpen(t, dir, Options{})
	s.ledger.mu.Lock()
	s.ledger.room = 8 << 10
	s.ledger.mu.Unlock()
	var n int
	fmt.Sscan(os.Getenv("ONCEGATE_TEST_FROM"), &n)
	deadline := time.Now().Add(time.Minute) // should its parent be gone
	for time.Now().Before(deadline) {
		n++
		if n%3 == 0 {
			set := completedAs(answer(n, 10), n%2 == 0)
			set.Lines = []cache.Line{numbered(n)}
			c := claimOf(n, n%2 == 0)
			copy(c.Key[8:], c.Nonce[:])
			run(t, s, c, set)
		} else {
			s.Book(numbered(n))
		}
		fmt.Println("booked", n)
		if n%10 == 0 { // more often than by the clock
			s.writer.put(op{what: post})
		}
	}
}

// The tests below run in a bubble, where nothing is posted by the clock while
// they look.

// TestLedgerCrashPoints opens what a kill leaves after each step of a posting.
func TestLedgerCrashPoints(t *testing.T) { synctest.Test(t, ledgerCrashPoints) }

func ledgerCrashPoints(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	l := s.ledger
	const each = 20
	booked := 0
	book := func() {
		for range each {
			booked++
			s.Book(numbered(booked))
		}
	}
	crash := func(when string) {
		t.Helper()
		left := copyDir(t, dir)
		s, err := Open(left, Options{})
		if err != nil {
			t.Fatal(err)
		}
		// It dies as well, before it posted anything.
		twice, err := Open(copyDir(t, left), Options{})
		if err != nil {
			t.Fatal(err)
		}
		hasFirst(t, twice, when+", killed at once", booked)
		twice.Close()
		hasFirst(t, s, when, booked)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if names := daybookFiles(t, left); len(names) > 0 {
			t.Errorf("%s: after a close there is %v", when, names)
		}
		if s, err = Open(left, Options{}); err != nil {
			t.Fatal(err)
		}
		hasFirst(t, s, when+", closed", booked)
		s.Close()
	}
	// post does what the writer does, with crashes between.
	post := func(name string) {
		t.Helper()
		ctx := t.Context()
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.write(ctx, tx); err != nil {
			t.Fatal(err)
		}
		book()
		crash(name + ": before the commit")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		crash(name + ": after the commit")
		book()
		l.wrote(nil)
		crash(name + ": at its end")
	}
	if err := l.post(t.Context(), s.writer.done); err != nil { // what the start left to look at
		t.Fatal(err)
	}
	l.mu.Lock()
	put := l.put
	l.put = func(o op) {
		if o.posted != nil { // a daybook that fills is posted below, not while its directory is copied
			put(o)
		}
	}
	l.mu.Unlock()
	book()
	crash("booked")
	post("the first")
	book()
	l.mu.Lock()
	l.room = 2 << 10
	l.mu.Unlock()
	post("with a new daybook")
	l.mu.Lock()
	l.room = daybookBytes
	l.mu.Unlock()
	post("in the next daybook")

	// The transaction fails, and is tried again with more behind.
	book()
	tx, err := s.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.write(t.Context(), tx), tx.Rollback()); err != nil {
		t.Fatal(err)
	}
	l.posts.lasts = true // told already
	l.wrote(errors.New("no room"))
	book()
	crash("after a failed commit")
	post("after a failed commit")
	// It was committed, and the answer was lost.
	book()
	if tx, err = s.db.BeginTx(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.write(t.Context(), tx), tx.Commit()); err != nil {
		t.Fatal(err)
	}
	l.posts.lasts = true
	l.wrote(errors.New("who knows"))
	book()
	crash("after a commit whose answer was lost")
	post("after a commit whose answer was lost")
	hasFirst(t, s, "the one that lived", booked)
}

// TestLedgerTorn: of a daybook that was cut at any byte, all whole lines are
// there.
func TestLedgerTorn(t *testing.T) { synctest.Test(t, ledgerTorn) }

func ledgerTorn(t *testing.T) {
	var b []byte
	ends := []int{0}
	for n := 1; n <= 3; n++ {
		l := numbered(n)
		b = appendEntry(b, &l)
		ends = append(ends, len(b))
	}
	count := func(b []byte) (n int) {
		parseDaybook(b, func(sum []byte) {
			n++
			if err := cache.DecodeSums(sum, func(_ int64, _ *cache.Series, f *cache.Figures) {
				if f.BilledInput != int64(n) {
					t.Errorf("line %d has %d tokens", n, f.BilledInput)
				}
			}); err != nil {
				t.Error(err)
			}
		})
		return n
	}
	for size := range len(b) + 1 {
		want := 0
		for want < 3 && ends[want+1] <= size {
			want++
		}
		zeros := append(append([]byte(nil), b[:size]...), make([]byte, 300)...) // as memory has it
		if cut, torn := count(b[:size]), count(zeros); cut != want || torn != want {
			t.Fatalf("cut at %d of %d: %d lines, %d before zeros, want %d", size, len(b), cut, torn, want)
		}
		if size < len(b) {
			bad := append([]byte(nil), b...)
			bad[size] ^= 0x10
			if n := count(bad); n > want {
				t.Fatalf("with byte %d spoiled there are %d lines, want at most %d", size, n, want)
			}
		}
	}

	dir := t.TempDir()
	s := mustOpen(t, dir, Options{})
	s.ledger.mu.Lock() // nothing is posted meanwhile
	s.ledger.book.append(b[:ends[2]])
	s.ledger.book.append(b[ends[2] : len(b)-1])
	left := copyDir(t, dir)
	s.ledger.mu.Unlock()
	s, err := Open(left, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	hasFirst(t, s, "with a torn line", 2)
}

// fillDisk has nothing more written to the ledger's tables until it is told
// to.
func fillDisk(t testing.TB, s *Store) (free func(*Store)) {
	t.Helper()
	if _, err := s.db.Exec(`CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'no room'); END`); err != nil {
		t.Fatal(err)
	}
	return func(s *Store) {
		t.Helper()
		if _, err := s.db.Exec("DROP TRIGGER full"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLedgerDiskFails: what can't be posted is told once, kept, and posted
// when it can be, also by the next process.
func TestLedgerDiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var told []string
		o := Options{Oops: func(step string, err error) { told = append(told, fmt.Sprint(step, ": ", err)) }}
		s := mustOpen(t, dir, o)
		booked := 0
		book := func() {
			for range 10 {
				booked++
				s.Book(numbered(booked))
			}
			time.Sleep(3 * postEvery)
			synctest.Wait()
		}
		book()
		free := fillDisk(t, s)
		book()
		book()
		booked++
		set := completedAs(answer(1, 10), true)
		set.Lines = []cache.Line{numbered(booked)}
		run(t, s, claimOf(1, true), set) // records are written all the same
		if err := s.Scan(t.Context(), cache.Day, time.Unix(0, 0), time.Unix(1<<33, 0), func(time.Time, cache.Series, *cache.Figures) {
			t.Error("a scan without what can't be posted")
		}); !errors.Is(err, cache.ErrAway) || !strings.Contains(err.Error(), "no room") {
			t.Errorf("scan: %v", err)
		}
		if len(told) != 1 || !strings.HasPrefix(told[0], "ledger: ") || !strings.Contains(told[0], "no room") {
			t.Errorf("told: %q", told)
		}
		free(s)
		book()
		hasFirst(t, s, "when there is room", booked)

		free = fillDisk(t, s)
		book()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, dir, o)
		book()
		free(s)
		hasFirst(t, s, "in the next process", booked)
		if len(told) != 3 {
			t.Errorf("told: %q", told)
		}
		time.Sleep(2 * postEvery)
		if names := daybookFiles(t, dir); len(names) != 1 {
			t.Errorf("there are %v", names)
		}
	})
}

// TestLedgerSettlementCantBeStaged: the lines of a record that stays in
// memory are booked all the same.
func TestLedgerSettlementCantBeStaged(t *testing.T) { synctest.Test(t, ledgerSettlementCantBeStaged) }

func ledgerSettlementCantBeStaged(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	if _, err := s.db.Exec(`CREATE TRIGGER full BEFORE INSERT ON booked BEGIN SELECT RAISE(ABORT, 'no room'); END`); err != nil {
		t.Fatal(err)
	}
	c := claimOf(1, true)
	h := cache.Hold{Key: c.Key, Fence: claimRole(t, s, c).Fence}
	set := completedAs(answer(1, 10), true)
	set.Lines = []cache.Line{numbered(1)}
	if err := s.Settle(t.Context(), h, set); err == nil || !strings.Contains(err.Error(), "memory only") {
		t.Errorf("settle: %v", err)
	}
	if err := s.Settle(t.Context(), h, set); err != nil {
		t.Errorf("sent again: %v", err)
	}
	hasFirst(t, s, "in memory only", 1)
}

// TestLedgerDaybookFails: without a daybook lines are posted from memory.
func TestLedgerDaybookFails(t *testing.T) { synctest.Test(t, ledgerDaybookFails) }

func ledgerDaybookFails(t *testing.T) {
	var told []string
	s := mustOpen(t, t.TempDir(), Options{Oops: func(step string, err error) { told = append(told, err.Error()) }})
	l := s.ledger
	l.mu.Lock()
	unmapSegment(l.book.mem)
	l.book.mem = nil
	l.book.file.Close()
	l.mu.Unlock()
	for n := 1; n <= 10; n++ {
		s.Book(numbered(n))
	}
	hasFirst(t, s, "from memory", 10)
	if len(told) != 1 || !strings.Contains(told[0], "in memory only") {
		t.Errorf("told: %q", told)
	}
	s.Close()
}

// TestLedgerStaysSmall: daybooks are begun and removed, and a line that finds
// one full goes on in its file.
func TestLedgerStaysSmall(t *testing.T) { synctest.Test(t, ledgerStaysSmall) }

func ledgerStaysSmall(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{Oops: func(step string, err error) {
			if !stuck {
				t.Error(step, err)
			}
		}})
		l := s.ledger
		next, err := beginDaybook(dir, l.book.number+1, 4<<10)
		if err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		l.room = 4 << 10
		old := l.book
		l.book = next
		l.mu.Unlock()
		l.forget([]*daybook{old})
		free := func(*Store) {}
		if stuck {
			free = fillDisk(t, s)
		}
		const lines = 2000
		for n := 1; n <= lines; n++ {
			s.Book(numbered(n))
			if n%50 == 0 && !stuck {
				if err := l.post(t.Context(), s.writer.done); err != nil {
					t.Fatal(err)
				}
				if names := daybookFiles(t, dir); len(names) != 1 {
					t.Fatalf("after %d lines there are %v", n, names)
				}
			}
		}
		left, err := Open(copyDir(t, dir), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if stuck {
			free(left)
		}
		hasFirst(t, left, fmt.Sprintf("stuck %v, after a kill", stuck), lines)
		left.Close()
		free(s)
		hasFirst(t, s, fmt.Sprintf("stuck %v", stuck), lines)
		s.Close()
	}
}

// TestVersionOne brings up a database that was made before there was a
// ledger.
func TestVersionOne(t *testing.T) {
	b, err := os.ReadFile("testdata/version1.db")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "oncegate.db")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	var secret []byte
	var fences int64
	err = errors.Join(db.QueryRow("SELECT value FROM meta WHERE name = 'secret'").Scan(&secret),
		db.QueryRow("SELECT value FROM meta WHERE name = 'fences'").Scan(&fences), db.Close())
	if err != nil || len(secret) != 32 {
		t.Fatal(err)
	}
	for round := 1; round <= 3; round++ {
		s := mustOpen(t, dir, Options{})
		if got, _ := s.Secret(t.Context()); string(got) != string(secret) {
			t.Fatal("it has another secret")
		}
		// Kept for a hundred years.
		g := claimRole(t, s, claimOf(2, true))
		if g.Role != cache.Replay || len(g.Result.Frames) != 2 || g.Result.Frames[1].Data[0] != 2 {
			t.Errorf("its record is %+v", g)
		}
		if g := claimRole(t, s, claimOf(100+round, true)); int64(g.Fence) <= fences {
			t.Errorf("fence %d after %d", g.Fence, fences)
		}
		s.Book(numbered(round))
		hasFirst(t, s, "brought up", round)
		s.Close()
	}
}

// TestLedgerOverflow: a sum that would be more than can be counted is left
// as it is at every level, and told.
func TestLedgerOverflow(t *testing.T) { synctest.Test(t, ledgerOverflow) }

func ledgerOverflow(t *testing.T) {
	var told []error
	s := mustOpen(t, t.TempDir(), Options{Oops: func(_ string, err error) { told = append(told, err) }})
	one := numbered(1)
	s.ledger.mu.Lock()
	err := s.ledger.tally.AddTo(one.Minute(), &one.Series, &cache.Figures{Requests: 1, BilledInput: math.MaxInt64 - 5})
	s.ledger.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	total := func() cache.Figures { return ledgerTotal(t, s, cache.Minute) }
	if got := total(); got.BilledInput != math.MaxInt64-5 {
		t.Fatalf("%+v", got)
	}
	later := one
	later.At = one.At.Add(time.Minute) // its minute has room, its quarter has not
	later.BilledInput = 6
	s.Book(later)
	hourLater := one
	hourLater.At, hourLater.BilledInput = one.At.Add(time.Hour), 5
	for _, level := range []cache.Level{cache.Minute, cache.Quarter, cache.Day} {
		if got := ledgerTotal(t, s, level); got.Requests != 1 || got.BilledInput != math.MaxInt64-5 {
			t.Errorf("level %d: %+v", level, got)
		}
	}
	if len(told) != 1 || !errors.Is(told[0], cache.ErrLine) {
		t.Errorf("told: %v", told)
	}
	s.Book(hourLater)
	for _, level := range []cache.Level{cache.Minute, cache.Quarter, cache.Day} {
		if got := ledgerTotal(t, s, level); got.Requests != 2 || got.BilledInput != math.MaxInt64 {
			t.Errorf("level %d: %+v", level, got)
		}
	}
}

// TestLedgerDamagedBucket: it is told, and keeps nothing else from being
// booked.
func TestLedgerDamagedBucket(t *testing.T) { synctest.Test(t, ledgerDamagedBucket) }

func ledgerDamagedBucket(t *testing.T) {
	var told []string
	s := mustOpen(t, t.TempDir(), Options{Oops: func(_ string, err error) { told = append(told, err.Error()) }})
	first := numbered(1)
	s.Book(first, numbered(500))
	ledgerTotal(t, s, cache.Day)
	if _, err := s.db.Exec("UPDATE ledger SET sums = substr(sums, 1, length(sums) - 1) WHERE level = 0 AND begin = ?", 60*first.Minute()); err != nil {
		t.Fatal(err)
	}
	err := s.Scan(t.Context(), cache.Minute, time.Unix(0, 0), time.Unix(1<<33, 0), func(time.Time, cache.Series, *cache.Figures) {})
	if !errors.Is(err, errBucket) {
		t.Errorf("scan: %v", err)
	}
	s.Book(numbered(2), numbered(500))
	if got := ledgerTotal(t, s, cache.Day); got.Requests != 4 {
		t.Errorf("%d lines", got.Requests)
	}
	if got := ledgerTotal(t, s, cache.Minute); got.Requests != 3 {
		t.Errorf("%d lines by minute", got.Requests)
	}
	if len(told) != 1 || !strings.Contains(told[0], "damaged") {
		t.Errorf("told: %q", told)
	}
}

// TestLedgerAfterClose: lines that come too late are told.
func TestLedgerAfterClose(t *testing.T) {
	var told []string
	s := mustOpen(t, t.TempDir(), Options{Oops: func(_ string, err error) { told = append(told, err.Error()) }})
	s.Book(numbered(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Book(numbered(2))
	if len(told) != 1 || !strings.Contains(told[0], "closed") {
		t.Errorf("told: %q", told)
	}
}

func FuzzParseDaybook(f *testing.F) {
	one, two := numbered(1), numbered(2)
	whole := appendEntry(appendEntry(nil, &one), &two)
	f.Add(whole)
	f.Add(append(whole, make([]byte, 20)...))
	f.Add(append([]byte{0xff, 0xff, 0xff, 0xff}, whole...))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		size := parseDaybook(b, func(sum []byte) { n += len(sum) + 4 + sumSize })
		if size != n || size > len(b) {
			t.Fatalf("it takes %d bytes of %d, its lines have %d", size, len(b), n)
		}
	})
}

func FuzzParseBucket(f *testing.F) {
	one := numbered(1)
	f.Add(appendBucket(nil, map[cache.Series]*cache.Figures{one.Series: &one.Figures}))
	f.Add([]byte{bucketVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		sums := make(map[cache.Series]*cache.Figures)
		err := parseBucket(b, func(series, figures []byte) error {
			s, err := cache.DecodeSeries(series)
			if err != nil {
				return err
			}
			fig, err := cache.DecodeFigures(figures)
			if err == nil {
				sums[s] = &fig
			}
			return err
		})
		if err != nil && !errors.Is(err, errBucket) {
			t.Fatal(err)
		}
		again := 0
		if err := parseBucket(appendBucket(nil, sums), func([]byte, []byte) error { again++; return nil }); err != nil || again != len(sums) {
			t.Fatalf("%d sums became %d, %v", len(sums), again, err)
		}
	})
}
