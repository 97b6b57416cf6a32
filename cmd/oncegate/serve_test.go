package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// gatewayProcess is a gateway that run() runs, and where it listens.
type gatewayProcess struct {
	data, admin string
	stdout      *bytes.Buffer // valid after stop
	log         *bytes.Buffer // likewise
	stop        func() error  // asks it to stop, and waits
	asked       func()        // asks it to stop
	ended       chan struct{}
}

// start runs `oncegate serve` in a directory of its own, on ports of its own.
func start(t *testing.T, configuration string, args ...string) *gatewayProcess {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("ONCEGATE_SERVER_ADMIN_LISTEN", "127.0.0.1:0")
	args = append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)
	if configuration != "" {
		if err := os.WriteFile("config.yaml", []byte(configuration), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &gatewayProcess{stdout: new(bytes.Buffer), log: new(bytes.Buffer), ended: make(chan struct{})}
	stdoutEnd, stdout := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var failure error
	go func() {
		defer close(p.ended)
		failure = run(ctx, args, stdout, p.log)
		stdout.Close()
	}()
	p.asked = cancel
	copied := make(chan struct{})
	p.stop = sync.OnceValue(func() error {
		cancel()
		<-p.ended
		<-copied
		return failure
	})
	t.Cleanup(func() { p.stop() })

	lines := bufio.NewScanner(io.TeeReader(stdoutEnd, p.stdout))
	for (p.data == "" || p.admin == "") && lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) == 2 {
			switch f[0] {
			case "base_url":
				p.data = strings.TrimSuffix(f[1], "/v1")
			case "dashboard":
				p.admin = f[1]
			}
		}
	}
	if p.admin == "" {
		close(copied)
		t.Fatalf("the gateway did not start: %v\n%s", p.stop(), p.log)
	}
	go func() {
		defer close(copied)
		io.Copy(p.stdout, stdoutEnd)
	}()
	return p
}

const hello = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

func post(t *testing.T, url, body string) (status int, header http.Header, answer string) {
	t.Helper()
	r, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, r.Header, string(text)
}

func TestServeWithoutConfig(t *testing.T) {
	t.Setenv("ONCEGATE_LOG_LEVEL", "debug") // a line for each request, not only for those that went wrong
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	defer http.DefaultClient.CloseIdleConnections()
	p := start(t, "")

	// Two of the same at once are one call upstream.
	outcomes := make(chan string, 2)
	for range 2 {
		go func() {
			status, header, body := post(t, p.data, hello)
			if status != 200 || !strings.Contains(body, "hello") {
				t.Errorf("%d %s", status, body)
			}
			outcomes <- header.Get("Oncegate-Outcome")
		}()
	}
	got := map[string]int{<-outcomes: 1}
	got[<-outcomes]++
	if got["executed"] != 1 || got["coalesced"] != 1 {
		t.Errorf("outcomes: %v", got)
	}

	// A write that is sent again with its key runs once.
	var first string
	for _, want := range []string{"executed", "replayed"} {
		r, _ := http.NewRequest("POST", p.data+"/tools/payments/payments", strings.NewReader(`{"ref":"order 7","amount":5}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "order-7")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != 201 || answer.Header.Get("Oncegate-Outcome") != want || first != "" && string(body) != first {
			t.Errorf("%v %d %s, want %s: %s", err, answer.StatusCode, answer.Header.Get("Oncegate-Outcome"), want, body)
		}
		first = string(body)
	}

	// The admin listener has its probes, which is what healthcheck asks for.
	var out, errs bytes.Buffer
	if err := run(t.Context(), []string{"healthcheck", "--admin", p.admin}, &out, &errs); err != nil || out.String() != "ok\n" {
		t.Errorf("healthcheck: %v %s", err, out.String())
	}
	if err := p.stop(); err != nil {
		t.Errorf("stopped with %v\n%s", err, p.log)
	}
	if s := p.stdout.String(); !strings.Contains(s, "no config file in sight") || !strings.Contains(s, "curl -si "+p.data+"/v1") || !strings.Contains(s, "curl -si "+p.data+"/tools/payments/payments") {
		t.Errorf("greeting:\n%s", s)
	}
	if _, err := os.Stat(filepath.Join("data", "oncegate.db")); err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"healthcheck", "--admin", p.admin}, &out, &errs); err == nil || !strings.Contains(err.Error(), p.admin) {
		t.Errorf("healthcheck of a stopped gateway: %v", err)
	}
	// The log is lines of JSON, one a request.
	requests := 0
	for line := range strings.Lines(p.log.String()) {
		var entry struct{ Msg, Outcome string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("not a line of JSON: %s", line)
		}
		if entry.Msg == "request" && entry.Outcome != "" {
			requests++
		}
	}
	if requests != 4 {
		t.Errorf("%d request lines in\n%s", requests, p.log)
	}
}

// A stopping gateway lets a call in flight finish, and refuses new ones.
func TestServeDrains(t *testing.T) {
	p := start(t, "providers: [{name: mock, kind: mock}]\nmodels: [{name: '*', targets: [{provider: mock}]}]\n")
	r, err := http.NewRequest("POST", p.data+"/v1/chat/completions", strings.NewReader(
		fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("word ", 200))))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	p.asked()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Contains(body, []byte("[DONE]")) {
		t.Errorf("the stream in flight ended with %v after %d bytes", err, len(body))
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if s := p.stdout.String(); !strings.Contains(s, "some models are answered by the built-in mock") {
		t.Errorf("greeting:\n%s", s)
	}
}

func TestServeNamesAPortThatIsTaken(t *testing.T) {
	p := start(t, "")
	t.Chdir(t.TempDir())
	err := run(t.Context(), []string{"serve", "--listen", strings.TrimPrefix(p.data, "http://")}, io.Discard, io.Discard)
	if err == nil || exitStatus(err, io.Discard) != 1 || !strings.Contains(err.Error(), "server.listen") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v", err)
	}
}

// Keys of the configuration reach the gateway: a caller without one is
// refused, one with a key is served.
func TestServeWithAKey(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"key", "new", "me"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var key, hash string
	if _, err := fmt.Sscanf(out.String(), "key: %s\nhash: %s\n", &key, &hash); err != nil {
		t.Fatal(err)
	}
	p := start(t, "auth: {keys: [{name: me, hash: '"+hash+"'}]}\nproviders: [{name: mock, kind: mock}]\nmodels: [{name: '*', targets: [{provider: mock}]}]\n")
	if status, _, _ := post(t, p.data, hello); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	r, _ := http.NewRequest("POST", p.data+"/v1/chat/completions", strings.NewReader(hello))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != 200 {
		t.Errorf("with the key: %d", answer.StatusCode)
	}
}

func TestMockCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	outEnd, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"mock", "--listen", "127.0.0.1:0"}, out, io.Discard) }()
	lines := bufio.NewScanner(outEnd)
	lines.Scan()
	_, url, _ := strings.Cut(lines.Text(), "mock upstream: ")
	go io.Copy(io.Discard, outEnd)
	if status, _, body := post(t, strings.TrimSuffix(url, "/v1"), hello); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the mock does not end with its context")
	}
}
