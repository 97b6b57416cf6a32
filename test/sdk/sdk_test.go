//go:build sdk

// Package sdk runs the SDKs that people use against the built gateway. An
// upstream of its own, in this process, answers by script and keeps what it
// was asked: its counts judge whether a call ran once. run.sh installs the
// SDKs and calls this.
package sdk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A suite is a program that checks one SDK and reports in TAP. Its first line
// is a comment with the version of the SDK that it runs.
type suite struct {
	name     string
	language string
	kind     string // of provider that the SDK speaks to
	program  []string
	env      []string
}

// openai 7 asks for Node 22, and works on 20.
var suites = []suite{
	{"openai-python", "python", "openai", []string{".venv/bin/python", "python/openai_checks.py"}, nil},
	{"anthropic-python", "python", "anthropic", []string{".venv/bin/python", "python/anthropic_checks.py"}, nil},
	{"openai-node", "node", "openai", []string{"node", "--test-reporter=tap", "node/openai_checks.mjs"}, []string{"SDK=openai"}},
	{"openai-node", "node", "openai", []string{"node", "--test-reporter=tap", "node/openai_checks.mjs"}, []string{"SDK=openai-7"}},
	{"anthropic-node", "node", "anthropic", []string{"node", "--test-reporter=tap", "node/anthropic_checks.mjs"}, []string{"SDK=@anthropic-ai/sdk"}},
	{"anthropic-node", "node", "anthropic", []string{"node", "--test-reporter=tap", "node/anthropic_checks.mjs"}, []string{"SDK=anthropic-1"}},
}

// scores are the closing lines, one an SDK.
var scores struct {
	sync.Mutex
	lines []string
}

func score(sdk string, passed, failed int) {
	scores.Lock()
	defer scores.Unlock()
	scores.lines = append(scores.lines, fmt.Sprintf("%s: %d passed, %d failed", sdk, passed, failed))
}

func TestMain(m *testing.M) {
	status := m.Run()
	slices.Sort(scores.lines)
	fmt.Println(strings.Join(scores.lines, "\n"))
	os.Exit(status)
}

// installed says whether run.sh could install what language needs.
func installed(language string) bool {
	return slices.Contains(strings.Fields(os.Getenv("SDK_LANGUAGES")), language)
}

func TestSDK(t *testing.T) {
	for _, s := range suites {
		if !installed(s.language) {
			continue // run.sh says so, and fails in CI
		}
		t.Run(strings.Join(append([]string{s.name}, s.env...), "-"), func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

var (
	tapVersion = regexp.MustCompile(`(?m)^# \S+ (\d+\.\d+\.\d+\S*)$`)
	tapPassed  = regexp.MustCompile(`(?m)^ok \d+`)
	tapFailed  = regexp.MustCompile(`(?m)^not ok \d+`)
)

func (s suite) run(t *testing.T) {
	u := newUpstream(t)
	g := startGateway(t, s.kind, u)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program[0], s.program[1:]...)
	cmd.Env = append(os.Environ(), "GATEWAY="+g.URL, "ADMIN="+g.Admin, "UPSTREAM="+u.URL, "UPSTREAM_KEY="+upstreamKey,
		"KEY_ALICE="+keyAlice, "KEY_BOB="+keyBob, "SUITE="+s.name)
	cmd.Env = append(cmd.Env, s.env...)
	out, err := cmd.CombinedOutput()
	if testing.Verbose() {
		t.Logf("%s", out)
	}

	passed, failed := len(tapPassed.FindAll(out, -1)), len(tapFailed.FindAll(out, -1))
	name := s.name
	if v := tapVersion.FindSubmatch(out); v != nil {
		name += "-" + string(v[1])
	}
	score(name, passed, failed)
	if err != nil || failed > 0 || passed == 0 {
		t.Errorf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}
