package redis

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"oncegate/cache"
)

// follow is one log that this node follows.
type follow struct {
	hold    cache.Hold
	channel string

	mu        sync.Mutex
	told      chan struct{} // closed at the next notice
	length    int           // of the log, as far as was told or read
	frames    []cache.Frame // its last ones, told and not yet read
	bytes     int           // of frames
	confirmed bool          // the server tells us
	sure      bool          // there is no frame from length on that we should not have been told of
	doubts    int           // how often sure was taken back
	asking    bool          // its subscription was asked for
	due       time.Time     // when the lease ends, as far as is known

	readers int       // guarded by notices.mu
	idle    time.Time // guarded by notices.mu
}

// next gives the frames from an index on that are here. Else it gives what is
// closed at the next notice, and says whether the store must be asked; and
// then the doubts there have been, for asked.
func (f *follow) next(from int) (frames []cache.Frame, told <-chan struct{}, ask bool, doubts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first := f.length - len(f.frames); f.sure && from >= first && from < f.length {
		frames = f.frames[from-first:]
		f.frames, f.bytes = nil, 0
		return frames, nil, false, f.doubts
	}
	return nil, f.told, !f.sure || f.length > from, f.doubts
}

// pollSure is how long a reader whom all notices reach does not ask at most: by
// asking it finds out about a lease that lapsed, and about what was forgotten.
const pollSure = 5 * time.Second

// patience is how long a reader waits for a notice before it asks. beats:
// doubts come by themselves.
func (f *follow) patience(beats bool) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.sure || !beats {
		return pollEvery
	}
	return min(max(time.Until(f.due), pollEvery), pollSure)
}

// asked notes that the store was read up to an index, with so much left of the
// lease. A doubt that came up meanwhile stands: the answer may be older.
func (f *follow) asked(to, doubts int, lease time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to > f.length { // the notices of those are still on their way
		f.length, f.frames, f.bytes = to, nil, 0
	}
	f.sure = f.confirmed && f.doubts == doubts
	f.due = time.Now().Add(lease)
}

// doubt has the store asked, told or not.
func (f *follow) doubt() {
	f.mu.Lock()
	f.unsure()
	f.wake()
	f.mu.Unlock()
}

// unsure is called with f.mu held.
func (f *follow) unsure() {
	f.sure = false
	f.doubts++
}

// confirm notes that the server tells us from now on.
func (f *follow) confirm() {
	f.mu.Lock()
	f.confirmed = true
	f.unsure()
	f.wake()
	f.mu.Unlock()
}

// lost notes that it no longer does, and says whether it was asked to.
func (f *follow) lost() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirmed = false
	f.unsure()
	f.frames, f.bytes = nil, 0
	f.wake()
	return f.asking
}

// followBytes is how much of a log is held here for a reader that is slow to
// come. It finds the rest in the store.
const followBytes = 256 << 10

// tell takes a notice: the length of the log, and the frames that made it so
// long; or a word for its end.
func (f *follow) tell(payload string) {
	number, rest, brought := strings.Cut(payload, " ")
	length, err := strconv.Atoi(number)
	var fresh []cache.Frame
	if err == nil && brought {
		fresh, err = unpack(rest)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch missing := length - f.length; {
	case err != nil:
		f.unsure()
	case missing <= 0: // read already
		return
	case missing <= len(fresh) && f.bytes < followBytes:
		if fresh = fresh[len(fresh)-missing:]; f.frames == nil {
			f.frames = fresh
		} else {
			f.frames = append(f.frames, fresh...)
		}
		f.bytes += len(rest)
		f.length = length
	default:
		f.frames, f.bytes, f.length = nil, 0, length
	}
	f.wake()
}

// unpack reads the frames of a notice: their sizes, and then they.
func unpack(packed string) ([]cache.Frame, error) {
	sizes, bytes, _ := strings.Cut(packed, ":")
	rest := []byte(bytes)
	var frames []cache.Frame
	for size := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n > len(rest) {
			return nil, cache.ErrCodec
		}
		frame, err := cache.DecodeFrames(rest[:n:n])
		if err != nil {
			return nil, err
		}
		if rest = rest[n:]; frames == nil {
			frames = frame
		} else {
			frames = append(frames, frame...)
		}
	}
	return frames, nil
}

// wake is called with f.mu held.
func (f *follow) wake() {
	close(f.told)
	f.told = make(chan struct{})
}
