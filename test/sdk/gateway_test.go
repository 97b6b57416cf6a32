//go:build sdk

package sdk

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The gateway keys of two clients.
const (
	keyAlice = "ogk_alice0000000000000000000000000000000000"
	keyBob   = "ogk_bob000000000000000000000000000000000000"
)

// gatewayConfig has the two upstreams, as providers of the kind whose SDK is
// checked. aimock has the models that journalled names.
const gatewayConfig = `
server: {listen: "%[1]s", admin_listen: "%[2]s"}
auth:
  keys:
    - {name: alice, hash: "sha256:%[3]x"}
    - {name: bob, hash: "sha256:%[4]x"}
store: {url: "local:%[5]s"}
providers:
  - {name: upstream, kind: %[6]s, base_url: "%[7]s", api_keys: ["%[9]s"]}
  - {name: aimock, kind: %[6]s, base_url: "%[8]s", api_keys: ["%[9]s"]}
models:
%[10]s  - {name: configured-model, targets: [{provider: upstream, model: upstream-name}]}
  - {name: "*", targets: [{provider: upstream}]}
`

// A gateway is the built binary at work on free loopback ports.
type gateway struct {
	URL   string // without /v1
	Admin string
}

// startGateway serves kind's operations from u, and from aimock for the models
// that suite has there, until the test ends, and then wants a clean exit.
func startGateway(t *testing.T, suite, kind string, u *upstream) gateway {
	t.Helper()
	if os.Getenv("SDK_PLAIN") != "" {
		return startPlain(t, suite, u)
	}
	binary := os.Getenv("ONCEGATE_BIN")
	if binary == "" {
		t.Fatal("ONCEGATE_BIN names no binary: run test/sdk/run.sh, which builds one")
	}
	dir := t.TempDir()
	listen, admin := freePorts(t)
	config := filepath.Join(dir, "config.yaml")
	var models strings.Builder
	for i := range journalled {
		fmt.Fprintf(&models, "  - {name: %s-%d, targets: [{provider: aimock}]}\n", suite, i+1)
	}
	text := fmt.Sprintf(gatewayConfig, listen, admin, sha256.Sum256([]byte(keyAlice)), sha256.Sum256([]byte(keyBob)),
		filepath.Join(dir, "data"), kind, u.URL, journal(u).URL, upstreamKey, models.String())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	cmd := exec.Command(binary, "serve", "--config", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-exited:
			if err != nil {
				t.Errorf("the gateway's exit: %v", err)
			}
		case <-time.After(15 * time.Second):
			cmd.Process.Kill()
			<-exited
			t.Error("the gateway didn't stop within 15 s of SIGTERM")
		}
		if t.Failed() {
			t.Logf("the gateway's last lines:\n%s", tail(log.String(), 60))
		}
	})

	g := gateway{URL: "http://" + listen, Admin: "http://" + admin}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if resp, err := http.Get(g.URL + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return g
			}
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("the gateway ended before it was ready: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the gateway wasn't ready within 20 s")
		}
	}
}

// freePorts gives two loopback addresses that were free a moment ago.
func freePorts(t *testing.T) (string, string) {
	t.Helper()
	var addrs [2]string
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // after both are known, so that they differ
		addrs[i] = l.Addr().String()
	}
	return addrs[0], addrs[1]
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
