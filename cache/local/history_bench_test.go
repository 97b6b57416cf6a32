package local

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"oncegate/cache"
)

// benchBegin is when the requests begin that usual gives, twenty a second.
var benchBegin = time.Now().Add(-15 * time.Hour)

// usual gives requests as a busy gateway has them: many share an answer, ids
// and keys are random.
func usual(n int) cache.Request {
	rnd := rand.New(rand.NewPCG(uint64(n), 7))
	var id [16]byte
	for i := range id {
		id[i] = byte(rnd.Uint32())
	}
	r := cache.Request{
		At: benchBegin.Add(time.Duration(n) * 50 * time.Millisecond), ID: "req_" + hex.EncodeToString(id[:]),
		Series: cache.Series{
			Model: []string{"gpt-4o", "claude-sonnet-4", "deepseek-chat"}[rnd.IntN(3)], Provider: "openai", Operation: "chat",
			User: fmt.Sprint("user-", rnd.IntN(500)), Key: fmt.Sprint("team-", rnd.IntN(10)), Outcome: "executed",
		},
		Target: "openai/gpt-4o", Status: 200, Attempts: 1, Took: time.Duration(rnd.IntN(5e9)), Upstream: time.Duration(rnd.IntN(5e9)), Overhead: 200 * time.Microsecond,
		Tokens: cache.Tokens{Known: true, Input: rnd.Int64N(8000), Output: rnd.Int64N(2000), Cached: 1024},
		Billed: cache.Amount{Money: cache.Picodollars(rnd.Int64N(1e11)), Known: true},
		Timeline: []cache.Moment{
			{At: 150 * time.Microsecond, What: cache.WasClaimed, Fence: cache.Fence(n)},
			{At: 200 * time.Microsecond, What: cache.WasTried, Target: "openai/gpt-4o", Status: 200, Result: "ok", For: time.Duration(rnd.IntN(5e9))},
			{At: time.Duration(rnd.IntN(5e9)), What: cache.WasAnswered, Status: 200},
			{At: time.Duration(rnd.IntN(5e9)), What: cache.WasStored, Result: "completed"},
		},
	}
	for i := range r.Record {
		r.Record[i] = byte(rnd.Uint32())
	}
	if n%5 == 0 {
		r.Outcome, r.Reason, r.Billed, r.Saved = "replayed", "key", cache.Amount{}, r.Billed
		r.Timeline = []cache.Moment{{What: cache.WasShared, Result: "key"}}
	}
	return r
}

// BenchmarkLog is what a request waits for, BenchmarkLogWritten with the writing
// behind it.
func BenchmarkLog(b *testing.B) {
	var some [64]cache.Request
	for i := range some {
		some[i] = usual(i)
	}
	var rows cache.Rows
	b.ReportAllocs()
	done := spent(b)
	n := 0
	for b.Loop() {
		if rows.Add(&some[n%len(some)]); rows.Full() {
			rows = rows.Emptied()
		}
		n++
	}
	done()
}

func BenchmarkLogWritten(b *testing.B) {
	s := mustOpen(b, b.TempDir(), Options{})
	var some [64]cache.Request
	for i := range some {
		some[i] = usual(i)
	}
	b.ReportAllocs()
	done := spent(b)
	n := 0
	for b.Loop() {
		if s.Log(&some[n%len(some)]); n%4096 == 0 {
			awaitWritten(b, s)
		}
		n++
	}
	awaitWritten(b, s)
	done()
}

// spent reports the CPU's time, which a busy machine does not stretch.
func spent(b *testing.B) func() {
	now := func() int64 {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	begin := now()
	return func() { b.ReportMetric(float64(now()-begin)/float64(b.N), "cpu-ns/op") }
}

func awaitWritten(t testing.TB, s *Store) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.history.mu.Lock()
		n := len(s.history.full)
		s.history.mu.Unlock()
		if n == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d blocks are not written", n)
		}
	}
}

// BenchmarkRequestsOfAMillion reads pages of a log of a million requests.
func BenchmarkRequestsOfAMillion(b *testing.B) {
	const many = 1_000_000
	s := mustOpen(b, b.TempDir(), Options{})
	var rare cache.Request
	for n := range many {
		r := usual(n)
		switch n {
		case 1000:
			r.Outcome, r.User = "failed", "user-1" // both are in every block
		case 2000:
			rare = r
		}
		s.Log(&r)
		if n%4096 == 0 {
			awaitWritten(b, s)
		}
	}
	awaitWritten(b, s)
	if s.Missed() > 0 {
		b.Fatalf("%d are missing", s.Missed())
	}
	for name, filter := range map[string]cache.RequestFilter{
		"the latest":                   {},
		"one user":                     {Series: cache.Series{User: "user-77"}},
		"a model":                      {Series: cache.Series{Model: "gpt-4o", Outcome: "replayed"}},
		"a name that is nowhere":       {Series: cache.Series{User: "nobody"}},
		"names that are never at once": {Series: cache.Series{Outcome: "replayed", Reason: "", Key: "team-1", User: "user-1", Model: "gpt-4o", Provider: "openai", Operation: "chat", Tool: "none"}},
		"a reader of few":              {Series: cache.Series{Outcome: "executed", User: "user-9", Key: "team-3"}, Until: benchBegin.Add(2000 * time.Second)},
		"an id, of the oldest":         {Find: cache.Find{ID: rare.ID}},
		"a record, of the oldest":      {Find: cache.Find{Record: hex.EncodeToString(rare.Record[:5])}},
		"a record that is not":         {Find: cache.Find{Record: "0123456789abcdef"}},
		"an old day":                   {Until: benchBegin.Add(500 * time.Second)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			done := spent(b)
			for b.Loop() {
				if _, _, err := s.Requests(b.Context(), filter, "", 200); err != nil {
					b.Fatal(err)
				}
			}
			done()
		})
	}
	var size int64
	for _, seg := range s.history.segments {
		size += seg.bytes()
	}
	b.Logf("%d bytes of disk a request", size/many)
}
