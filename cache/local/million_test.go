package local

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
)

// million fills a directory with kept records of writes, with answers of 500
// bytes, that settled at this moment.
func million(b *testing.B, n int, settled time.Time, keep, memory time.Duration) string {
	b.Helper()
	dir := b.TempDir()
	s := mustOpen(b, dir, Options{})
	one := sendWrite(b, s, writeOf(1))
	settleAs(b, s, one, writeDone(1, 500))
	k := one.Key
	check(b, s.Close())
	db, err := sql.Open("sqlite", filepath.Join(dir, "oncegate.db"))
	check(b, err)
	defer db.Close()
	_, err = db.Exec(`INSERT INTO writes (key, fence, origin, print, tool, principal, about, claimed, state, doubt, lost, dispatched,
			settled, expires, forgotten, status, size, sum, nonce, how, trail, lapses, frames)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		SELECT randomblob(32), fence, origin, print, 'tool-' || (i % 10), 'principal-' || (i % 7), about, ?2 - i * 1000, state, doubt, lost, ?2 - i * 1000,
			?2, ?3 + i, ?4 + i, status, size, sum, nonce, how, trail, lapses, frames FROM n, writes WHERE key = ?5`,
		n, settled.UnixNano(), settled.Add(keep).UnixNano(), settled.Add(memory).UnixNano(), k[:])
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

// BenchmarkMillion is what a million kept records make of a start (at most 2 s
// and 200 MiB), of a list, and of claims and whole writes while all answers and
// then all keys are swept (at most 50 ms at the 99th percentile).
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	b.Run("start", func(b *testing.B) {
		dir := million(b, n, time.Now(), 24*time.Hour, 7*24*time.Hour)
		before := resident(b)
		for b.Loop() {
			s := mustOpen(b, dir, Options{})
			check(b, s.Close())
		}
		b.ReportMetric(float64(before)/(1<<20), "MiB-before")
		b.ReportMetric(float64(resident(b))/(1<<20), "MiB")
		s := mustOpen(b, dir, Options{})
		for _, f := range []cache.Filter{{}, {Tool: "tool-3"}, {Tool: "none"}, {State: cache.Unknown}, {State: cache.Tombstone}, {Principal: "none"}} {
			begin := time.Now()
			if _, _, err := s.Records(b.Context(), f, "", 100); err != nil {
				b.Fatal(err)
			}
			b.Logf("list %+v: %v", f, time.Since(begin))
		}
		if _, err := s.Doubts(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
	b.Run("sweep", func(b *testing.B) {
		b.StopTimer()
		const n = 100_000 // as fast as of a million
		dir := million(b, n, time.Now().Add(-time.Hour), time.Minute, 2*time.Minute)
		s := mustOpen(b, dir, Options{})
		b.StartTimer()
		begin := time.Now()
		s.writer.put(op{what: sweeping})
		var claims, writes []time.Duration
		frames := answer(1, 500)
		left := n
		for i := uint64(0); left > 1; i++ {
			at := time.Now()
			c := writeClaim(i)
			g, err := s.Claim(b.Context(), c)
			claims = append(claims, time.Since(at))
			h := cache.Hold{Key: c.Key, Fence: g.Fence}
			if err == nil {
				err = s.Dispatch(b.Context(), h, cache.NewNonce())
			}
			if err == nil {
				err = s.Settle(b.Context(), h, completedWrite(frames))
			}
			if err != nil {
				b.Fatal(err)
			}
			writes = append(writes, time.Since(at))
			if i%200 == 0 {
				left = s.count(b, "(SELECT 1 FROM writes WHERE state IN (2, 7) AND forgotten < "+strconv.FormatInt(begin.UnixNano(), 10)+" LIMIT 2)")
			}
			time.Sleep(time.Duration(rand.IntN(int(2 * time.Millisecond)))) // as requests come
		}
		for name, all := range map[string][]time.Duration{"claim": claims, "write": writes} {
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, name+"-p99-ms")
			b.ReportMetric(float64(all[len(all)-1].Microseconds())/1000, name+"-max-ms")
		}
		b.Logf("swept in %v, beside %d writes", time.Since(begin), len(writes))
	})
}

// resident is how many bytes of memory the process has.
func resident(b *testing.B) (bytes int64) {
	b.Helper()
	runtime.GC()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(os.Getpid()), "status"))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "VmRSS:") {
			fmt.Sscanf(line, "VmRSS: %d kB", &bytes)
		}
	}
	return bytes << 10
}
