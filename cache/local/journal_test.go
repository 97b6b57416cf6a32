package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

// crash lets a journal go without its Close: what waits in memory is lost.
func (j *Journal) crash() {
	j.mu.Lock()
	j.closed = true
	j.file.Close()
	j.mu.Unlock()
}

func journalIn(t testing.TB, dir string, segment int64) *Journal {
	t.Helper()
	j, err := openJournal(dir, segment, func(step string, err error) { t.Errorf("%s: %v", step, err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func begin(t testing.TB, j *Journal, n int) uint64 {
	t.Helper()
	id, err := j.Begin(cache.Hold{Key: cache.Key{byte(n), byte(n >> 8)}, Fence: cache.Fence(n)}, fmt.Sprint("mock/m", n))
	if err != nil || id == 0 {
		t.Fatalf("begin: id %d, %v", id, err)
	}
	return id
}

// lost gives what the journal has booked.
func lost(j *Journal) (all []cache.Attempt) {
	j.Lost(func(lost []cache.Attempt) { all = lost })
	return all
}

func lostFences(j *Journal) (s string) {
	for _, a := range lost(j) {
		s += fmt.Sprint(a.Fence, " ")
	}
	return strings.TrimSpace(s)
}

func segments(t testing.TB, dir string) (names []string, size int64) {
	t.Helper()
	names, _ = filepath.Glob(filepath.Join(dir, "*.journal"))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	return names, size
}

func TestJournalLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := journalIn(t, dir, 0)
		if lost := lost(j); lost != nil {
			t.Fatalf("a first start lost %v", lost)
		}
		started := time.Now()
		one := begin(t, j, 1)
		time.Sleep(time.Second)
		two := begin(t, j, 2)
		three := begin(t, j, 3)
		j.End(two)
		j.End(two)
		j.End(99)
		j.End(0)
		time.Sleep(endsWithin)
		synctest.Wait()
		j.End(three) // in the last instant
		j.crash()

		j = journalIn(t, dir, 0)
		four := begin(t, j, 4) // before anybody asked
		if four <= three {
			t.Errorf("id %d after %d", four, three)
		}
		var lost []cache.Attempt
		j.Lost(func(booked []cache.Attempt) {
			lost = booked
			if names, _ := segments(t, dir); len(names) != 2 {
				t.Errorf("%q while they are booked: a crash would lose them", names)
			}
		})
		if names, _ := segments(t, dir); len(names) != 1 {
			t.Errorf("%q once they are booked", names)
		}
		if len(lost) != 2 || lost[1].Fence != 3 {
			t.Fatalf("lost %+v", lost)
		}
		want := cache.Attempt{Key: cache.Key{1}, Fence: 1, Target: "mock/m1", Started: time.Unix(0, started.UnixNano())}
		if lost[0] != want {
			t.Errorf("lost %+v, want %+v", lost[0], want)
		}
		j.Lost(func(again []cache.Attempt) { t.Errorf("and again %+v", again) })
		j.End(one) // another process's
		j.crash()

		j = journalIn(t, dir, 0)
		if got := lostFences(j); got != "4" {
			t.Errorf("lost %q, want 4", got)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got := lostFences(journalIn(t, dir, 0)); got != "" {
			t.Errorf("lost %q twice", got)
		}
	})
}

// TestJournalLostUnasked: a process that dies before it asked leaves the lost
// ones, with its own, to the next.
func TestJournalLostUnasked(t *testing.T) {
	dir := t.TempDir()
	for n := 1; n <= 3; n++ {
		j := journalIn(t, dir, 0)
		begin(t, j, n)
		j.End(begin(t, j, 100+n))
		begin(t, j, 10+n) // writes the End
		j.crash()
	}
	if got := lostFences(journalIn(t, dir, 0)); got != "1 11 2 12 3 13" {
		t.Errorf("lost %q", got)
	}
	if names, _ := segments(t, dir); len(names) != 1 {
		t.Errorf("%d segments are left", len(names))
	}
}

func TestJournalEndsAtClose(t *testing.T) {
	dir := t.TempDir()
	j := journalIn(t, dir, 0)
	id := begin(t, j, 1)
	begin(t, j, 2)
	j.End(id)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := j.Begin(cache.Hold{}, "x"); err == nil {
		t.Error("a closed journal begins attempts")
	}
	j.End(2)
	if got := lostFences(journalIn(t, dir, 0)); got != "2" {
		t.Errorf("lost %q, want 2", got)
	}
}

// TestJournalStaysSmall: however many attempts, and with one in the air all
// the time.
func TestJournalStaysSmall(t *testing.T) {
	dir := t.TempDir()
	const segment = 4096
	j := journalIn(t, dir, segment)
	begin(t, j, 1)
	var open []uint64
	for n := 2; n < 3000; n++ {
		if open = append(open, begin(t, j, n)); len(open) > 10 {
			j.End(open[0])
			open = open[1:]
		}
		if names, size := segments(t, dir); len(names) != 1 || size > 2*segment {
			t.Fatalf("after %d: %d segments, %d bytes", n, len(names), size)
		}
	}
	for _, id := range open {
		j.End(id)
	}
	begin(t, j, 5000)
	j.crash()
	if got := lostFences(journalIn(t, dir, segment)); got != "1 5000" {
		t.Errorf("lost %q, want 1 5000", got)
	}
}

// TestJournalCrashWhileRotating: with the old segment still beside the new
// one, nothing is lost twice and nothing that ended comes back.
func TestJournalCrashWhileRotating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what waits to be written waits
		dir := t.TempDir()
		j := journalIn(t, dir, 0)
		one, two := begin(t, j, 1), begin(t, j, 2)
		_ = one
		j.End(two) // waits
		old := j.file.Name()
		kept, err := os.ReadFile(old)
		if err != nil {
			t.Fatal(err)
		}
		j.mu.Lock()
		err = j.next()
		j.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		j.crash()
		if err := os.WriteFile(old, kept, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lostFences(journalIn(t, dir, 0)); got != "1" {
			t.Errorf("lost %q, want 1", got)
		}
	})
}

// TestJournalTorn: whatever length the last write came to, what stood before
// it is read.
func TestJournalTorn(t *testing.T) {
	dir := t.TempDir()
	j := journalIn(t, dir, 0)
	begin(t, j, 1)
	before := j.size
	begin(t, j, 2)
	name, size := j.file.Name(), j.size
	j.crash()
	b, err := os.ReadFile(name)
	if err != nil || int64(len(b)) < size {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	b = b[:size] // the rest is room
	for n := before; n < int64(len(b)); n++ {
		torn := t.TempDir()
		for _, tail := range [][]byte{nil, make([]byte, 100)} { // a power cut may leave zeros
			if err := os.WriteFile(filepath.Join(torn, segmentName(1)), append(bytes.Clone(b[:n]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			j := journalIn(t, torn, 0)
			if got := lostFences(j); got != "1" {
				t.Fatalf("cut at %d of %d: lost %q", n, len(b), got)
			}
			j.Close()
		}
	}
}

// TestJournalWriteFails: a write that failed leaves nothing that hides what
// comes after it.
func TestJournalWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what waits to be written waits
		dir := t.TempDir()
		j, err := openJournal(dir, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		one := begin(t, j, 1)
		working := j.file
		unmapSegment(j.mem)
		j.mem = nil                                            // as where there is no room to map
		if j.file, err = os.Open(working.Name()); err != nil { // can't be written
			t.Fatal(err)
		}
		if _, err := j.Begin(cache.Hold{Fence: 2}, "x"); err == nil {
			t.Fatal("nothing was written, and Begin says nothing")
		}
		j.End(one) // waits
		j.mu.Lock()
		j.flush()
		j.mu.Unlock()
		j.file.Close()
		j.file = working
		begin(t, j, 3) // a new segment, as the old one could not be mended
		j.crash()
		if got := lostFences(journalIn(t, dir, 0)); got != "3" {
			t.Errorf("lost %q, want 3", got)
		}
	})
}

func TestJournalTogether(t *testing.T) {
	dir := t.TempDir()
	j := journalIn(t, dir, 8192)
	var wg sync.WaitGroup
	for n := range 32 {
		wg.Go(func() {
			for i := range 100 {
				id := begin(t, j, 1000*n+i)
				if i < 99 {
					j.End(id)
				}
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	lost := lost(journalIn(t, dir, 0))
	if len(lost) != 32 {
		t.Fatalf("lost %d, want 32", len(lost))
	}
	for _, a := range lost {
		if a.Fence%1000 != 99 {
			t.Errorf("lost %+v", a)
		}
	}
}

func FuzzParseJournal(f *testing.F) {
	a := cache.Attempt{Key: cache.Key{1, 2}, Fence: 3, Target: "mock/m", Started: time.Unix(1, 2)}
	b := appendBegin(nil, 7, &a)
	f.Add(b)
	f.Add(appendEnd(b, 7))
	a.Target = strings.Repeat("x", 300)
	f.Add(appendBegin(nil, 8, &a)[:100])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		n := parseJournal(b,
			func(id uint64, a cache.Attempt) { again = appendBegin(again, id, &a) },
			func(id uint64) { again = appendEnd(again, id) })
		if n > len(b) || !bytes.Equal(b[:n], again) {
			t.Fatalf("%x was read as %x", b[:n], again)
		}
	})
}
