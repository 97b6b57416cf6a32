// Package demo shows what the gateway saves: the same clients make the same
// calls to a scripted upstream, once straight and once through a gateway, and
// the upstream's own count says what was billed.
package demo

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"time"

	"oncegate/providers/mock"
)

// Config is the gateway's configuration in the demo. It reads
// ONCEGATE_DEMO_STORE, a directory, and ONCEGATE_DEMO_UPSTREAM, a base URL.
//
//go:embed config.yaml
var Config []byte

// Stage is what a demo plays on: an upstream and a gateway in front of it, both
// over real HTTP.
type Stage struct {
	Mock     *mock.Mock
	Upstream string // host:port of the mock
	Gateway  string // host:port
}

// Row is one scene: how often the upstream billed, or how many calls failed,
// without the gateway and with it.
type Row struct {
	Scene         string
	Unit          string // billed, failed
	Without, With int64
}

// Result is what the demo showed.
type Result struct {
	Rows    []Row
	Latency Latency
	Billed  int64 // by the upstream's count, of all calls through the gateway
}

// scene is one row to be played.
type scene struct {
	name, unit string
	script     mock.Script
	play       func(ctx context.Context, address string) (failed int64, err error)
}

// patient is a client's time-out that is never reached.
const patient = 30 * time.Second

var scenes = []scene{
	{
		name: "100 calls, 5% of the answers lost on the way to the client, which tries again", unit: "billed",
		script: answers(10 * time.Millisecond),
		play: func(ctx context.Context, address string) (int64, error) {
			link, err := lossy(ctx, address, 20)
			if err != nil {
				return 0, err
			}
			return many(ctx, 100, 10, client{address: link, tries: 3, timeout: patient})
		},
	},
	{
		name: "100 calls that take 1.5 s, from clients that give up after 0.7 s and try 3 times", unit: "billed",
		script: answers(1500 * time.Millisecond),
		play: func(ctx context.Context, address string) (int64, error) {
			return many(ctx, 100, 100, client{address: address, tries: 3, timeout: 700 * time.Millisecond})
		},
	},
	{
		name: "10 requests for the same thing at once", unit: "billed",
		script: answers(200 * time.Millisecond),
		play: func(ctx context.Context, address string) (int64, error) {
			return many(ctx, 10, 10, client{address: address, tries: 1, timeout: patient, same: true})
		},
	},
	{
		name: "100 calls through an upstream that answers every tenth with 503", unit: "failed",
		script: everyTenth503(),
		play: func(ctx context.Context, address string) (int64, error) {
			return many(ctx, 100, 5, client{address: address, tries: 1, timeout: patient})
		},
	},
}

// answers is an upstream that takes so long for each call.
func answers(latency time.Duration) mock.Script {
	return mock.Script{Otherwise: &mock.Step{Delay: latency}}
}

func everyTenth503() mock.Script {
	s := answers(10 * time.Millisecond)
	for range 40 {
		s.Steps = append(s.Steps, mock.Step{Times: 9, Delay: 10 * time.Millisecond}, mock.Step{Status: 503})
	}
	return s
}

// Play plays all scenes, and measures the latency that the gateway adds.
func Play(ctx context.Context, on Stage) (*Result, error) {
	var r Result
	for _, sc := range scenes {
		row := Row{Scene: sc.name, Unit: sc.unit}
		for _, side := range []struct {
			address string
			into    *int64
		}{{on.Upstream, &row.Without}, {on.Gateway, &row.With}} {
			before := on.Mock.Stats().Billed
			on.Mock.Load(sc.script)
			failed, err := sc.play(ctx, side.address)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sc.name, err)
			}
			billed := on.Mock.Stats().Billed - before
			if *side.into = billed; sc.unit == "failed" {
				*side.into = failed
			}
			if side.address == on.Gateway {
				r.Billed += billed
			}
		}
		r.Rows = append(r.Rows, row)
	}
	on.Mock.Load(mock.Script{})
	before := on.Mock.Stats().Billed
	var err error
	r.Latency, err = compare(ctx, on.Upstream, on.Gateway, 400)
	r.Billed += (on.Mock.Stats().Billed - before) / 2 // as many on either side
	return &r, err
}

// Print writes the table.
func (r *Result) Print(w io.Writer) error {
	width := 0
	for _, row := range r.Rows {
		width = max(width, len(row.Scene))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%-*s  %14s  %14s\n", width, "", "without", "with oncegate")
	for _, row := range r.Rows {
		fmt.Fprintf(&out, "%-*s  %7d %s  %7d %s\n", width, row.Scene, row.Without, row.Unit, row.With, row.Unit)
	}
	l := r.Latency
	fmt.Fprintf(&out, "\nOver %d calls one after the other the gateway added %s to the median and %s to the 99th percentile.\n",
		l.Calls, millis(l.Median), millis(l.P99))
	_, err := io.WriteString(w, out.String())
	return err
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
