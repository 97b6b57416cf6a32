package local

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"oncegate/cache/cachetest"
)

// TestWriteHistoryWithLostAnswers: what many callers are told is linearizable,
// though one step in four is lost before its effect and one in four after it.
func TestWriteHistoryWithLostAnswers(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			s := mustOpen(t, t.TempDir(), Options{})
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(seed, 5))
			lose := func(string) bool {
				mu.Lock()
				defer mu.Unlock()
				return rnd.IntN(4) == 0
			}
			cachetest.WriteHistory(t, 80, &cachetest.Faulty{Store: s, Before: lose, After: lose})
			check(t, s.Close())
		})
	}
}
