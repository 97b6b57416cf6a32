package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"oncegate/cache"
)

const (
	failedFor  = time.Minute // how long a call that failed is remembered
	failedMost = 1 << 16     // how many are; beyond it the oldest are forgotten
)

// failedCalls are the keys of calls that used up their attempts a moment ago.
// A client that knows no x-should-retry comes back after the memo of its
// failure: it gets one attempt then, not three again. They are known to this
// node only: on another one such a call is a new one. The zero value is empty.
type failedCalls struct {
	n     atomic.Int64 // of until: nobody need lock to find that there are none
	mu    sync.Mutex
	until map[cache.Key]time.Time
	order []failedCall // as they were put, and so by their times
}

type failedCall struct {
	key   cache.Key
	until time.Time
}

// put remembers a key from now on.
func (f *failedCalls) put(key cache.Key, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until == nil {
		f.until = map[cache.Key]time.Time{}
	}
	call := failedCall{key, now.Add(failedFor)}
	f.until[key] = call.until
	f.order = append(f.order, call)
	for len(f.order) > failedMost || !now.Before(f.order[0].until) {
		if old := f.order[0]; f.until[old.key].Equal(old.until) { // else it was put again
			delete(f.until, old.key)
		}
		f.order = f.order[1:]
	}
	f.n.Store(int64(len(f.until)))
}

// has says whether the key was put within the last minute.
func (f *failedCalls) has(key cache.Key, now time.Time) bool {
	if f.n.Load() == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Before(f.until[key])
}
