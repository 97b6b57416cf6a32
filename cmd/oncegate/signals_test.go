package main

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The first signal takes readiness down, while calls are still served; the
// second one ends the process at once.
func TestSignals(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command("oncegate", "serve", "--listen", "127.0.0.1:0") // the test binary, see TestMain
	c.Dir = dir
	c.Env = append(os.Environ(), "ONCEGATE_SERVER_ADMIN_LISTEN=127.0.0.1:0", "ONCEGATE_SERVER_SHUTDOWN_DELAY=1h")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Process.Kill()
	address := map[string]string{}
	lines := bufio.NewScanner(out)
	for len(address) < 2 && lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 2 {
			address[f[0]] = strings.TrimSuffix(f[1], "/v1")
		}
	}
	if ready(t, address["dashboard"]) != 200 {
		t.Error("not ready at first")
	}

	c.Process.Signal(syscall.SIGTERM)
	for deadline := time.Now().Add(20 * time.Second); ready(t, address["dashboard"]) != 503; {
		if time.Now().After(deadline) {
			t.Fatal("readiness stays up after the signal")
		}
	}
	if status, _, body := post(t, address["base_url"], hello); status != 200 {
		t.Errorf("in the delay a call gets %d %s", status, body)
	}

	c.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case <-ended:
		if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() || s.Signal() != syscall.SIGTERM {
			t.Errorf("ended with %v", c.ProcessState)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the second signal does not end it")
	}
}

func ready(t *testing.T, admin string) int {
	t.Helper()
	r, err := http.Get(admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}
