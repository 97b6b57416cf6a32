//go:build sdk

package sdk

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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
// checked. aimock has the models that journalled names; both tools are ours.
const gatewayConfig = `
server: {listen: "127.0.0.1:0", admin_listen: "127.0.0.1:0"}
auth:
  keys:
    - {name: alice, hash: "sha256:%[1]x"}
    - {name: bob, hash: "sha256:%[2]x"}
store: {url: "local:%[3]s"}
providers:
  - {name: upstream, kind: %[4]s, base_url: "%[5]s", api_keys: ["%[7]s"]}
  - {name: aimock, kind: %[4]s, base_url: "%[6]s", api_keys: ["%[7]s"]}
models:
%[8]s  - {name: configured-model, targets: [{provider: upstream, model: upstream-name}]}
  - {name: "*", targets: [{provider: upstream}]}
tools:
  - {name: payments, base_url: "%[5]s", headers: {Authorization: "Bearer %[7]s"}, key: required}
  - {name: orders, base_url: "%[5]s", headers: {Authorization: "Bearer %[7]s"}, key: required, key_fields: [/ref, /amount], window: 1h}
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
	config := filepath.Join(dir, "config.yaml")
	var models strings.Builder
	for i := range journalled {
		fmt.Fprintf(&models, "  - {name: %s-%d, targets: [{provider: aimock}]}\n", suite, i+1)
	}
	text := fmt.Sprintf(gatewayConfig, sha256.Sum256([]byte(keyAlice)), sha256.Sum256([]byte(keyBob)),
		filepath.Join(dir, "data"), kind, u.URL, journal(u).URL, upstreamKey, models.String())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	log := &servingLog{serving: make(chan gateway, 1)}
	cmd := exec.Command(binary, "serve", "--config", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
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

	var g gateway
	late := time.After(20 * time.Second)
	for {
		select {
		case g = <-log.serving:
		case err := <-exited:
			exited <- err
			t.Fatalf("the gateway ended before it was ready: %v", err)
		case <-late:
			t.Fatal("the gateway wasn't ready within 20 s")
		case <-time.After(20 * time.Millisecond):
		}
		if g.URL == "" {
			continue
		}
		if resp, err := http.Get(g.URL + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return g
			}
		}
	}
}

// A servingLog keeps what a gateway writes, and finds in it where it listens.
type servingLog struct {
	mu      sync.Mutex
	text    bytes.Buffer
	found   bool
	serving chan gateway
}

var serving = regexp.MustCompile(`"msg":"serving","listen":"([^"]+)","admin_listen":"([^"]+)".*\n`)

func (l *servingLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if l.found {
		return len(p), nil
	}
	if at := serving.FindSubmatch(l.text.Bytes()); at != nil {
		l.found = true
		l.serving <- gateway{URL: "http://" + string(at[1]), Admin: "http://" + string(at[2])}
	}
	return len(p), nil
}

func (l *servingLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
