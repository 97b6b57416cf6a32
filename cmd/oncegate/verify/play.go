package verify

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Stage is what a scenario plays on.
type Stage struct {
	Gateway string // its URL
	Mock    string // the URL of its upstream; empty: nobody says, and its calls are not counted
	Fresh   bool   // the gateway knows nothing of earlier runs
}

// State is what became of a step.
type State string

// The states.
const (
	Passed    State = "ok"
	Failed    State = "FAIL"
	Unchecked State = "not checked" // something of it was not, and the rest held
	Ran       State = "ran"         // nothing is expected of it
)

// allSteps names the line about all steps together.
const allSteps = "all steps"

// Line is what there is to say of one step.
type Line struct {
	State   State
	File    string
	Line    int
	Name    string
	Elapsed time.Duration
	Checked int    // so many expectations were
	Text    string // what failed, or why something was not checked
}

func (l Line) String() string {
	s := fmt.Sprintf("%-4s  %s:%d: %s (%s)", l.State, l.File, l.Line, l.Name, seconds(int64(l.Elapsed)))
	if l.Text != "" {
		s += ": " + l.Text
	}
	return s
}

// Play plays a scenario, and gives a line for each step. An error is that of a
// mock that does not answer, or of a ctx that ended.
func (s *Scenario) Play(ctx context.Context, on Stage) (lines []Line, err error) {
	if on.Mock == "" && s.scriptLine > 0 {
		return s.unplayed("the mock could not be given its script: mock_url says where it listens"), nil
	}
	p := &play{Stage: on, run: strings.ToLower(rand.Text()), mock: counter{on.Mock}}
	if !on.Fresh {
		// An answer that an earlier run left behind must not be shared.
		p.extra = http.Header{"Oncegate-Nonce": {p.run}}
	}
	if on.Mock != "" {
		if err := p.mock.load(ctx, s.script); err != nil {
			return nil, err
		}
		defer func() {
			if gone := p.mock.reset(context.WithoutCancel(ctx)); err == nil {
				err = gone
			}
		}()
	}
	begin := time.Now()
	first, err := p.counts(ctx)
	if err != nil {
		return nil, err
	}
	for i := range s.Steps {
		l, err := p.step(ctx, &s.Steps[i])
		if err != nil {
			return lines, err
		}
		l.File = s.File
		lines = append(lines, l)
	}
	if s.Total != nil {
		saw, err := p.since(ctx, first)
		if err != nil {
			return lines, err
		}
		l := Line{File: s.File, Line: s.totalLine, Name: allSteps, Elapsed: time.Since(begin)}
		l.judged(s.Total.judge(nil, saw))
		lines = append(lines, l)
	}
	return lines, nil
}

// unplayed are the lines of a scenario that can't be played, and why.
func (s *Scenario) unplayed(why string) (lines []Line) {
	for _, st := range s.Steps {
		lines = append(lines, Line{State: Unchecked, File: s.File, Line: st.Line, Name: st.Name, Text: why})
	}
	if s.Total != nil {
		lines = append(lines, Line{State: Unchecked, File: s.File, Line: s.totalLine, Name: allSteps, Text: why})
	}
	return lines
}

// play is one run of a scenario.
type play struct {
	Stage
	run   string // a word of this run only
	mock  counter
	extra http.Header
}

// counts is what the mock has counted so far; nil: there is none to ask.
func (p *play) counts(ctx context.Context) (*counts, error) {
	if p.Mock == "" {
		return nil, nil
	}
	n, err := p.mock.counts(ctx)
	return &n, err
}

func (p *play) since(ctx context.Context, before *counts) (*counts, error) {
	now, err := p.counts(ctx)
	if now != nil && before != nil {
		*now = now.since(*before)
	}
	return now, err
}

func (p *play) step(ctx context.Context, st *Step) (Line, error) {
	l := Line{Line: st.Line, Name: st.Name}
	if err := pause(ctx, st.Wait); err != nil {
		return l, err
	}
	before, err := p.counts(ctx)
	if err != nil {
		return l, err
	}
	begin := time.Now()
	var answers [][]*answer // by request
	if st.AtOnce {
		answers = p.atOnce(ctx, st)
	} else {
		answers = [][]*answer{p.inTurn(ctx, &st.Asks[0])}
	}
	l.Elapsed = time.Since(begin)
	if ctx.Err() != nil {
		return l, context.Cause(ctx)
	}
	saw, err := p.since(ctx, before)
	if err != nil {
		return l, err
	}
	var v verdict
	var all []*answer
	for i, some := range answers {
		v.add(st.Asks[i].Expect.judge(some, nil))
		all = append(all, some...)
	}
	v.add(st.Expect.judge(all, saw))
	l.judged(v)
	return l, nil
}

// judged gives a line its state and its text.
func (l *Line) judged(v verdict) {
	l.Checked = v.checked
	switch {
	case len(v.failed) > 0:
		l.State = Failed
	case len(v.unchecked) > 0:
		l.State = Unchecked
	case v.checked == 0:
		l.State = Ran
	default:
		l.State = Passed
	}
	l.Text = strings.Join(append(v.failed, v.unchecked...), "; ")
}

func (p *play) inTurn(ctx context.Context, a *Ask) []*answer {
	var out []*answer
	for n := range a.Repeat {
		if ctx.Err() != nil {
			break
		}
		out = append(out, a.send(ctx, p.Gateway, p.words(n), p.extra))
	}
	return out
}

func (p *play) atOnce(ctx context.Context, st *Step) [][]*answer {
	out := make([][]*answer, len(st.Asks))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range st.Asks {
		a := &st.Asks[i]
		out[i] = make([]*answer, a.Repeat)
		for n := range a.Repeat {
			all.Go(func() {
				<-start
				pause(ctx, a.Wait)
				out[i][n] = a.send(ctx, p.Gateway, p.words(n), p.extra)
			})
		}
	}
	close(start)
	all.Wait()
	return out
}

// words fills in ${RUN} and ${N}.
func (p *play) words(n int) *strings.Replacer {
	return strings.NewReplacer("${RUN}", p.run, "${N}", strconv.Itoa(n+1))
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
