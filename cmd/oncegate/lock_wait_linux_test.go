package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"oncegate/cache/local"
)

// A gateway that waits for another process to leave the store's directory
// serves nobody: the first signal ends it, at once.
func TestSignalWhileWaitingForTheDirectory(t *testing.T) {
	dir := t.TempDir()
	store, err := local.Open(filepath.Join(dir, "data"), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := exec.Command("oncegate", "serve", "--listen", "127.0.0.1:0") // the test binary, see TestMain
	c.Dir = dir
	c.Env = append(os.Environ(), "ONCEGATE_SERVER_ADMIN_LISTEN=127.0.0.1:0", "ONCEGATE_SERVER_SHUTDOWN_GRACE=1h")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for deadline := time.Now().Add(20 * time.Second); !hasOpen(c.Process.Pid, "/lock"); {
		select {
		case err := <-ended:
			t.Fatalf("it does not wait: %v", err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("it never asked for the directory")
		}
	}
	c.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
		if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
			t.Errorf("ended with %v", c.ProcessState)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the signal does not end it")
	}
}

// hasOpen says whether a process has a file open whose name ends so.
func hasOpen(pid int, end string) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if name, err := os.Readlink(f); err == nil && strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}
