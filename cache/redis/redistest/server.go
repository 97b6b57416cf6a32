// Package redistest starts real Redis servers for tests: on free ports of
// loopback, in directories of their own, and gone with the test.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	redis "github.com/redis/go-redis/v9"
)

// Server is a redis-server process.
type Server struct {
	Addr string // host:port
	Dir  string

	tb       testing.TB
	env      []string
	args     []string
	user     []string // user, password of Do
	cmd      *exec.Cmd
	exited   chan struct{}
	stopping chan struct{} // lets the thread go that the process is tied to
}

// Start starts one that keeps nothing on disk, with these settings beside:
// "--name", "value" each.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	return start(tb, nil, settings)
}

// start runs a server with an environment and settings; first come what stands
// before all settings.
func start(tb testing.TB, env, settings []string, first ...string) *Server {
	tb.Helper()
	s := &Server{tb: tb, env: env, Dir: tb.TempDir()}
	var err error
	for range 5 { // another process may take the port first
		port := freePort(tb)
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		listen := []string{"--port", port}
		if slices.Contains(settings, "--tls-cert-file") {
			listen = []string{"--port", "0", "--tls-port", port}
		}
		if slices.Contains(settings, "--cluster-enabled") {
			listen = append(listen, "--cluster-port", freePort(tb))
		}
		if i := slices.Index(settings, "--requirepass"); i >= 0 {
			s.user = []string{"", settings[i+1]}
		}
		s.args = slices.Concat(first, []string{"--bind", "127.0.0.1", "--dir", s.Dir, "--daemonize", "no", "--logfile", filepath.Join(s.Dir, "log")}, listen)
		if len(first) == 0 {
			s.args = append(s.args, "--save", "")
		}
		s.args = append(s.args, settings...)
		if err = s.start(); err == nil {
			tb.Cleanup(s.Kill)
			return s
		}
	}
	tb.Fatalf("redis-server does not start: %v", err)
	return nil
}

// URL is one that a store can be opened with: with the password that the server
// was first started with.
func (s *Server) URL() string {
	if s.user != nil {
		return "redis://" + s.user[0] + ":" + s.user[1] + "@" + s.Addr
	}
	return "redis://" + s.Addr
}

var ports struct {
	sync.Mutex
	next int
}

// freePort picks one below the range that the kernel hands to outgoing
// connections: none of those takes it while a server is down.
func freePort(tb testing.TB) string {
	tb.Helper()
	ports.Lock()
	defer ports.Unlock()
	const lowest, highest = 10000, 30000
	if ports.next == 0 {
		ports.next = lowest + os.Getpid()*53%(highest-lowest)
	}
	for range highest - lowest {
		ports.next++
		if ports.next >= highest {
			ports.next = lowest
		}
		port := strconv.Itoa(ports.next)
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	tb.Fatal("no free port")
	return ""
}

// start runs the process, and waits until it answers.
func (s *Server) start() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		s.tb.Fatal("there is no redis-server: run test/run.sh, or apt-get install redis-server")
	}
	cmd := exec.Command(path, s.args...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	exited, stopping, started := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		// The process dies with the thread that started it.
		runtime.LockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		go func() {
			_ = cmd.Wait()
			close(exited)
		}()
		<-stopping
	}()
	if err := <-started; err != nil {
		return err
	}
	s.cmd, s.exited, s.stopping = cmd, exited, stopping
	for deadline := time.Now().Add(10 * time.Second); ; {
		select {
		case <-exited:
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			return fmt.Errorf("%s%s", output.String(), log)
		case <-time.After(5 * time.Millisecond):
		}
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = c.Close()
			return nil
		}
		if time.Now().After(deadline) {
			s.Kill()
			return err
		}
	}
}

// Kill ends the process as kill -9 does. What it had is gone, unless its
// settings say otherwise.
func (s *Server) Kill() {
	select {
	case <-s.exited:
		return
	default:
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
	close(s.stopping)
}

// Restart starts it again where it was, with settings beside its own.
func (s *Server) Restart(settings ...string) {
	s.tb.Helper()
	s.Kill()
	s.args = append(s.args, settings...)
	var err error
	for range 20 {
		if err = s.start(); err == nil {
			return
		}
	}
	s.tb.Fatalf("redis-server does not start again: %v", err)
}

// Pause stops the process where it stands; Continue lets it go on.
func (s *Server) Pause()    { s.signal(syscall.SIGSTOP) }
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatal(err)
	}
}

// Client is one of its own, closed with the test.
func (s *Server) Client() *redis.Client {
	o := &redis.Options{Addr: s.Addr, DisableIdentity: true, Protocol: 2}
	if s.user != nil {
		o.Username, o.Password = s.user[0], s.user[1]
	}
	c := redis.NewClient(o)
	s.tb.Cleanup(func() { c.Close() })
	return c
}

// Do runs a command.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	c := s.Client()
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.tb.Fatalf("%v: %v", args, err)
	}
	return v
}

// Info gives one line of INFO.
func (s *Server) Info(section, name string) string {
	s.tb.Helper()
	text, _ := s.Do("info", section).(string)
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	s.tb.Fatalf("INFO %s has no %s", section, name)
	return ""
}

// Calls is how often a command was called since the server started or its
// statistics were reset.
func (s *Server) Calls(command string) int {
	s.tb.Helper()
	text, _ := s.Do("info", "commandstats").(string)
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			v, _, _ = strings.Cut(v, ",")
			n, err := strconv.Atoi(v)
			if err != nil {
				s.tb.Fatal(err)
			}
			return n
		}
	}
	return 0
}
