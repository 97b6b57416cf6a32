package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"oncegate/cmd/oncegate/config"
	"oncegate/cmd/oncegate/verify"
)

type verifyCommand struct {
	URL   string   `help:"A gateway that runs; else each file gets one in this process." placeholder:"URL"`
	Files []string `arg:"" name:"file" help:"Scenarios; docs/verify.md describes them."`
}

// scenariosAtOnce bounds how many are played at the same time. Most of what
// they do is wait.
const scenariosAtOnce = 8

// Run plays the scenarios and prints a line for each step, in the order of the
// files.
func (c *verifyCommand) Run(in *invocation) error {
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return usage{fmt.Errorf("--url %q is not a URL: write it as http://127.0.0.1:8080", c.URL)}
	}
	scenarios, err := readScenarios(c.Files, in.env)
	if err != nil {
		return err
	}
	ctx, stop := onSignal(in.ctx)
	defer stop()
	log, flush := newLogger(in.stderr, zapcore.ErrorLevel)
	defer flush()

	begin := time.Now()
	played := make([]chan outcome, len(scenarios))
	for i := range played {
		played[i] = make(chan outcome, 1)
	}
	var all errgroup.Group
	all.SetLimit(scenariosAtOnce)
	if c.URL != "" {
		all.SetLimit(1) // they share the gateway, and maybe a mock
	}
	go func() {
		for i, s := range scenarios {
			all.Go(func() error {
				lines, err := c.play(ctx, log, s)
				played[i] <- outcome{lines, err}
				return nil
			})
		}
	}()
	t := tally{states: map[verify.State]int{}}
	for i, s := range scenarios {
		o := <-played[i]
		if c.URL != "" && s.HasConfig() {
			fmt.Fprintf(in.stdout, "note  %s: its config is not applied: the gateway at --url has its own\n", s.File)
		}
		for _, l := range o.lines {
			t.add(l)
			fmt.Fprintln(in.stdout, l)
		}
		if o.err != nil {
			t.add(verify.Line{State: verify.Failed})
			fmt.Fprintf(in.stdout, "%-4s  %s: %v\n", verify.Failed, s.File, o.err)
		}
	}
	return t.end(in, len(scenarios), time.Since(begin))
}

// outcome is what came of one scenario.
type outcome struct {
	lines []verify.Line
	err   error
}

func readScenarios(files, env []string) (all []*verify.Scenario, err error) {
	var faults config.Faults
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			if path, ok := errors.AsType[*fs.PathError](err); ok {
				err = path.Err
			}
			faults = append(faults, config.Fault{Place: config.Place{File: f}, What: "cannot be read: " + err.Error(), Mend: "check the path"})
			continue
		}
		s, wrong := verify.Read(f, data, env)
		all, faults = append(all, s), append(faults, wrong...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// play plays one scenario where it is to be played.
func (c *verifyCommand) play(ctx context.Context, log *zap.Logger, s *verify.Scenario) (lines []verify.Line, err error) {
	if c.URL != "" {
		return s.Play(ctx, verify.Stage{Gateway: strings.TrimSuffix(c.URL, "/"), Mock: s.MockURL})
	}
	on, err := openStage(ctx, log, func(dir, upstream string) (*config.Config, error) {
		conf := s.Config
		conf.Server.Listen, conf.Server.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
		conf.Server.ShutdownGrace = 0 // what still runs at the end is nobody's
		conf.Store.URL = "local:" + dir
		for i := range conf.Providers {
			// A path of its own, by which the script can tell it from others.
			if p := &conf.Providers[i]; p.Kind == "mock" {
				p.BaseURL = "http://" + upstream + "/" + p.Name + "/v1"
			}
		}
		for i := range conf.Tools {
			if t := &conf.Tools[i]; t.BaseURL == config.MockTool {
				t.BaseURL = "http://" + upstream + "/" + t.Name
			}
		}
		return conf, nil
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.close()) }()
	return s.Play(ctx, verify.Stage{Gateway: "http://" + on.gateway, Mock: "http://" + on.upstream, Fresh: true})
}

// tally counts what became of steps.
type tally struct {
	states  map[verify.State]int
	steps   int
	checked int // expectations
}

func (t *tally) add(l verify.Line) {
	t.states[l.State]++
	t.steps++
	t.checked += l.Checked
}

// end tells the counts, and fails where a step did or where nothing was checked.
func (t *tally) end(in *invocation, files int, took time.Duration) error {
	var parts []string
	for _, s := range []verify.State{verify.Passed, verify.Failed, verify.Unchecked, verify.Ran} {
		if t.states[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", t.states[s], s))
		}
	}
	fmt.Fprintf(in.stdout, "steps: %s; files: %d, %v\n", strings.Join(parts, ", "), files, took.Round(time.Millisecond))
	switch {
	case t.states[verify.Failed] > 0:
		return fmt.Errorf("%d of %d steps failed", t.states[verify.Failed], t.steps)
	case t.checked == 0:
		return errors.New("nothing was checked")
	}
	return nil
}
