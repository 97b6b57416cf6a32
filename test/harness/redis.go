package harness

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// onRedis are the names of the tests that start a redis-server.
const onRedis = "^Test(Nodes|StoreAway)"

// leaveOut says so and leaves out the tests on Redis where there is no
// redis-server. With CI=true in the environment that is an error.
func leaveOut() error {
	if _, err := exec.LookPath("redis-server"); err == nil {
		return nil
	}
	const why = "there is no redis-server: run test/run.sh, or apt-get install redis-server"
	if os.Getenv("CI") == "true" {
		return errors.New(why)
	}
	fmt.Fprintf(os.Stderr, "left out: the tests named %s: %s\n", onRedis, why)
	skip := onRedis
	if chosen := flag.Lookup("test.skip").Value.String(); chosen != "" {
		skip = chosen + "|" + onRedis
	}
	return flag.Set("test.skip", skip)
}

// Redis is one redis-server process, which keeps nothing on disk.
type Redis struct {
	t        testing.TB
	addr     string
	password string
	dir      string
	cmd      *exec.Cmd
	ended    chan struct{}
	control  *bufio.ReadWriter // of Do, kept open
	conn     net.Conn
	ways     atomic.Int64 // connections that were made by way of Slow
}

// StartRedis starts a server with these settings ("--name", "value" each) and
// waits until it answers. It is killed at the end of the test.
func StartRedis(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r := &Redis{t: t, dir: t.TempDir()}
	t.Cleanup(r.Stop)
	var err error
	for range 5 { // a port that was free when it was picked may be taken by now
		r.addr = freeAddr(t)
		if err = r.run(settings); err == nil {
			return r
		}
	}
	t.Fatalf("redis-server: %v", err)
	return nil
}

// URL is a store.url of this server, with the password that it was first
// started with.
func (r *Redis) URL() string { return r.URLAt(r.addr) }

// URLAt is URL by way of another address.
func (r *Redis) URLAt(addr string) string {
	if r.password != "" {
		return "redis://:" + r.password + "@" + addr + "/0"
	}
	return "redis://" + addr + "/0"
}

func (r *Redis) run(settings []string) error {
	_, port, _ := net.SplitHostPort(r.addr)
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", r.dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction"}, settings...)
	password := ""
	for i, s := range settings {
		if s == "--requirepass" {
			password = settings[i+1]
		}
	}
	if r.cmd == nil {
		r.password = password
	}
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("redis-server", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	r.cmd, r.ended = cmd, ended
	limit := time.Now().Add(10 * time.Second)
	for {
		err := r.dial(password)
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			said, _ := os.ReadFile(filepath.Join(r.dir, "log"))
			return fmt.Errorf("it ended: %s", said)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(limit) {
			return err
		}
	}
}

func (r *Redis) dial(password string) error {
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		return err
	}
	r.conn, r.control = conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	if password != "" {
		_, err = r.do([]string{"AUTH", password})
	} else {
		_, err = r.do([]string{"PING"})
	}
	return err
}

// Stop kills the process: connections to it are refused from then on, and what
// it held is gone.
func (r *Redis) Stop() {
	if r.cmd == nil || r.cmd.Process == nil {
		return
	}
	_ = r.cmd.Process.Kill()
	<-r.ended
	if r.conn != nil {
		_ = r.conn.Close()
	}
}

// Restart starts the process again at the same address, empty, with these
// settings in place of those it had.
func (r *Redis) Restart(settings ...string) {
	r.t.Helper()
	r.Stop()
	if err := r.run(settings); err != nil {
		r.t.Fatalf("redis-server did not start again: %v", err)
	}
}

// Pause stops the process where it stands: it keeps its connections and answers
// nothing. Continue lets it go on.
func (r *Redis) Pause()    { r.t.Helper(); signal(r.t, r.cmd, syscall.SIGSTOP) }
func (r *Redis) Continue() { r.t.Helper(); signal(r.t, r.cmd, syscall.SIGCONT) }

// Pause stops the gateway where it stands. Continue lets it go on.
func (g *Gateway) Pause()    { g.t.Helper(); signal(g.t, g.cmd, syscall.SIGSTOP) }
func (g *Gateway) Continue() { g.t.Helper(); signal(g.t, g.cmd, syscall.SIGCONT) }

func signal(t testing.TB, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v", s, err)
	}
}

// Do runs a command whose reply is a line or a bulk string.
func (r *Redis) Do(args ...string) string {
	r.t.Helper()
	out, err := r.do(args)
	if err != nil {
		r.t.Fatalf("redis: %v: %v", args, err)
	}
	return out
}

func (r *Redis) do(args []string) (string, error) {
	_ = r.conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(r.control, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(r.control, "$%d\r\n%s\r\n", len(a), a)
	}
	if err := r.control.Flush(); err != nil {
		return "", err
	}
	line, err := r.control.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+', ':':
		return text, nil
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", err
		}
		bulk := make([]byte, n+len("\r\n"))
		_, err = io.ReadFull(r.control, bulk)
		return string(bulk[:n]), err
	}
	return "", fmt.Errorf("it says %q", line)
}

// Info is a number of INFO.
func (r *Redis) Info(field string) int {
	r.t.Helper()
	for line := range strings.Lines(r.Do("INFO", "everything")) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			if err != nil {
				r.t.Fatal(err)
			}
			return n
		}
	}
	r.t.Fatalf("INFO has no %s", field)
	return 0
}

// Slow opens a way to the server whose replies come later by delay, and gives
// its address.
func (r *Redis) Slow(delay time.Duration) string {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			r.ways.Add(1)
			go r.carry(near, delay)
		}
	}()
	return ln.Addr().String()
}

// Asked is how many connections there were by way of Slow, whether or not they
// found a server.
func (r *Redis) Asked() int { return int(r.ways.Load()) }

// carry passes bytes both ways until either side ends.
func (r *Redis) carry(near net.Conn, delay time.Duration) {
	defer near.Close()
	far, err := net.Dial("tcp", r.addr)
	if err != nil {
		return
	}
	go func() {
		defer far.Close()
		_, _ = io.Copy(far, near)
	}()
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces := make(chan piece, 256)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 16<<10)
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			pieces <- piece{buf[:n], time.Now().Add(delay)}
		}
	}()
	for p := range pieces {
		<-time.After(time.Until(p.due))
		_, _ = near.Write(p.data)
	}
}
