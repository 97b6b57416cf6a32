package harness

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// PeakRSS is the most memory that the process held at any time, in bytes.
func (g *Gateway) PeakRSS() int64 { g.t.Helper(); return g.status("VmHWM") }

// RSS is the memory that the process holds now, in bytes.
func (g *Gateway) RSS() int64 { g.t.Helper(); return g.status("VmRSS") }

func (g *Gateway) status(field string) int64 {
	g.t.Helper()
	out, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.Pid()))
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				g.t.Fatal(err)
			}
			return kib << 10
		}
	}
	g.t.Fatalf("/proc has no %s", field)
	return 0
}

// CPU is the time that the process has spent on processors.
func (g *Gateway) CPU() time.Duration {
	g.t.Helper()
	out, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.Pid()))
	if err != nil {
		g.t.Fatal(err)
	}
	// After the command's name in parentheses: state is field 3, utime 14, stime 15.
	fields := strings.Fields(string(out[strings.LastIndexByte(string(out), ')')+1:]))
	var ticks int64
	for _, i := range []int{14 - 3, 15 - 3} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			g.t.Fatal(err)
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ on every Linux that Go runs on
	return time.Duration(ticks) * time.Second / perSecond
}

// letGo waits until the gateway has closed its side of a client's connection:
// only then has it noticed that the client left.
func (g *Gateway) letGo(client net.Addr) {
	g.t.Helper()
	_, port, err := net.SplitHostPort(g.Addr)
	if err != nil {
		g.t.Fatal(err)
	}
	listen, err := strconv.Atoi(port)
	if err != nil {
		g.t.Fatal(err)
	}
	here, there := fmt.Sprintf(":%04X", listen), fmt.Sprintf(":%04X", client.(*net.TCPAddr).Port)
	Eventually(g.t, 5*time.Second, "the gateway lets the client go", func() bool {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			g.t.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			// sl, local address, remote address, state
			f := strings.Fields(line)
			const established, closeWait = "01", "08"
			if len(f) > 3 && strings.HasSuffix(f[1], here) && strings.HasSuffix(f[2], there) && (f[3] == established || f[3] == closeWait) {
				return false
			}
		}
		return true
	})
}
