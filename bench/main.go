//go:build linux

// Command bench measures what the built binary costs beside the least that a
// gateway can do: the floor, which is echo reading the body and relaying it
// with http.Client. Machines differ and are noisy, so what counts is CPU per
// request as a ratio to the floor in the same run.
//
// Each peer runs alone, as a process of its own on core 1 with GOMAXPROCS=1;
// the load generator and the upstream share core 0, with Redis where a gateway
// needs it and the node whose streams another follows. Every request carries a
// nonce, and every answer is compared with the whole of what it must be.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "floor" {
		fail(runFloor(os.Args[2], os.Args[3]))
	}
	var o options
	flag.StringVar(&o.binary, "bin", "bin/oncegate", "the gateway's binary")
	flag.BoolVar(&o.gate, "gate", false, "exit 1 if a figure misses its gate")
	short := flag.Bool("short", false, "a quick run of about 20 s, for a first impression")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds of floor and gateway in turn (default 5; 2 with -short)")
	flag.BoolVar(&o.floorOnly, "floor", false, "measure the floor alone, to see how noisy this machine is")
	flag.BoolVar(&o.verbose, "v", false, "tell each measurement, and how busy both cores were")
	flag.Parse()
	o.warm, o.length, o.settle = 500*time.Millisecond, 2*time.Second, 3*time.Second
	o.held, o.crowd, o.followed = 2000, 1000, 500
	if *short {
		o.warm, o.length, o.settle = 300*time.Millisecond, 700*time.Millisecond, time.Second
	}
	if o.rounds == 0 {
		o.rounds = 5
		if *short {
			o.rounds = 2
		}
	}
	if _, err := os.Stat(o.binary); err != nil && !o.floorOnly {
		fail(fmt.Errorf("no gateway to measure: %w; `make build` makes it", err))
	}
	fail(pin()) // returns once, in the process that is on the load's core
	runtime.GOMAXPROCS(1)
	fail(manyFiles())

	table, err := measure(o)
	table.print(os.Stdout)
	fail(err)
	if o.gate && !table.passed() {
		fail(errors.New("a gate is missed"))
	}
	os.Exit(0)
}

// options of a run.
type options struct {
	binary    string
	floorOnly bool
	gate      bool
	verbose   bool
	rounds    int
	warm      time.Duration // before each measurement
	length    time.Duration // of each measurement
	settle    time.Duration // with all held streams open, before memory is read
	held      int           // streams held at once
	crowd     int           // followers of one stream
	followed  int           // streams that one node leads and another follows
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
