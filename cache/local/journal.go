package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"oncegate/cache"
)

const (
	// segmentBytes is how large a segment grows before the next is begun.
	segmentBytes = 4 << 20
	// endsWithin is how long an End may wait for a Begin to be written with.
	endsWithin = 100 * time.Millisecond
	// endsBytes is how many bytes of Ends may wait.
	endsBytes = 4 << 10
)

// Journal is the attempts' journal: a file that is only ever appended to.
//
// When it has grown large, a new one is begun with the attempts that are in
// the air, and the old one is removed: so one file, or two for a moment, hold
// all there is to know.
type Journal struct {
	dir     string
	segment int64                        // bytes, see segmentBytes
	oops    func(step string, err error) // may be nil

	mu      sync.Mutex
	file    *os.File
	mem     []byte // the file's memory; nil: it is written to
	number  uint64 // of file
	size    int64  // of file
	full    int64  // size at which the next segment is begun
	id      uint64 // the last one given out
	open    map[uint64]cache.Attempt
	buf     []byte
	ends    []byte // waiting
	timed   bool   // a flush is on its way
	closed  bool
	lost    []cache.Attempt
	earlier []string // segments of dead processes; they go when lost is booked
}

var _ cache.Journal = (*Journal)(nil)

func segmentName(n uint64) string { return fmt.Sprintf("attempts-%012d.journal", n) }

// openJournal reads what dead processes left, and begins a segment. The
// directory is this process's alone. segment is in bytes, zero for the usual
// size. oops is told of writes behind that failed; it may be nil.
func openJournal(dir string, segment int64, oops func(string, error)) (*Journal, error) {
	j := &Journal{dir: dir, segment: segment, oops: oops, open: make(map[uint64]cache.Attempt)}
	if j.segment <= 0 {
		j.segment = segmentBytes
	}
	names, err := filepath.Glob(filepath.Join(globEscape(dir), "attempts-*.journal"))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	left := make(map[uint64]cache.Attempt)
	ended := make(map[uint64]bool)
	for _, name := range names {
		digits := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "attempts-"), ".journal")
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			continue // not ours
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read the attempts' journal: %w", err)
		}
		parseJournal(b, func(id uint64, a cache.Attempt) {
			j.id = max(j.id, id)
			if !ended[id] {
				left[id] = a
			}
		}, func(id uint64) {
			ended[id] = true
			delete(left, id)
		})
		j.number = max(j.number, n)
		j.earlier = append(j.earlier, name)
	}
	for _, a := range left {
		j.lost = append(j.lost, a)
	}
	slices.SortFunc(j.lost, func(a, b cache.Attempt) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Fence, b.Fence))
	})
	if err := j.next(); err != nil {
		return nil, err
	}
	if len(j.lost) == 0 {
		j.Lost(nil) // nothing to book, so nothing to keep
	}
	return j, nil
}

func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// Lost has the attempts booked that dead processes had begun and not ended, the
// oldest first: once, for they are forgotten then. A process that dies before
// leaves them to the next.
func (j *Journal) Lost(book func([]cache.Attempt)) {
	j.mu.Lock()
	lost, earlier := j.lost, j.earlier
	j.lost, j.earlier = nil, nil
	j.mu.Unlock()
	if len(lost) > 0 {
		book(lost)
	}
	for _, name := range earlier {
		j.tell(os.Remove(name))
	}
}

func (j *Journal) tell(err error) {
	if err != nil && j.oops != nil {
		j.oops("journal", err)
	}
}

// Begin notes an attempt, in one piece.
func (j *Journal) Begin(h cache.Hold, target string) (uint64, error) {
	a := cache.Attempt{Key: h.Key, Fence: h.Fence, Target: target, Started: time.Now()}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, errors.New("the attempts' journal is closed")
	}
	if j.size >= j.full {
		if err := j.next(); err != nil {
			// The old one still serves.
			j.full = j.size + j.segment/4
			j.tell(err)
		}
	}
	id := j.id + 1
	j.buf = appendBegin(append(j.buf[:0], j.ends...), id, &a)
	if err := j.write(j.buf); err != nil {
		return 0, fmt.Errorf("write the attempts' journal: %w", err)
	}
	j.ends = j.ends[:0]
	j.id = id
	j.open[id] = a
	return id, nil
}

// End notes that an attempt was booked: with the next Begin, or after
// endsWithin. A kill in between makes it ambiguous beside what it was booked
// as.
func (j *Journal) End(id uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.open[id]; !ok || j.closed {
		return
	}
	delete(j.open, id)
	j.ends = appendEnd(j.ends, id)
	switch {
	case len(j.ends) >= endsBytes:
		j.flush()
	case !j.timed:
		j.timed = true
		time.AfterFunc(endsWithin, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.timed = false
			if !j.closed {
				j.flush()
			}
		})
	}
}

// flush writes the Ends that wait. Those that can't be written wait on.
func (j *Journal) flush() {
	if len(j.ends) == 0 {
		return
	}
	if err := j.write(j.ends); err != nil {
		j.tell(err)
		return
	}
	j.ends = j.ends[:0]
}

// write appends to the segment, whole or not at all: what stood behind a torn
// entry could not be read.
func (j *Journal) write(b []byte) error {
	if j.mem != nil {
		if int64(len(j.mem))-j.size >= int64(len(b)) {
			copy(j.mem[j.size:], b)
			j.size += int64(len(b))
			return nil
		}
		// Past its end, as where a new segment could not be begun: the file goes on.
		unmapSegment(j.mem)
		j.mem = nil
	}
	_, err := j.file.WriteAt(b, j.size)
	if err != nil {
		if torn := j.file.Truncate(j.size); torn != nil {
			j.full = 0 // the next Begin leaves it
		}
		return err
	}
	j.size += int64(len(b))
	return nil
}

// next begins a segment with the attempts in the air, and removes the one
// before it.
func (j *Journal) next() error {
	name := filepath.Join(j.dir, segmentName(j.number+1))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("begin a segment of the attempts' journal: %w", err)
	}
	var b []byte
	for id, a := range j.open {
		b = appendBegin(b, id, &a)
	}
	b = append(b, j.ends...) // should a crash leave the old segment beside this one
	if _, err := f.Write(b); err != nil {
		f.Close()
		os.Remove(name)
		return fmt.Errorf("begin a segment of the attempts' journal: %w", err)
	}
	before, mem := j.file, j.mem
	j.file, j.number, j.size = f, j.number+1, int64(len(b))
	// Where much is in the air, it is not copied more often than it is worth.
	j.full = max(j.segment, 4*j.size)
	j.mem = mapSegment(f, j.full+endsBytes)
	j.ends = j.ends[:0]
	if before != nil {
		unmapSegment(mem)
		before.Close()
		j.tell(os.Remove(before.Name()))
	}
	return nil
}

// Close writes the Ends that wait. What is open then is lost to the next
// process, as it would be by a crash.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	var err error
	if len(j.ends) > 0 {
		err = j.write(j.ends)
	}
	unmapSegment(j.mem)
	j.mem = nil
	return errors.Join(err, j.file.Close())
}
