// Package simulate shows what a retry policy does to an upstream: scenarios in
// virtual time, in which every call goes through policy.Engine.Do, the code
// that serves. A run depends on its seed alone.
package simulate

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Scenario is something that can be simulated.
type Scenario struct {
	Name  string
	About string // what happens in it, in a sentence or two
	Rows  string // what its outcomes differ by: policy, client, repeats

	runs func(own []Policy, seed uint64) []run
}

// run is one outcome to come.
type run struct {
	row string
	do  func() (figures []Figure, width time.Duration, load []Bin)
}

// Outcome is what came of one row of a scenario.
type Outcome struct {
	Scenario string
	Row      string
	Figures  []Figure
	Width    time.Duration // of a bin
	Load     []Bin         // from the beginning
}

// Figure is one result. NaN: it did not happen.
type Figure struct {
	Name  string
	Value float64
}

// Scenarios gives all there are.
func Scenarios() []Scenario {
	all := []Policy{immediate, fixed, exponential, fullJitter, tenSeconds, oneSecond, byRate}
	return []Scenario{
		{"reject", "1,000 calls a second. From 20 s to 25 s the upstream answers 503.", "policy", reject.runs(all)},
		{"stall", "1,000 calls a second. From 20 s to 25 s the upstream answers nobody; its queue grows.", "policy", stall.runs(all)},
		{"outage", "1,000 calls a second for ten minutes, each answered 503.", "policy", long.runs([]Policy{oneSecond})},
		{"herd", "1,000 callers fail at the same moment, and whenever they try again.", "policy", herdRuns},
		{"contention", "100 clients write one row, which takes a write only from who has read its latest version.", "policy", contentionRuns},
		{"layers", "A client that tries again by itself, behind a gateway that does too. The upstream says 503 to this call for ever.", "client", layerRuns},
		{"billing", "100,000 calls, of which a twentieth lose their answer on the way to the client, who asks again.", "repeats", billRuns},
	}
}

// Names gives those of all scenarios.
func Names() (names []string) {
	for _, s := range Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// Named gives the scenario of that name.
func Named(name string) (Scenario, error) {
	all := Scenarios()
	if i := slices.Index(Names(), name); i >= 0 {
		return all[i], nil
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q; use one of %s", name, strings.Join(Names(), ", "))
}

// Run simulates the scenario under its own policies, and these, as many at
// once as there are processors.
func (s Scenario) Run(own []Policy, seed uint64) []Outcome {
	runs := s.runs(own, seed)
	outcomes := make([]Outcome, len(runs))
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, r := range runs {
		free <- struct{}{}
		wg.Go(func() {
			figures, width, load := r.do()
			outcomes[i] = Outcome{s.Name, r.row, figures, width, load}
			<-free
		})
	}
	wg.Wait()
	return outcomes
}

// runs has the traffic under each of these policies, and under those of the caller.
func (t traffic) runs(known []Policy) func([]Policy, uint64) []run {
	return func(own []Policy, seed uint64) (runs []run) {
		for _, p := range slices.Concat(known, own) {
			runs = append(runs, run{p.Name, func() ([]Figure, time.Duration, []Bin) {
				load := t.under(p, seed)
				calls, good := 0, 0
				for _, b := range load {
					calls += b.Calls
					good += b.Answered
				}
				figures := []Figure{{"peak_rps", float64(peak(load))}, {"attempts_per_call", t.amplified(load)}}
				if t.outage.to < t.until {
					figures = append(figures, Figure{"recovery_s", t.recovered(load)}, Figure{"answered", float64(good) / float64(calls)})
				}
				return figures, time.Second, load
			}})
		}
		return runs
	}
}

func herdRuns(own []Policy, seed uint64) (runs []run) {
	for _, p := range slices.Concat([]Policy{immediate, fixed, exponential, fullJitter}, own) {
		runs = append(runs, run{p.Name, func() ([]Figure, time.Duration, []Bin) {
			load, retries, most := herd(p, seed)
			return []Figure{{"peak_retries_per_20ms", float64(most)}, {"retries", float64(retries)}}, herdWidth, load
		}})
	}
	return runs
}

func contentionRuns(own []Policy, seed uint64) (runs []run) {
	const base, most = 10 * time.Millisecond, 2 * time.Second
	known := []Policy{
		{Name: "no wait", Config: bare(waits(1, 1))},
		{Name: "10 ms to 2 s, exponential", Config: bare(waits(base, most)), even: true},
		{Name: "10 ms to 2 s, full jitter", Config: bare(waits(base, most))},
	}
	for _, p := range slices.Concat(known, own) {
		runs = append(runs, run{p.Name, func() ([]Figure, time.Duration, []Bin) {
			load, writes, took := contention(100, p, seed)
			return []Figure{{"writes", float64(writes)}, {"seconds", took.Seconds()}}, time.Second, load
		}})
	}
	return runs
}

func layerRuns(own []Policy, seed uint64) (runs []run) {
	for _, c := range clients {
		for _, p := range own {
			row := c.name
			if len(own) > 1 {
				row += ", " + p.Name
			}
			runs = append(runs, run{row, func() ([]Figure, time.Duration, []Bin) {
				_, untold := c.layers(p, false, seed)
				load, told := c.layers(p, true, seed)
				return []Figure{{"attempts_if_untold", float64(untold.attempts)}, {"attempts", float64(told.attempts)}, {"tries", float64(told.tries)}}, time.Second, load
			}})
		}
	}
	return runs
}

func billRuns(_ []Policy, seed uint64) (runs []run) {
	for r, row := range [...]string{unshared: "run again", marked: "say that they are retries", unmarked: "don't, but the break was seen"} {
		runs = append(runs, run{row, func() ([]Figure, time.Duration, []Bin) {
			load, b := repeat(r).ask(seed)
			return []Figure{{"billed", float64(b.billed)}, {"duplicates_avoided", float64(b.avoided)}}, time.Second, load
		}})
	}
	return runs
}
