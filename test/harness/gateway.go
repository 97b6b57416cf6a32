package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Gateway is one running oncegate.
type Gateway struct {
	t      testing.TB
	binary string
	dir    string // holds the configuration, the store and the log
	env    []string

	upstream string // what the configuration is made of
	changes  []any

	Addr  string // of the data listener
	Admin string // of the admin listener

	client *http.Client
	cmd    *exec.Cmd
	ended  chan struct{}
	err    error // how the process ended; valid once ended is closed
}

// Option changes how a gateway is started.
type Option func(*Gateway)

// Plain starts a binary that was built without the race detector.
func Plain(g *Gateway) { g.binary = Binary(g.t, true) }

// Env adds "NAME=value" lines to the environment.
func Env(lines ...string) Option { return func(g *Gateway) { g.env = append(g.env, lines...) } }

// Start runs a gateway in front of upstream (its URL without a path) with
// Knobs and what changes them, and waits until it is ready. It is killed at
// the end of the test, and the test fails when its log shows a race, a panic
// or a secret.
func Start(t testing.TB, upstream string, changes ...any) *Gateway {
	t.Helper()
	g := prepare(t, upstream, changes)
	t.Cleanup(g.finish)
	for try := 0; ; try++ {
		g.run()
		err := g.ready()
		if err == nil {
			return g
		}
		// A port that was free when it was picked may be taken by now.
		if try < 5 && strings.Contains(g.Log(), "address already in use") {
			g.pickPorts()
			continue
		}
		t.Fatalf("oncegate did not become ready: %v", err)
	}
}

// Refuse runs `oncegate serve` with a configuration that it should refuse, and
// gives its exit status and what it printed.
func Refuse(t testing.TB, upstream string, changes ...any) (int, string) {
	t.Helper()
	g := prepare(t, upstream, changes)
	g.run()
	select {
	case <-g.ended:
		return g.cmd.ProcessState.ExitCode(), g.Log()
	case <-time.After(20 * time.Second):
		_ = g.cmd.Process.Kill()
		<-g.ended
		t.Errorf("oncegate started with a configuration that it should refuse:\n%s", g.Log())
		return -1, g.Log()
	}
}

func prepare(t testing.TB, upstream string, changes []any) *Gateway {
	g := &Gateway{t: t, dir: t.TempDir(), binary: Binary(t, false), upstream: upstream, changes: slices.Clone(changes)}
	for _, c := range changes {
		if o, ok := c.(Option); ok {
			o(g)
		} else if o, ok := c.(func(*Gateway)); ok {
			o(g)
		}
	}
	g.client = &http.Client{
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 512},
		// A redirect is an answer to look at.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	g.pickPorts()
	return g
}

func (g *Gateway) pickPorts() {
	g.Addr, g.Admin = freeAddr(g.t), freeAddr(g.t)
	g.configure()
}

// Reconfigure changes more of the configuration, for the next Restart.
func (g *Gateway) Reconfigure(changes ...Config) {
	for _, c := range changes {
		g.changes = append(g.changes, c)
	}
	g.configure()
}

func (g *Gateway) configure() {
	parts := []Config{Knobs(g.upstream), {
		"server.listen":       g.Addr,
		"server.admin_listen": g.Admin,
		"store.url":           g.StoreURL(),
	}}
	for _, c := range g.changes {
		if c, ok := c.(Config); ok {
			parts = append(parts, c)
		}
	}
	if err := os.WriteFile(g.ConfigFile(), document(parts), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// ConfigFile is the path of the configuration.
func (g *Gateway) ConfigFile() string { return filepath.Join(g.dir, "config.yaml") }

func (g *Gateway) logFile() string { return filepath.Join(g.dir, "log") }

// Log is all that the process has printed so far. It may write its log with a
// delay: all of it is there after Stop.
func (g *Gateway) Log() string {
	out, _ := os.ReadFile(g.logFile())
	return string(out)
}

func (g *Gateway) run() {
	g.t.Helper()
	log, err := os.OpenFile(g.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(g.binary, "serve", "--config", g.ConfigFile())
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), g.env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.cmd, g.ended = cmd, make(chan struct{})
	ended := g.ended
	go func() {
		g.err = cmd.Wait()
		close(ended)
	}()
}

func (g *Gateway) ready() error {
	limit := time.Now().Add(30 * time.Second)
	for {
		res, err := g.client.Get("http://" + g.Addr + "/readyz")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == 200 {
				return nil
			}
			err = errors.New(res.Status)
		}
		select {
		case <-g.ended:
			return fmt.Errorf("it ended: %v", g.err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(limit) {
			return err
		}
	}
}

// Kill9 kills the process as a crash would.
func (g *Gateway) Kill9() {
	g.t.Helper()
	_ = g.cmd.Process.Kill()
	<-g.ended
	g.client.CloseIdleConnections()
}

// Pause stops the gateway where it stands. Continue lets it go on.
func (g *Gateway) Pause()    { g.t.Helper(); signal(g.t, g.cmd, syscall.SIGSTOP) }
func (g *Gateway) Continue() { g.t.Helper(); signal(g.t, g.cmd, syscall.SIGCONT) }

func signal(t testing.TB, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
}

// Term asks the process to stop.
func (g *Gateway) Term() {
	g.t.Helper()
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatalf("SIGTERM: %v", err)
	}
}

// Exit waits for the process to end by itself and gives its exit status.
func (g *Gateway) Exit(within time.Duration) int {
	g.t.Helper()
	select {
	case <-g.ended:
		return g.cmd.ProcessState.ExitCode()
	case <-time.After(within):
		g.t.Fatalf("oncegate still ran after %v", within)
		return -1
	}
}

// Stop stops the process cleanly.
func (g *Gateway) Stop() {
	g.t.Helper()
	g.Term()
	if code := g.Exit(20 * time.Second); code != 0 {
		g.t.Errorf("exit status %d", code)
	}
	g.client.CloseIdleConnections()
}

// CloseIdle closes the connections to the gateway that no request is using.
func (g *Gateway) CloseIdle() { g.client.CloseIdleConnections() }

// Ended is closed once the process has ended.
func (g *Gateway) Ended() <-chan struct{} { return g.ended }

// Restart starts the process again, after Kill9 or Exit, on the same store.
func (g *Gateway) Restart() {
	g.t.Helper()
	g.run()
	if err := g.ready(); err != nil {
		g.t.Fatalf("oncegate did not become ready again: %v", err)
	}
}

// Pid is the process's id.
func (g *Gateway) Pid() int { return g.cmd.Process.Pid }

var badLog = regexp.MustCompile(`DATA RACE|(?i)\bpanic`)

func (g *Gateway) finish() {
	// A clean stop writes what is left of the log; so does a second's wait
	// where calls that hang hold the stop up.
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(1200 * time.Millisecond):
		_ = g.cmd.Process.Kill()
		<-g.ended
	}
	g.client.CloseIdleConnections()
	log := g.Log()
	if at := badLog.FindStringIndex(log); at != nil {
		g.t.Errorf("the log shows %q", log[at[0]:at[1]])
	}
	for _, secret := range []string{PK, K1, K2} {
		if strings.Contains(log, secret) {
			g.t.Errorf("the log shows the secret %s", secret)
		}
	}
	if g.t.Failed() {
		const most = 16 << 10
		if len(log) > most {
			log = log[:most/2] + "\n...\n" + log[len(log)-most/2:]
		}
		g.t.Logf("oncegate's log:\n%s", log)
	}
}

// Run runs one command of the product to its end.
func Run(t testing.TB, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t, false), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatalf("%v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

var ports struct {
	sync.Mutex
	next int
}

// freeAddr picks a loopback port below the range that the kernel hands to
// outgoing connections, so that none of those takes it before the gateway does.
func freeAddr(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	const lowest, highest = 10000, 30000
	if ports.next == 0 {
		ports.next = lowest + os.Getpid()*37%(highest-lowest)
	}
	for range highest - lowest {
		ports.next++
		if ports.next >= highest {
			ports.next = lowest
		}
		addr := fmt.Sprintf("127.0.0.1:%d", ports.next)
		ln, err := net.Listen("tcp", addr)
		if err == nil {
			_ = ln.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// StoreURL is the store.url of the configuration.
func (g *Gateway) StoreURL() string { return "local:" + filepath.Join(g.dir, "store") }

// Files gives the content of every file that the process wrote, its log too,
// by its name. The configuration, which holds secrets, is not among them.
func (g *Gateway) Files(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(g.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || path == g.ConfigFile() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
