package redistest

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Clock is the wall clock of servers, which runs ahead of the machine's by
// what was passed. It is libfaketime's.
type Clock struct {
	tb   testing.TB
	file string

	mu    sync.Mutex
	ahead time.Duration
}

// NewClock makes one that shows the time.
func NewClock(tb testing.TB) *Clock {
	c := &Clock{tb: tb, file: filepath.Join(tb.TempDir(), "clock")}
	c.Pass(0)
	return c
}

// Pass lets d go by. A negative d sets the clock back.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
	text := strconv.FormatFloat(c.ahead.Seconds(), 'f', 3, 64)
	if c.ahead >= 0 {
		text = "+" + text
	}
	next := c.file + ".next" // in one step: it is read at any moment
	if err := os.WriteFile(next, []byte(text+"\n"), 0o600); err != nil {
		c.tb.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		c.tb.Fatal(err)
	}
}

// Now is the time by this clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// Start starts a server that goes by this clock.
func (c *Clock) Start(settings ...string) *Server {
	c.tb.Helper()
	return start(c.tb, c.env(), settings)
}

func (c *Clock) env() []string {
	c.tb.Helper()
	find := func(patterns ...string) string {
		for _, p := range patterns {
			if found, _ := filepath.Glob(p); len(found) > 0 {
				return found[0]
			}
		}
		c.tb.Fatalf("there is no %s: run test/run.sh, or apt-get install libfaketime", patterns[0])
		return ""
	}
	return []string{
		// The C library itself comes second, so that its malloc is taken: the
		// server's own asks for the time before there is one.
		"LD_PRELOAD=" + find("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1") +
			":" + find("/lib/*/libc.so.6", "/lib*/libc.so.6"),
		"FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1",
	}
}
