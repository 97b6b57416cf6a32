//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// coresFound hands the cores that this program was allowed on to the process
// that it becomes, which is allowed on one of them only.
const coresFound = "ONCEGATE_BENCH_CORES"

// cores are where the load runs, and where the peers do.
var cores struct{ load, peer int }

// pin starts this program again on the first core it may use: a thread keeps
// its core over exec, and all threads made after it inherit it.
func pin() error {
	if found := os.Getenv(coresFound); found != "" {
		_, err := fmt.Sscan(found, &cores.load, &cores.peer)
		return err
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return err
	}
	var found []int
	for i := 0; len(found) < 2 && i < 1024; i++ {
		if set.IsSet(i) {
			found = append(found, i)
		}
	}
	if len(found) < 2 {
		fmt.Fprintln(os.Stderr, "bench: one core only: load and peers share it, and the ratios are worth little")
		found = append(found, found[0])
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := setCore(found[0]); err != nil {
		return err
	}
	return syscall.Exec(self, os.Args, append(os.Environ(), fmt.Sprintf("%s=%d %d", coresFound, found[0], found[1])))
}

func setCore(core int) error {
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("this process may not run on core %d: %w", core, err)
	}
	return nil
}

// manyFiles raises the limit of open files as far as it may go.
func manyFiles() error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if l.Max < 8000 {
		return fmt.Errorf("the limit of open files is %d, and the held streams need 8000: raise it with ulimit -Hn", l.Max)
	}
	l.Cur = l.Max
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}

// process is a peer, or what it needs, running on one core.
type process struct {
	cmd *exec.Cmd
	log *os.File
	end chan error
}

// startProcess starts a program on a core, with one thread of Go code; its
// output goes to a file.
func startProcess(core int, log string, name string, args ...string) (*process, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	p := &process{log: f, end: make(chan error, 1), cmd: exec.Command(name, args...)}
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	// A child starts on the core of the thread that forks.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := setCore(core); err != nil {
		return nil, err
	}
	err = p.cmd.Start()
	if back := setCore(cores.load); err == nil {
		err = back
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	go func() { p.end <- p.cmd.Wait() }()
	return p, nil
}

// stop ends the peer: asked first, then by force.
func (p *process) stop() {
	defer p.log.Close()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.end:
		return
	case <-time.After(3 * time.Second):
	}
	p.cmd.Process.Kill()
	<-p.end
}

// died gives the peer's last words if it has ended.
func (p *process) died() error {
	select {
	case err := <-p.end:
		p.end <- err
		out, _ := os.ReadFile(p.log.Name())
		return fmt.Errorf("the peer ended (%v): %s", err, lastLines(out, 5))
	default:
		return nil
	}
}

func lastLines(b []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}

// cpu is the user and system time of all the peer's threads so far, to the
// nanosecond: its process clock, by clock_getcpuclockid(3)'s formula.
func (p *process) cpu() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(int32(^p.cmd.Process.Pid<<3|2), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// ownCPU is the same of this process: what load and upstream took.
func ownCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// rss is the peer's resident memory in KiB.
func (p *process) rss() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			n, _ := strconv.Atoi(string(bytes.Fields(v)[0]))
			return n
		}
	}
	return 0
}

// idle waits until the peer has nothing left to do: for 20 ms none of its
// threads was seen running, or waiting for the core, which on a busy machine
// may take long. It gives up after 5 s.
func (p *process) idle() {
	quiet := 0
	for end := time.Now().Add(5 * time.Second); quiet < 10 && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
		quiet++
		if p.runnable() {
			quiet = 0
		}
	}
}

// runnable says whether a thread of the peer runs or could.
func (p *process) runnable() bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) && (b[i+2] == 'R' || b[i+2] == 'D') {
			return true
		}
	}
	return false
}
