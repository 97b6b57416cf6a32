package redis

import (
	"fmt"
	"testing"
	"time"

	"oncegate/cache"
	"oncegate/cache/redis/redistest"
)

func BenchmarkBook(b *testing.B) {
	s := mustOpen(b, "redis://127.0.0.1:1", Options{Oops: func(string, error) {}})
	l := busy(time.Now(), 7)
	s.Book(l)
	b.ReportAllocs()
	for b.Loop() {
		s.Book(l)
	}
}

// busy is a line of one of many series.
func busy(at time.Time, n int) cache.Line {
	return cache.Line{
		At: at,
		Series: cache.Series{Model: "gpt-4o-mini", Provider: "openai", Operation: "chat.completions", User: fmt.Sprintf("user-%04d", n),
			Key: "research", Outcome: "executed"},
		Figures: cache.Figures{Requests: 1, Billed: 1, BilledInput: 812, BilledOutput: 120, Spent: cache.Money{Picos: 193_800_000}},
	}
}

// BenchmarkFold is the cost of a thousand settlements to the node that folds
// and to its Redis, once both have these series.
func BenchmarkFold(b *testing.B) {
	for _, series := range []int{1, 50, 500} {
		b.Run(fmt.Sprintf("%d series", series), func(b *testing.B) {
			server := redistest.Start(b)
			s := mustOpen(b, "redis://"+server.Addr, Options{})
			s.ledger.turn <- struct{}{} // the timer waits
			defer func() { <-s.ledger.turn }()
			now := time.Now()
			raw := server.Client()
			for b.Loop() {
				b.StopTimer()
				pipe := raw.Pipeline()
				for n := range 1000 {
					pipe.RPush(b.Context(), tailName(n%tags), s.encodeLines([]cache.Line{busy(now, n%series)}))
				}
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := s.ledger.fold(b.Context(), true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkScan reads a day of quarters and of minutes, with 50 series each.
func BenchmarkScan(b *testing.B) {
	server := redistest.Start(b)
	s := mustOpen(b, "redis://"+server.Addr, Options{})
	day := time.Now().Truncate(24 * time.Hour)
	for minute := range 24 * 60 {
		for n := range 50 {
			s.Book(busy(day.Add(-time.Duration(minute)*time.Minute), n))
		}
		if minute%60 == 59 {
			if err := s.ledger.work(b.Context(), true); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Logf("%s in Redis", server.Info("memory", "used_memory_human"))
	for name, level := range map[string]cache.Level{"minutes": cache.Minute, "quarters": cache.Quarter} {
		b.Run(name, func(b *testing.B) {
			sums := 0
			for b.Loop() {
				sums = 0
				err := s.Scan(b.Context(), level, day.Add(-24*time.Hour), day.Add(time.Hour), func(time.Time, cache.Series, *cache.Figures) { sums++ })
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(sums), "sums")
		})
	}
}
