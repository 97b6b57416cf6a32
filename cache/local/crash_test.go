package local

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"oncegate/cache"
)

// TestKillNine: a killed process leaves every explicit answer whose Settle
// had returned, the lock free, and its attempts to be booked.
func TestKillNine(t *testing.T) {
	if dir := os.Getenv("ONCEGATE_TEST_KILL"); dir != "" {
		victim(t, dir)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillNine$")
	cmd.Env = append(os.Environ(), "ONCEGATE_TEST_KILL="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	settled := 0
	for lines := bufio.NewScanner(out); settled < 200 && lines.Scan(); {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "settled %d", &n); err == nil {
			settled = n
		}
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("process ", cmd.Process.Pid)) {
		t.Errorf("while it runs: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()

	s := mustOpen(t, dir, Options{})
	if settled < 200 {
		t.Fatalf("it settled %d", settled)
	}
	for n := 1; n <= settled; n++ {
		if g := claimRole(t, s, claimOf(n, true)); g.Role != cache.Replay || g.Result.Frames[1].Data[0] != byte(n) {
			t.Fatalf("%d of %d: role %d", n, settled, g.Role)
		}
	}
	lost := lost(s.Journal())
	if len(lost) == 0 || lost[0].Target != "mock/first" {
		t.Fatalf("lost %+v", lost)
	}
	if len(lost) > 3 { // the first, the last begun, and one whose End was not written yet
		t.Errorf("lost %d attempts", len(lost))
	}
	if g := claimRole(t, s, claimOf(1<<20, true)); g.Role != cache.Lead || g.Fence <= lost[len(lost)-1].Fence {
		t.Errorf("a claim after the crash is %+v", g)
	}
}

// victim runs until it is killed.
func victim(t *testing.T, dir string) {
	s := mustOpen(t, dir, Options{})
	if _, err := s.Journal().Begin(cache.Hold{Key: cache.Key{1}, Fence: 1}, "mock/first"); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute) // should its parent be gone
	for n := 1; time.Now().Before(deadline); n++ {
		c := claimOf(n, true)
		g := claimRole(t, s, c)
		h := cache.Hold{Key: c.Key, Fence: g.Fence}
		id, err := s.Journal().Begin(h, "mock/m")
		if err == nil {
			err = s.Settle(t.Context(), h, completedAs(answer(n, 500), true))
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Journal().End(id)
		fmt.Println("settled", n)
	}
}
