package redis

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

// BenchmarkUnique is what a call that nobody shares costs: claim and settle.
func BenchmarkUnique(b *testing.B) {
	for _, many := range []bool{false, true} {
		b.Run(map[bool]string{false: "one caller", true: "50 callers"}[many], func(b *testing.B) {
			server := redistest.Start(b)
			s := mustOpen(b, "redis://"+server.Addr, Options{})
			body := strings.Repeat("x", 1024)
			var n atomic.Int64
			call := func() {
				c := claim(0)
				id := n.Add(1)
				for i := range 8 {
					c.Key[i] = byte(id >> (8 * i))
				}
				g, err := s.Claim(b.Context(), c)
				if err != nil || g.Role != cache.Lead {
					b.Errorf("%+v, %v", g, err)
				}
				if err := s.Settle(b.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, answer(body)); err != nil {
					b.Error(err)
				}
			}
			if !many {
				for b.Loop() {
					call()
				}
				return
			}
			b.SetParallelism(25)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call()
				}
			})
		})
	}
}

// BenchmarkFollow is 500 logs that grow every 25 ms on one node and are read
// on another, both in this process: a loop is one batch of all.
func BenchmarkFollow(b *testing.B) {
	server := redistest.Start(b)
	leads, reads := mustOpen(b, "redis://"+server.Addr, Options{}), mustOpen(b, "redis://"+server.Addr, Options{})
	const logs = 500
	var holds [logs]cache.Hold
	var wg sync.WaitGroup
	var late atomic.Int64
	for n := range logs {
		c := claim(byte(n))
		c.Key[2] = byte(n >> 8)
		holds[n] = mustClaim(b, leads, c, cache.Lead)
		wg.Go(func() {
			for at := 0; ; {
				got, res, err := reads.Read(b.Context(), holds[n], at)
				if res != nil || err != nil {
					return
				}
				at += len(got)
				for _, f := range got {
					var sent time.Time
					if sent.UnmarshalBinary(f.Data) == nil {
						late.Add(int64(time.Since(sent)))
					}
				}
			}
		})
	}
	index := 0
	for b.Loop() {
		for _, h := range holds {
			now, _ := time.Now().MarshalBinary()
			if err := leads.Append(b.Context(), h, index, []cache.Frame{{Kind: cache.BodyFrame, Data: now}}); err != nil {
				b.Fatal(err)
			}
		}
		index++
	}
	b.ReportMetric(float64(late.Load())/float64(index*logs)/1e6, "ms-late/op")
	for _, h := range holds {
		_ = leads.Settle(b.Context(), h, answer("end"))
	}
	wg.Wait()
}
