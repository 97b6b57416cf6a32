package local

import (
	"encoding/binary"
	"testing"
	"time"

	"oncegate/cache"
)

// BenchmarkUnique is what a derived request that nobody repeats costs.
func BenchmarkUnique(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	frames := answer(1, 1000)
	c := cache.Claim{Mode: cache.Duplicates, Lease: 15 * time.Second}
	set := completedAs(frames, false)
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		binary.LittleEndian.PutUint64(c.Key[:], n*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(c.Nonce[:], 2*n)
		binary.LittleEndian.PutUint64(set.Nonce[:], 2*n+1)
		g, err := s.Claim(b.Context(), c)
		if err == nil {
			err = s.Settle(b.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, set)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReplay is a claim that replays from memory.
func BenchmarkReplay(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	run(b, s, claimOf(1, false), completedAs(answer(1, 1000), false))
	c := claimOf(1, false)
	b.ReportAllocs()
	for b.Loop() {
		if g, err := s.Claim(b.Context(), c); err != nil || g.Role != cache.Replay {
			b.Fatal(g.Role, err)
		}
	}
}

// BenchmarkExplicit is a claim and a settlement that is on disk.
func BenchmarkExplicit(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	frames := answer(1, 1000)
	n := 0
	for b.Loop() {
		n++
		run(b, s, claimOf(n, true), completedAs(frames, true))
	}
}

// BenchmarkExplicitTogether is the same by many at once, in groups.
func BenchmarkExplicitTogether(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	frames := answer(1, 1000)
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c := claimOf(0, true)
			copy(c.Key[:], c.Nonce[:])
			run(b, s, c, completedAs(frames, true))
		}
	})
}

// BenchmarkJournal is an attempt begun and ended.
func BenchmarkJournal(b *testing.B) {
	j := journalIn(b, b.TempDir(), 0)
	h := cache.Hold{Key: cache.Key{1}, Fence: 1}
	b.ReportAllocs()
	for b.Loop() {
		id, err := j.Begin(h, "openai/gpt-4.1")
		if err != nil {
			b.Fatal(err)
		}
		j.End(id)
	}
}
