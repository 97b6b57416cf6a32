package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Cluster is three masters that share the slots.
type Cluster []*Server

// StartCluster starts one. A clock may be nil.
func StartCluster(tb testing.TB, c *Clock) Cluster {
	tb.Helper()
	var env []string
	if c != nil {
		env = c.env()
	}
	var servers Cluster
	args := []string{"--cluster", "create"}
	for range 3 {
		s := start(tb, env, []string{"--cluster-enabled", "yes",
			"--cluster-node-timeout", "900000000"}) // a clock that is set ahead looks like silence
		servers = append(servers, s)
		args = append(args, s.Addr)
	}
	if out, err := exec.Command("redis-cli", append(args, "--cluster-yes")...).CombinedOutput(); err != nil {
		tb.Fatalf("redis-cli: %v\n%s", err, out)
	}
	for _, s := range servers {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if info, _ := s.Do("cluster", "info").(string); strings.Contains(info, "cluster_state:ok") {
				break
			}
			if time.Now().After(deadline) {
				tb.Fatal("the cluster does not come up")
			}
		}
	}
	return servers
}

// URL is one that a store can be opened with.
func (c Cluster) URL() string {
	addrs := make([]string, len(c))
	for i, s := range c {
		addrs[i] = s.Addr
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// Do runs a command on each of the servers.
func (c Cluster) Do(args ...any) {
	for _, s := range c {
		s.Do(args...)
	}
}

// StartSentinel starts one that watches a master under a name.
func StartSentinel(tb testing.TB, name string, master *Server) *Server {
	tb.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	text := fmt.Sprintf("sentinel monitor %s %s %s 1\n", name, host, port)
	if master.user != nil {
		text += fmt.Sprintf("sentinel auth-pass %s %s\n", name, master.user[1])
	}
	file := filepath.Join(tb.TempDir(), "sentinel.conf") // which it rewrites
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return start(tb, nil, nil, file, "--sentinel")
}
