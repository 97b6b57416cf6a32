package local

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
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

// ledgerLine is a line as a request makes one.
func ledgerLine(at time.Time, n int) cache.Line {
	return cache.Line{
		At: at,
		Series: cache.Series{
			Model: "gpt-4.1-mini", Provider: "openai", Operation: "chat_completions", User: fmt.Sprint("user-", n),
			Key: "research", Outcome: "coalesced", Reason: "retry_marked",
		},
		Figures: cache.Figures{
			Requests: 1, Billed: 1, SavedRequests: 1, SavedInput: 1200, SavedOutput: 350, Saved: cache.Picodollars(1_040_000_000),
			BilledInput: 1200, BilledOutput: 350, Spent: cache.Picodollars(1_040_000_000),
		},
	}
}

// BenchmarkBook is a line of a series that is known, of 50.
func BenchmarkBook(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	lines := make([]cache.Line, 50)
	for n := range lines {
		lines[n] = ledgerLine(time.Now(), n)
		s.Book(lines[n])
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		s.Book(lines[n])
		n = (n + 1) % len(lines)
	}
}

// BenchmarkBookTogether is the same by many at once.
func BenchmarkBookTogether(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		line := ledgerLine(time.Now(), 1)
		for pb.Next() {
			s.Book(line)
		}
	})
}

// BenchmarkPost is a second's lines on their way to the buckets, with that
// many series in each.
func BenchmarkPost(b *testing.B) {
	for _, series := range []int{50, cache.MostSeries} {
		b.Run(fmt.Sprint(series), func(b *testing.B) {
			s := mustOpen(b, b.TempDir(), Options{})
			lines := make([]cache.Line, series)
			for n := range lines {
				lines[n] = ledgerLine(time.Now(), n)
			}
			for b.Loop() {
				s.Book(lines...)
				if err := s.ledger.post(b.Context(), s.writer.done); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReport is what a report of a day reads: its quarters, and the
// minutes at both ends. It must take no more than 100 ms.
func BenchmarkReport(b *testing.B) {
	for _, series := range []int{50, cache.MostSeries} {
		b.Run(fmt.Sprint(series), func(b *testing.B) {
			s := mustOpen(b, b.TempDir(), Options{})
			end := time.Now().Truncate(15 * time.Minute)
			begin := end.Add(-24 * time.Hour)
			// A million requests, of which each quarter has as many.
			for quarter := range 96 {
				for n := range series {
					l := ledgerLine(begin.Add(time.Duration(quarter)*15*time.Minute+time.Duration(n%15)*time.Minute), n)
					l.Requests = 1_000_000 / 96 / int64(series)
					s.Book(l)
				}
			}
			var requests int64
			sum := func(_ time.Time, _ cache.Series, f *cache.Figures) { requests += f.Requests }
			if err := s.Scan(b.Context(), cache.Day, begin.Add(-48*time.Hour), end, sum); err != nil {
				b.Fatal(err)
			}
			want := requests
			for b.Loop() {
				requests = 0
				for _, part := range []struct {
					level       cache.Level
					from, until time.Time
				}{
					{cache.Minute, begin, begin.Add(15 * time.Minute)},
					{cache.Quarter, begin.Add(15 * time.Minute), end.Add(-15 * time.Minute)},
					{cache.Minute, end.Add(-15 * time.Minute), end},
				} {
					if err := s.Scan(b.Context(), part.level, part.from, part.until, sum); err != nil {
						b.Fatal(err)
					}
				}
				if requests != want {
					b.Fatalf("%d requests, want %d", requests, want)
				}
			}
		})
	}
}

// writeClaim is a claim of a write with a key of its own.
func writeClaim(n uint64) cache.Claim {
	c := cache.Claim{Nonce: cache.NewNonce(), Explicit: true, Lease: 15 * time.Second, Write: &cache.Write{About: cache.About{
		Tool: "payments", Method: "POST", Path: "/v1/payments", Principal: "research", User: "user-1",
	}}}
	copy(c.Key[:], c.Nonce[:])
	binary.LittleEndian.PutUint64(c.Key[16:], n)
	return c
}

// completedWrite is the settlement of one.
func completedWrite(frames []cache.Frame) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Keep: 24 * time.Hour, Memory: 7 * 24 * time.Hour, Disk: true,
		Result: cache.Result{State: cache.Completed, Frames: frames, Status: 201, Size: 1000, Sum: [32]byte{1}},
	}
}

// writeOnce is a write's whole life: claim, dispatch, settle.
func writeOnce(b *testing.B, s *Store, n uint64, frames []cache.Frame) {
	c := writeClaim(n)
	g, err := s.Claim(b.Context(), c)
	h := cache.Hold{Key: c.Key, Fence: g.Fence}
	if err == nil {
		err = s.Dispatch(b.Context(), h, cache.NewNonce())
	}
	if err == nil {
		err = s.Settle(b.Context(), h, completedWrite(frames))
	}
	if err != nil || g.Role != cache.Lead {
		b.Errorf("%+v, %v", g, err)
	}
}

// BenchmarkWrites is that by one writer alone, and by 64 at once, who share
// their syncs: they must reach eight times the rate.
func BenchmarkWrites(b *testing.B) {
	frames := answer(1, 1000)
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			s := mustOpen(b, b.TempDir(), Options{})
			var wg sync.WaitGroup
			var n atomic.Int64
			batches := s.writer.batches.Load()
			b.ReportAllocs()
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						writeOnce(b, s, uint64(i), frames)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(2*float64(b.N)/float64(s.writer.batches.Load()-batches), "steps/sync")
		})
	}
}

// BenchmarkDispatch is a dispatch alone, and a bare write and fsync of a file
// for comparison.
func BenchmarkDispatch(b *testing.B) {
	b.Run("store", func(b *testing.B) {
		s := mustOpen(b, b.TempDir(), Options{})
		for n := 0; b.Loop(); n++ {
			b.StopTimer()
			c := writeClaim(uint64(n))
			g, err := s.Claim(b.Context(), c)
			b.StartTimer()
			if err == nil {
				err = s.Dispatch(b.Context(), cache.Hold{Key: c.Key, Fence: g.Fence}, cache.NewNonce())
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fsync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		page := make([]byte, 4096)
		for b.Loop() {
			if _, err := f.Write(page); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
