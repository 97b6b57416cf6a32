package test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// These run a binary without the race detector, whose memory and time would be
// measured instead.

func TestB002MemoryOfALongLine(t *testing.T) {
	t.Parallel()
	long := up.Delta(`{"content":"` + strings.Repeat("a", 4_000_000) + `"}`)
	u := up.New(t, up.SSE(long, up.Finish(), up.Done))
	g := harness.Start(t, u.URL(), harness.Plain)
	g.Chat(said("first", stream)) // what is allocated once
	before := g.PeakRSS()
	for range 3 {
		if a := g.Chat(cc(stream)); !strings.Contains(a.Body, up.Done) {
			t.Errorf("%d bytes of %d", len(a.Body), len(long))
		}
	}
	if grown := g.PeakRSS() - before; grown > 64<<20 {
		t.Errorf("a line of 4 MB made the process grow by %d MiB", grown>>20)
	}
}

func TestB036MemoryOfABomb(t *testing.T) {
	t.Parallel()
	// 1 GiB as 64 members of one gzip file, which unpack one after the other.
	bomb := strings.Repeat(gzipped(t, bytes.Repeat([]byte(" "), 16<<20)), 64)
	u := up.New(t)
	g := harness.Start(t, u.URL(), harness.Plain)
	g.Chat(cc())
	before := g.PeakRSS()
	a := g.Chat(bomb, "Content-Encoding: gzip")
	problem{413, "request_too_large", "false", "refused", "too_large", ""}.want(t, a)
	if grown := g.PeakRSS() - before; grown > 200<<20 {
		t.Errorf("%d KiB that unpack to 1 GiB made the process grow by %d MiB", len(bomb)>>10, grown>>20)
	}
	wantCalls(t, u, 1)
}

// A stream of 20 KB in segments of one byte must not be scanned again from its
// beginning for each of them.
func TestB008TimeOfSingleBytes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("y", 20<<10)
	u := up.New(t, up.Seq(up.Open(), up.Slowly("data: "+up.Chunk(text)+"\n\n", 0), up.Events(up.Finish(), up.Done)))
	g := harness.Start(t, u.URL(), harness.Plain)
	before := g.CPU()
	a := g.Chat(cc(stream))
	if got := words(harness.Data(a.Body)); got != text {
		t.Errorf("%d bytes of %d", len(got), len(text))
	}
	// 200 ms on a quiet machine, of which the 20,000 reads take most.
	if spent := g.CPU() - before; spent > time.Second {
		t.Errorf("it took %v of CPU", spent)
	}
}
