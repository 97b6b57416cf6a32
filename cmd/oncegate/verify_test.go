package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"oncegate/cmd/oncegate/config"
	"oncegate/providers/mock"
)

// The scenarios that ship hold.
func TestVerifyShipped(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../test/scenarios/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	begin := time.Now()
	var out, oops bytes.Buffer
	err = run(t.Context(), append([]string{"verify"}, files...), &out, &oops)
	t.Log(out.String())
	if err != nil {
		t.Error(err)
	}
	if oops.Len() > 0 {
		t.Error(oops.String())
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("they took %v", took)
	}
	for _, f := range files {
		if !strings.Contains(out.String(), "ok    "+f+":") {
			t.Errorf("no word of %s", f)
		}
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "ok ") && !strings.HasPrefix(line, "steps: ") {
			t.Error(line)
		}
	}
}

// Every kind of expectation can fail, and then says what it saw.
func TestVerifyFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, mock, request, expect, want string }{
		{"status", "{status: 404}", "", "{status: 200}", `status: expected 200, saw 404 \(\{"error".*\)`},
		{"one of several statuses", "{status: 404}", "", "{status: [200, 503]}", `status: expected 200 or 503, saw 404 \(.*\)`},
		{"statuses, counted", "{status: 404}", "repeat: 3, body: '{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"${N}\"}]}'", "{status: {404: 2, 200: 1}}",
			`status: expected 1 200, 2 404, saw 2 200, 1 404`},
		{"a status among repeats", "{status: 404}", "repeat: 3, body: '{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"${N}\"}]}'", "{status: 200}",
			`status: expected 200, saw 404 \(.*\) \(1 of 3\)`},
		{"an answer where a time-out should be", "", "", "{status: timeout}", `status: expected timeout, saw 200`},
		{"a time-out", "{delay: 10s}", "timeout: 100ms", "{status: 200}", `status: expected 200, saw timeout`},
		{"a stream that breaks", "{reset: {at: chunks, after: 1}}", "body: {model: m, stream: true, messages: [{role: user, content: one two three}]}", "{status: broken}",
			`status: expected broken, saw 200`},
		{"outcome", "", "", "{outcome: coalesced}", `outcome: expected coalesced, saw executed`},
		{"outcomes, counted", "", "repeat: 2", "{outcome: {executed: 1, replayed: 1}}", `outcome: expected 1 executed, 1 replayed, saw 2 executed`},
		{"reason", "", "", "{reason: twin}", `reason: expected twin, saw none`},
		{"no reason", "{status: 500}", "headers: {Oncegate-Timeout: 1s}", "{reason: ''}", `reason: expected none, saw attempts_exhausted \(.*\)`},
		{"attempts", "", "", "{attempts: 2}", `attempts: expected 2, saw 1`},
		{"attempts in a window", "", "", "{attempts: {min: 2, max: 3}}", `attempts: expected 2 to 3, saw 1`},
		{"elapsed, too short", "", "", "{elapsed: {min: 20s}}", `elapsed: expected 20s or more, saw [\d.]+m?s`},
		{"elapsed, too long", "{delay: 300ms}", "", "{elapsed: {min: 1ms, max: 200ms}}", `elapsed: expected 1ms to 200ms, saw [\d.]+m?s`},
		{"a header", "", "", "{headers: {Content-Type: text/plain}}", `Content-Type: expected "text/plain", saw "application/json"`},
		{"a header that is not there", "", "", "{headers: {X-None: a}}", `X-None: expected "a", saw no such header`},
		{"a header that is there", "", "", "{headers: {Oncegate-Key: {absent: true}}}", `Oncegate-Key: expected no such header, saw ".+"`},
		{"a part of a header", "", "", "{headers: {Content-Type: {contains: [application, xml]}}}", `Content-Type: expected a part "xml", saw "application/json"`},
		{"the number in a header", "{headers: {X-Left: 8}}", "", "{headers: {X-Left: {min: 1, max: 7}}}", `X-Left: expected 1 to 7, saw "8"`},
		{"no number in a header", "{headers: {X-Left: soon}}", "", "{headers: {X-Left: {min: 1}}}", `X-Left: expected 1 or more, saw "soon"`},
		{"a part of the body", "", "", "{body: {contains: [hello, goodbye]}}", `body: expected a part "goodbye", saw \{.*`},
		{"a member", "", "", "{body: {json: {/choices/0/message/role: user}}}", `body /choices/0/message/role: expected "user", saw "assistant"`},
		{"a number", "{body: {choices: [{message: {content: x}, finish_reason: stop}], n: 12345678901234567891}}", "", "{body: {json: {/n: 12345678901234567890}}}", `body /n: expected 12345678901234567890, saw 12345678901234567891`},
		{"an object", "{body: {choices: [{message: {content: x}, finish_reason: stop}], a~b/c: {x: [1, {}]}}}", "", "{body: {json: {/a~0b~1c: {x: [1, []]}}}}", `body /a~0b~1c: expected \{"x":\[1,\[\]\]\}, saw \{"x": \[1, \{\}\]\}`},
		{"a member that is not there", "", "", "{body: {json: {/choices/1: 1}}}", `body /choices/1: expected 1, saw nothing there in \{.*`},
		{"upstream calls", "", "repeat: 2", "{upstream: 1}", `upstream: expected 1, saw 2 calls`},
		{"upstream calls in a window", "", "", "{upstream: {min: 2}}", `upstream: expected 2 or more, saw 1 calls`},
		{"one of those at once", "", "at_once: [{expect: {status: 200}}, {expect: {status: 400}}]", "{upstream: {min: 1, max: 2}}", `status: expected 400, saw 200`},
		{"several at a time", "", "", "{outcome: failed, attempts: 1, upstream: 0}", `outcome: expected failed, saw executed; upstream: expected 0, saw 1 calls`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "s.yaml")
			script, request := "", ""
			if c.mock != "" {
				script = "steps: [" + c.mock + "]"
			}
			if c.request != "" {
				request = c.request + ", "
			}
			os.WriteFile(file, fmt.Appendf(nil, "config: {policy: {attempts: 1}}\nmock: {%s}\nsteps:\n  - {%sexpect: %s}\n", script, request, c.expect), 0o600)
			var out bytes.Buffer
			err := run(t.Context(), []string{"verify", file}, &out, io.Discard)
			if err == nil || exitStatus(err, io.Discard) != 1 {
				t.Errorf("exit status %d: %v", exitStatus(err, io.Discard), err)
			}
			want := regexp.MustCompile(`^FAIL  ` + regexp.QuoteMeta(file) + `:4: step 1 \([\d.]+m?s\): ` + c.want + "\n")
			if !want.MatchString(out.String()) {
				t.Errorf("no line like %s in\n%s", want, out.String())
			}
		})
	}
}

// The example in docs/verify.md holds.
func TestVerifyDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(doc, -1)
	if len(examples) == 0 {
		t.Fatal("no example")
	}
	for _, e := range examples {
		file := filepath.Join(t.TempDir(), "s.yaml")
		os.WriteFile(file, e[1], 0o600)
		var out bytes.Buffer
		if err := run(t.Context(), []string{"verify", file}, &out, io.Discard); err != nil {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
}

// An answer that breaks off is told from one that never began.
func TestVerifyBroken(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("half"))
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "s.yaml")
	os.WriteFile(file, []byte("steps:\n  - {path: /half, expect: {status: broken, body: {contains: half}}}\n  - {expect: {status: broken}}\n"), 0o600)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"verify", "--url", srv.URL, file}, &out, io.Discard); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	srv.Close()
	out.Reset()
	if err := run(t.Context(), []string{"verify", "--url", srv.URL, file}, &out, io.Discard); err == nil || strings.Count(out.String(), "status: expected broken, saw nothing sent") != 2 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// The calls of all steps together are counted, those of a step that has no
// answer too.
func TestVerifyTotal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s.yaml")
	os.WriteFile(file, []byte(`config: {policy: {attempts: 1}}
mock:
  steps: [{delay: 10s}, {reset: {at: request}}]
steps:
  - {timeout: 200ms, expect: {status: timeout, upstream: 1}}
  - {body: {model: m, messages: [{role: user, content: other}]}, expect: {status: 502, upstream: 1}}
expect: {upstream: 3}
`), 0o600)
	var out bytes.Buffer
	err := run(t.Context(), []string{"verify", file}, &out, io.Discard)
	if exitStatus(err, io.Discard) != 1 || !regexp.MustCompile(`FAIL  \S+:7: all steps \(.*\): upstream: expected 3, saw 2 calls\n`).MatchString(out.String()) || strings.Count(out.String(), "ok  ") != 2 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// What was executed and what was made is counted, and told where it is not what
// was expected. The mock itself is asked: no gateway stands between.
func TestVerifyCountsWrites(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(mock.New(mock.Options{}))
	defer up.Close()
	file := filepath.Join(t.TempDir(), "s.yaml")
	verify := func(text string) (status int, out string) {
		t.Helper()
		os.WriteFile(file, []byte("mock_url: "+up.URL+"\n"+text), 0o600)
		var b bytes.Buffer
		err := run(t.Context(), []string{"verify", "--url", up.URL, file}, &b, io.Discard)
		return exitStatus(err, io.Discard), strings.ReplaceAll(b.String(), file, "s.yaml")
	}
	status, out := verify(`mock:
  steps: [{status: 503}, {close: {at: after_effect}}]
steps:
  - {path: /payments, body: {ref: a}, expect: {status: 503, upstream: 1, executions: 0, resources: 0}}
  - {path: /payments, body: {ref: a}, expect: {status: broken, executions: 1, resources: 1}}
  - {path: /payments/x, method: PUT, body: {ref: b}, expect: {status: 201, executions: 1, resources: 1}}
  - {path: /payments/x, method: DELETE, repeat: 2, expect: {status: 200, executions: 2, resources: 0}}
  - {path: /payments/x/refund, body: {amount: 1}, expect: {status: 201, executions: {min: 1}, resources: {max: 1}}}
  - {path: /payments, method: GET, expect: {status: 200, executions: 0, upstream: 1}}
expect: {upstream: 7, executions: 5, resources: 3}
`)
	if status != 0 || !strings.Contains(out, "steps: 7 ok;") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out = verify(`steps:
  - {path: /payments, repeat: 2, body: {ref: a}, expect: {executions: 1, resources: {min: 3}}}
expect: {executions: {max: 1}, resources: 1}
`)
	for _, want := range []string{
		`FAIL  s\.yaml:3: .*: executions: expected 1, saw 2; resources: expected 3 or more, saw 2\n`,
		`FAIL  s\.yaml:4: all steps .*: executions: expected 0 to 1, saw 2; resources: expected 1, saw 2\n`,
	} {
		if status != 1 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("status %d, no line like %s in\n%s", status, want, out)
		}
	}
}

// At a URL the file's script goes to the mock that it names. Without one,
// what would need it is told as not checked.
func TestVerifyURL(t *testing.T) {
	t.Parallel()
	on, err := openStage(t.Context(), zap.NewNop(), func(dir, upstream string) (*config.Config, error) {
		return config.Load(config.Source{Data: fmt.Appendf(nil, `
server: {listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0}
store: {url: "local:%s"}
providers: [{name: up, kind: openai, base_url: "http://%s/v1"}]
models: [{name: "*", targets: [{provider: up}]}]
`, dir, upstream)})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer on.close()
	verify := func(text string) (status int, out string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "s.yaml")
		os.WriteFile(file, []byte(text), 0o600)
		var b, oops bytes.Buffer
		err := run(t.Context(), []string{"verify", "--url", "http://" + on.gateway + "/", file}, &b, &oops)
		return exitStatus(err, &oops), strings.ReplaceAll(b.String()+oops.String(), file, "s.yaml")
	}
	const body = `
config: {policy: {attempts: 1}}
mock:
  steps: [{status: 404}]
steps:
  - {expect: {status: 404, upstream: 1}}
  - {headers: {Idempotency-Key: "k-${RUN}", Oncegate-Dedupe: always}, expect: {status: 200, outcome: executed, upstream: 1}}
  - {headers: {Oncegate-Dedupe: always}, expect: {status: 200, outcome: executed, upstream: 1}}
expect: {upstream: 3}
`
	for range 2 { // an answer of an earlier run is not shared
		status, out := verify("mock_url: http://" + on.upstream + body)
		if status != 0 || !strings.Contains(out, "note  s.yaml: its config is not applied") || !strings.Contains(out, "\nsteps: 4 ok;") {
			t.Errorf("status %d\n%s", status, out)
		}
	}
	if left := on.mock.Stats(); left.StepsLeft != 0 || left.Requests != 0 {
		t.Errorf("the mock is not as it was: %+v", left)
	}

	status, out := verify(body)
	if status != 1 || strings.Count(out, "not checked  s.yaml:") != 4 || !strings.Contains(out, "mock_url says where it listens") || !strings.Contains(out, "nothing was checked") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out = verify("steps:\n  - {expect: {status: 200, upstream: 1}}\n  - {expect: {status: 200}}\nexpect: {upstream: 2}\n")
	if status != 0 || strings.Count(out, "not checked  s.yaml:") != 2 || !strings.Contains(out, "steps: 1 ok, 2 not checked;") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out = verify("steps:\n  - {expect: {status: 200, executions: 0, resources: 0}}\n")
	if status != 0 || !strings.Contains(out, "executions, resources: nobody counts the calls: mock_url says where the mock listens") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out = verify("steps:\n  - {expect: {status: 400, upstream: 1}}\n")
	if status != 1 || !strings.Contains(out, "FAIL  s.yaml:2: step 1") || !strings.Contains(out, "status: expected 400, saw 200; upstream: nobody counts") {
		t.Errorf("status %d\n%s", status, out)
	}
	status, out = verify("mock_url: http://" + on.gateway + body)
	if status != 1 || !regexp.MustCompile(`FAIL  s\.yaml: http://\S+/_mock/script answers 404 Not Found: is it oncegate mock\?`).MatchString(out) {
		t.Errorf("status %d\n%s", status, out)
	}
}
