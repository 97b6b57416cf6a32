package gateway

import (
	"encoding/binary"
	"testing"
	"time"

	"oncegate/cache"
)

func TestFailedCalls(t *testing.T) {
	key := func(i int) (k cache.Key) { binary.BigEndian.PutUint64(k[:], uint64(i)); return k }
	var f failedCalls
	start := time.Now()
	if f.has(key(1), start) {
		t.Error("an empty one has a key")
	}
	f.put(key(1), start)
	f.put(key(2), start.Add(time.Second))
	f.put(key(1), start.Add(30*time.Second)) // it failed again
	for at, want := range map[time.Duration][2]bool{
		0: {true, true}, 61*time.Second - 1: {true, true}, 61 * time.Second: {true, false}, 90*time.Second - 1: {true, false}, 90 * time.Second: {false, false},
	} {
		if got := [2]bool{f.has(key(1), start.Add(at)), f.has(key(2), start.Add(at))}; got != want {
			t.Errorf("after %v: %v, want %v", at, got, want)
		}
	}
	f.put(key(3), start.Add(70*time.Second))
	if !f.has(key(1), start.Add(80*time.Second)) || len(f.until) != 2 {
		t.Errorf("the old mark of a key took its new one along: %v", f.until)
	}
	f.put(key(4), start.Add(time.Hour))
	if len(f.until) != 1 || len(f.order) != 1 || f.n.Load() != 1 {
		t.Errorf("after an hour: %d, %d, %d", len(f.until), len(f.order), f.n.Load())
	}
	for i := range failedMost + 10 {
		f.put(key(100+i), start.Add(time.Hour))
	}
	if len(f.until) != failedMost || f.has(key(100), start.Add(time.Hour)) || !f.has(key(100+failedMost+9), start.Add(time.Hour)) {
		t.Errorf("%d are remembered", len(f.until))
	}
}
