package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"oncegate/cache"
)

// logsOf lists the ids of all requests, the latest first.
func logsOf(t *testing.T, s *Store, f cache.RequestFilter) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		page, next, err := s.Requests(t.Context(), f, cursor, 200)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			ids = append(ids, r.ID)
		}
		if cursor = next; next == "" {
			return ids
		}
	}
}

// logs logs requests of these numbers, which are their ids.
func logs(s *Store, from, until int) {
	for n := from; n < until; n++ {
		s.Log(&cache.Request{At: time.Now(), ID: fmt.Sprint(n), Series: cache.Series{Model: "m"}})
	}
}

// downFrom is what logsOf should give.
func downFrom(until, from int) (ids []string) {
	for n := until - 1; n >= from; n-- {
		ids = append(ids, fmt.Sprint(n))
	}
	return ids
}

// image copies what a kill would leave of the log of requests.
func image(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "requests") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestRequestsOutliveAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		logs(s, 0, 10)
		time.Sleep(2 * time.Second)
		early := image(t, dir)
		logs(s, 10, cache.BlockRequests+5)
		synctest.Wait() // the block is written, the tail is as it was
		between := image(t, dir)
		time.Sleep(2 * time.Second)
		late := image(t, dir)
		for name, c := range map[string]struct {
			dir string
			n   int
		}{"before the first block": {early, 10}, "between the block and the tail": {between, cache.BlockRequests}, "after both": {late, cache.BlockRequests + 5}} {
			for round := range 2 { // and again, after a clean end
				again := mustOpen(t, c.dir, Options{})
				want := downFrom(c.n, 0)
				if round == 1 {
					want = append(downFrom(1400, 1000), want...)
				}
				if got := logsOf(t, again, cache.RequestFilter{}); !slices.Equal(got, want) {
					t.Fatalf("%s: %d requests, want %d: %v", name, len(got), len(want), got)
				}
				if round == 0 {
					logs(again, 1000, 1400)
				}
				again.Close()
			}
		}
		if got := logsOf(t, s, cache.RequestFilter{}); len(got) != cache.BlockRequests+5 {
			t.Errorf("the one that lived has %d", len(got))
		}
	})
}

// Wherever a write was torn, what was whole before it is there, and what comes
// after it is too.
func TestTornRequestsAreSkipped(t *testing.T) {
	for _, file := range []string{tailName, filepath.Base(segmentOf("", 1).name)} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir, Options{})
			logs(s, 0, 2*cache.BlockRequests+3)
			s.Close()
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || len(b) == 0 {
				t.Fatalf("%s is %d bytes, %v", file, len(b), err)
			}
			for cut := 0; cut < len(b); cut += 1 + len(b)/11 {
				for _, junk := range []bool{false, true} {
					torn := image(t, dir)
					left := b[:cut:cut]
					if junk {
						left = append(left, make([]byte, len(b)-cut)...)
					}
					if err := os.WriteFile(filepath.Join(torn, file), left, 0o600); err != nil {
						t.Fatal(err)
					}
					again := mustOpen(t, torn, Options{})
					got := logsOf(t, again, cache.RequestFilter{})
					if file == tailName && len(got) < 2*cache.BlockRequests || file != tailName && len(got) < 3 || len(got) >= 2*cache.BlockRequests+3 {
						t.Fatalf("%s cut at %d of %d: %d requests", file, cut, len(b), len(got))
					}
					logs(again, 5000, 5300)
					want := append(downFrom(5300, 5000), got...)
					again.Close()
					again = mustOpen(t, torn, Options{})
					if got := logsOf(t, again, cache.RequestFilter{}); !slices.Equal(got, want) {
						t.Fatalf("%s cut at %d: %d requests after some more, want %d", file, cut, len(got), len(want))
					}
					again.Close()
				}
			}
		})
	}
}

func TestADamagedBlockIsLeftOutAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var told []string
		s := mustOpen(t, dir, Options{Oops: func(step string, err error) { told = append(told, step+": "+err.Error()) }})
		const n = cache.BlockRequests
		logs(s, 0, 3*n)
		synctest.Wait()
		name := segmentOf(dir, 1).name
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[s.history.segments[0].blocks[1].at+100] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := logsOf(t, s, cache.RequestFilter{}); !slices.Equal(got, append(downFrom(3*n, 2*n), downFrom(n, 0)...)) {
			t.Errorf("%d requests", len(got))
		}
		if len(told) != 1 || !strings.Contains(told[0], "is left out") {
			t.Errorf("told: %q", told)
		}
	})
}

func TestOldRequestsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := mustOpen(t, dir, Options{})
		s.history.room, s.history.most = 8<<10, 40<<10
		const n = 60 * cache.BlockRequests
		for from := 0; from < n; from += cache.BlockRequests {
			logs(s, from, from+cache.BlockRequests)
			synctest.Wait()
		}
		size := int64(0)
		names, err := filepath.Glob(filepath.Join(dir, requestsPrefix+"*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
		got := logsOf(t, s, cache.RequestFilter{})
		if size > 52<<10 || size < 24<<10 || len(got) < cache.BlockRequests || len(got) > n/2 || !slices.Equal(got, downFrom(n, n-len(got))) {
			t.Errorf("%d bytes with %d requests are left", size, len(got))
		}
		// A segment is of one day, and goes when its last block is too old. What
		// the disk says of a file's age is by its own clock.
		s.history.now = func() time.Time { return time.Now().Add(31*24*time.Hour + 48*365*24*time.Hour) }
		logs(s, n, n+cache.BlockRequests)
		synctest.Wait()
		if got := logsOf(t, s, cache.RequestFilter{}); !slices.Equal(got, downFrom(n+cache.BlockRequests, n)) {
			t.Errorf("%d requests are left after a month", len(got))
		}
	})
}

// While nothing can be written, requests wait in memory, as many as have room;
// none of them waits for that.
func TestRequestsThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var told atomic.Int32
		s := mustOpen(t, dir, Options{Oops: func(string, error) { told.Add(1) }})
		name := segmentOf(dir, 1).name
		if err := os.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		const room = cache.MostWaiting * cache.BlockRequests
		logs(s, 0, room+100)
		time.Sleep(10 * time.Second)
		if told.Load() == 0 || s.Missed() != 100 {
			t.Errorf("%d are missed; told: %d times", s.Missed(), told.Load())
		}
		if got := logsOf(t, s, cache.RequestFilter{}); !slices.Equal(got, downFrom(room, 0)) {
			t.Errorf("%d are listed", len(got))
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		logs(s, room, room+3)
		if got := logsOf(t, s, cache.RequestFilter{}); !slices.Equal(got, downFrom(room+3, 0)) {
			t.Errorf("%d are listed", len(got))
		}
		told.Store(0)
		if err := s.Close(); err != nil || told.Load() > 0 {
			t.Errorf("close: %v, and %d faults", err, told.Load())
		}
		again := mustOpen(t, dir, Options{})
		if got := logsOf(t, again, cache.RequestFilter{}); !slices.Equal(got, downFrom(room+3, 0)) {
			t.Errorf("%d are there after it", len(got))
		}
	})
}

func TestASearchEndsWithItsContext(t *testing.T) {
	s := mustOpen(t, t.TempDir(), Options{})
	logs(s, 0, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Requests(ctx, cache.RequestFilter{}, "", 10); !errors.Is(err, ctx.Err()) {
		t.Errorf("%v", err)
	}
}
