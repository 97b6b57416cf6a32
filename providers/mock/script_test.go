package mock

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestScriptFaultsHaveLines(t *testing.T) {
	for _, c := range []struct {
		src  string
		want []string
	}{
		{"steps:\n  - status: 200\n    retry_after: 3\n", []string{"line 3", "retry_after"}},
		{"stepz: []\n", []string{"line 1", "stepz"}},
		{"steps:\n  - reset: {at: body}\n", []string{"line 2", "steps[0].reset.at", `"body"`, "accept, request, before_effect"}},
		{"steps:\n  - delay: 5\n", []string{"line 2"}},
		{"steps:\n  - delay: soon\n", []string{"line 2"}},
		{"steps:\n  - events:\n      - {dat: x}\n", []string{"dat"}},
		{"steps:\n  - {status: 42}\n  - {times: -2, line_ending: nl}\notherwise: {chunks: -1}\n",
			[]string{"line 2: steps[0].status", "line 3: steps[1].times", "line 3: steps[1].line_ending", "line 4: otherwise.chunks"}},
		{"steps:\n  - reset: {at: chunks, after: 1}\n    cut: 1\n", []string{"line 2", "only one of reset, close and cut"}},
		{"steps:\n  - error: {code: x}\n", []string{"error_at"}},
		{"keys: honour\n", []string{"line 1"}},
		{"record: true\nkeys: {ttl: 5s}\n", []string{"line 2", "ttl"}},
		{"keys:\n  window: -5s\n  header: 'A: b'\n", []string{"line 2: keys.window", "line 3: keys.header"}},
		{"steps:\n  - effect: later\n", []string{"line 2"}},
		{"steps:\n  - match: {verb: GET}\n", []string{"line 2", "verb"}},
		{"steps:\n  - hang: {at: after_effect, after: 1}\n    reset: {at: after_effect, for: 1s}\n", []string{"line 2: steps[0].hang.after", "line 3: steps[0].reset.for", "before_effect"}},
		{"a: b: c\n", []string{"line 1"}},
		{"---\nsteps: []\n---\nsteps: []\n", []string{"one YAML document"}},
	} {
		_, err := ParseScript([]byte(c.src))
		if err == nil {
			t.Errorf("no fault found in %q", c.src)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %q lacks %q", c.src, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n  ") {
			t.Errorf("%q: more than a line a fault: %q", c.src, err)
		}
	}
}

func TestScriptValues(t *testing.T) {
	s := script(t, `
record: true
otherwise: {delay: 1m30s}
steps:
  - times: 3
    status: 429
    headers: {Retry-After: 0.10, X-Two: [1e3, "abc"], X-Date: Wed, X-Yes: true}
    body: {b: 1.0, a: [null, "x"], big: 18446744073709551615}
    match: {stream: false}
    cut: 0
  - text: hello
    finish: length
    body: |
      {"a":  1}
`)
	st := s.Steps[0]
	if !s.Record || s.Otherwise.Delay != 90*time.Second || st.Times != 3 || *st.Cut != 0 || *st.Match.Stream {
		t.Errorf("%+v", s)
	}
	if h := st.Headers; h["Retry-After"][0] != "0.10" || h["X-Two"][0] != "1e3" || h["X-Two"][1] != "abc" || h["X-Date"][0] != "Wed" || h["X-Yes"][0] != "true" {
		t.Errorf("%q", h)
	}
	if got := string(st.Body); got != `{"b": 1.0, "a": [null, "x"], "big": 18446744073709551615}` {
		t.Errorf("%s", got)
	}
	if got := string(s.Steps[1].Body); got != "{\"a\":  1}\n" || s.Steps[1].Text != "hello" || s.Steps[1].Finish != "length" {
		t.Errorf("%q %+v", got, s.Steps[1])
	}
	if s, err := ParseScript(nil); err != nil || len(s.Steps) != 0 {
		t.Error("an empty script is a script", err)
	}
}

// TestDocumentedScript holds docs/mock.md to what the parser takes: every
// example in it, and every key.
func TestDocumentedScript(t *testing.T) {
	doc, err := os.ReadFile("../../docs/mock.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(doc, -1)
	if len(examples) == 0 {
		t.Fatal("no examples")
	}
	for _, e := range examples {
		if _, err := ParseScript(e[1]); err != nil {
			t.Errorf("%v in\n%s", err, e[1])
		}
	}
	src, err := os.ReadFile("script.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range regexp.MustCompile("`yaml:\"([a-z_]+)\"`").FindAllSubmatch(src, -1) {
		if !strings.Contains(string(doc), string(key[1])) {
			t.Errorf("docs/mock.md does not tell of %s", key[1])
		}
	}
}

func FuzzParseScript(f *testing.F) {
	for _, s := range []string{
		"", "steps: []", "steps:\n  - {status: 503, headers: {Retry-After: [1, 2]}}\n",
		`{"record":true,"steps":[{"body":{"a":1},"match":{"path":"/x","stream":true}}]}`,
		"otherwise: {delay: 400ms}\nsteps:\n  - events: ['a', {event: b, data: [1]}, {raw: \"\\r\"}]\n    reset: {at: chunks, after: 2}\n",
		"steps:\n  - &a {status: 500}\n  - *a\n", "a: !!binary x",
		"keys: {window: 2s}\nsteps:\n  - {match: {method: POST}, effect: false, reset: {at: before_effect, for: 1s}}\n", "steps:\n  - body: |\n      x\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := ParseScript(src)
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatalf("parsed, but not valid: %v", err)
		}
		New(Options{Script: s})
	})
}
