package redis

import (
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// BenchmarkWrite is what a keyed write costs: claim, dispatch and settle.
func BenchmarkWrite(b *testing.B) {
	body := strings.Repeat("x", 1024)
	var n atomic.Uint64
	run := func(b *testing.B, s *Store) {
		c := write(0)
		c.Key[0] = byte(n.Add(1))
		binary.BigEndian.PutUint64(c.Key[1:], n.Load())
		g, err := s.Claim(b.Context(), c)
		h := cache.Hold{Key: c.Key, Fence: g.Fence}
		if err == nil {
			err = s.Dispatch(b.Context(), h, cache.NewNonce())
		}
		if err == nil {
			err = s.Settle(b.Context(), h, executed(body))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		settings []string
		callers  int
	}{
		{"in memory, one caller", nil, 1},
		{"in memory, 50 callers", nil, 50},
		{"fsync always, one caller", []string{"--appendonly", "yes", "--appendfsync", "always"}, 1},
		{"fsync always, 50 callers", []string{"--appendonly", "yes", "--appendfsync", "always"}, 50},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := mustOpen(b, redistest.Start(b, c.settings...).URL(), Options{})
			if c.callers == 1 {
				for b.Loop() {
					run(b, s)
				}
				return
			}
			b.SetParallelism(c.callers / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					run(b, s)
				}
			})
		})
	}
}
