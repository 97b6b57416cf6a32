package cache_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

// A debt that the store does not hear of is told again, but not to a store
// that was closed meanwhile.
func TestADebtEndsWithItsStore(t *testing.T) {
	inHouse(t, func(h *house) {
		var told atomic.Int64
		before := h.faulty.Before
		h.faulty.Before = func(step string) bool {
			if step == "owe" {
				told.Add(1)
				return true
			}
			return before(step)
		}
		closed := make(chan struct{})
		h.Closed = closed
		lead := h.is(claim(cache.Duplicates), cache.Lead, "")
		h.settle(lead, frame("x"))
		lead.Owe()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		n := told.Load()
		if n < 2 {
			t.Errorf("it was told %d times in 30 s", n)
		}
		close(closed)
		time.Sleep(time.Minute)
		synctest.Wait()
		if again := told.Load() - n; again != 0 {
			t.Errorf("it was told %d times more after the store was closed", again)
		}
	})
}
