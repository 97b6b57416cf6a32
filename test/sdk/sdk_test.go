//go:build sdk

// Package sdk runs the SDKs that people use against the built gateway. Two
// upstreams keep what they were asked, and their counts judge whether a call
// ran once: aimock, which others wrote, and one of our own in this process for
// what aimock can't play. run.sh installs the SDKs and calls this.
//
// The number in a check's name is what it is about: 1 every operation, 2
// retries, 3 keys, 4 clients that leave, 5 who shares with whom, 6 broken
// streams, 7 replayed streams, 8 tools that write.
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

// A suite is a program that checks one SDK and reports in TAP. Its first lines
// are comments with the versions of the packages that it runs.
type suite struct {
	name     string // of the SDK and its language, with the major version where there are several
	language string
	kind     string // of provider that the SDK speaks to
	program  []string
	env      []string
}

func python(name, kind, program string) suite {
	return suite{name, "python", kind, []string{".venv/bin/python", "python/" + program}, nil}
}

func node(name, kind, program, sdk string) suite {
	return suite{name, "node", kind, []string{"node", "--test-reporter=tap", "node/" + program}, []string{"SDK=" + sdk}}
}

// openai 7 asks for Node 22, and works on 20.
var suites = []suite{
	python("openai-python", "openai", "openai_checks.py"),
	python("anthropic-python", "anthropic", "anthropic_checks.py"),
	python("langchain-openai-python", "openai", "langchain_checks.py"),
	python("openai-agents-python", "openai", "agents_checks.py"),
	node("openai-node-6", "openai", "openai_checks.mjs", "openai"),
	node("openai-node-7", "openai", "openai_checks.mjs", "openai-7"),
	node("anthropic-node-0", "anthropic", "anthropic_checks.mjs", "@anthropic-ai/sdk"),
	node("anthropic-node-1", "anthropic", "anthropic_checks.mjs", "anthropic-1"),
	node("langchain-openai-node", "openai", "langchain_checks.mjs", "@langchain/openai"),
	node("openai-agents-node", "openai", "agents_checks.mjs", "@openai/agents"),
	node("ai-openai-node", "openai", "ai_checks.mjs", "@ai-sdk/openai"),
	node("ai-anthropic-node", "anthropic", "ai_checks.mjs", "@ai-sdk/anthropic"),
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
	if installed("node") {
		var err error
		if aimock, err = startAimock(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	status := m.Run()
	if aimock.end != nil {
		aimock.end()
	}
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
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

var (
	tapVersion = regexp.MustCompile(`(?m)^# (\S+ (\d+)\.\d+\.\d+\S*)$`)
	tapNoise   = regexp.MustCompile(`(?m)^ +(---|\.\.\.|duration_ms: .*|location: .*|failureType: .*|code: .*|name: .*|operator: .*)\n|^ *# Subtest: .*\n`)
	tapResult  = regexp.MustCompile(`(?m)^(not )?ok \d+ - (.*)$`)
)

func (s suite) run(t *testing.T) {
	u := newUpstream(t)
	g := startGateway(t, s.name, s.kind, u)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program[0], s.program[1:]...)
	cmd.Env = append(os.Environ(), "GATEWAY="+g.URL, "ADMIN="+g.Admin, "UPSTREAM="+u.URL, "AIMOCK="+journal(u).URL,
		"UPSTREAM_KEY="+upstreamKey, "KEY_ALICE="+keyAlice, "KEY_BOB="+keyBob, "SUITE="+s.name,
		"ONCEGATE_URL="+g.URL, "ONCEGATE_KEY="+keyAlice)
	cmd.Env = append(cmd.Env, s.env...)
	text, err := cmd.CombinedOutput()
	out := string(text)
	if testing.Verbose() {
		t.Log(out)
	}

	name := s.name
	var versions []string
	for i, v := range tapVersion.FindAllStringSubmatch(out, -1) {
		versions = append(versions, v[1])
		if i == 0 {
			name = strings.TrimSuffix(name, "-"+v[2]) + "-" + v[1][strings.Index(v[1], " ")+1:]
		}
	}
	passed, failed := 0, 0
	results := tapResult.FindAllStringSubmatchIndex(out, -1)
	for i, r := range results {
		if r[2] < 0 {
			passed++
			continue
		}
		failed++
		end := len(out)
		if i+1 < len(results) {
			end = results[i+1][0]
		}
		t.Errorf("%s (%s): %s\n%s", name, strings.Join(versions, ", "), out[r[4]:r[5]],
			tapNoise.ReplaceAllString(out[r[1]:end], ""))
	}
	score(name, passed, failed)
	if failed == 0 && (err != nil || passed == 0) {
		t.Errorf("%s: %s: %v\n%s", name, strings.Join(cmd.Args, " "), err, out)
	}
}
