package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"oncegate/cmd/oncegate/config"
	"oncegate/providers/mock"
)

// recordsStage is a gateway whose tool is a mock, and the records command.
type recordsStage struct {
	*testing.T
	*stage
}

func openRecords(t *testing.T) *recordsStage {
	t.Helper()
	t.Parallel()
	on, err := openStage(t.Context(), zap.NewNop(), func(dir, upstream string) (*config.Config, error) {
		return config.Load(config.Source{Data: fmt.Appendf(nil, `
server: {listen: 127.0.0.1:0, admin_listen: 127.0.0.1:0, shutdown_grace: 1s}
auth: {admin_token: sesame}
store: {url: "local:%s"}
tools: [{name: payments, base_url: "http://%s"}, {name: mail, base_url: "http://%[2]s/mail"}]
`, dir, upstream)})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := on.close(); err != nil {
			t.Error(err)
		}
	})
	return &recordsStage{t, on}
}

// write sends a payment with a key. It gives the status, the body, and the
// record's name.
func (s *recordsStage) write(tool, key string) (status int, body string, header http.Header) {
	s.Helper()
	r, _ := http.NewRequest("POST", "http://"+s.gateway+"/tools/"+tool+"/payments", strings.NewReader(`{"ref":"`+key+`"}`))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// lose sends one whose answer is lost, and gives the record's name.
func (s *recordsStage) lose(tool, key string) string {
	s.Helper()
	s.mock.Script(mock.Step{Close: &mock.Point{At: mock.AtAfterEffect}})
	status, body, header := s.write(tool, key)
	if status != 424 {
		s.Fatalf("%s: %d %s", key, status, body)
	}
	return header.Get("Oncegate-Key")
}

// records runs the command.
func (s *recordsStage) records(args ...string) (status int, out, oops string) {
	s.Helper()
	conf := filepath.Join(s.TempDir(), "config.yaml")
	os.WriteFile(conf, []byte("server: {admin_listen: \""+s.admin+"\"}\nauth: {admin_token: sesame}\n"), 0o600)
	var b, e bytes.Buffer
	err := run(s.Context(), append(append([]string{"records"}, args...), "--config", conf), &b, &e)
	return exitStatus(err, &e), b.String(), e.String()
}

func (s *recordsStage) matches(text string, patterns ...string) {
	s.Helper()
	for _, p := range patterns {
		if !regexp.MustCompile("(?m)" + p).MatchString(text) {
			s.Errorf("no line like %s in\n%s", p, text)
		}
	}
}

func TestRecordsList(t *testing.T) {
	s := openRecords(t)
	if status, out, oops := s.records("ls"); status != 0 || out != "no records\n" || oops != "" {
		t.Errorf("%d %q %q", status, out, oops)
	}
	first, second := s.lose("payments", "first"), s.lose("mail", "second")
	if status, _, _ := s.write("payments", "done"); status != 201 {
		t.Fatal(status)
	}
	const row = `  %s +20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ  %s +POST /payments  %s +anonymous  -$`
	status, out, oops := s.records("ls")
	if status != 0 || oops != "" || strings.Count(out, "\n") != 4 {
		t.Errorf("%d %q\n%s", status, oops, out)
	}
	s.matches(out, `^KEY  +STATE  +SINCE  +TOOL  +WRITE  +STATUS  +PRINCIPAL  +USER$`,
		`^`+first+fmt.Sprintf(row, "unknown", "payments", "-"), `^`+second+fmt.Sprintf(row, "unknown", "mail", "-"),
		`^[0-9a-f]{64}`+fmt.Sprintf(row, "completed", "payments", "201"))

	status, out, _ = s.records("ls", "--state", "unknown", "--tool", "mail")
	if status != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, second) {
		t.Errorf("%d\n%s", status, out)
	}
	status, out, oops = s.records("ls", "--state", "unknown", "--limit", "1")
	if status != 0 || strings.Count(out, "\n") != 2 || !strings.Contains(out, first) || !strings.Contains(oops, "more than 1: --limit 0 lists all") {
		t.Errorf("%d %q\n%s", status, oops, out)
	}
	var list struct {
		Records []struct{ Key, State, Tool string }
		Next    string
	}
	status, out, _ = s.records("ls", "--format", "json", "--limit", "2")
	if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || len(list.Records) != 2 || list.Next == "" || list.Records[1].Key != second || list.Records[1].Tool != "mail" {
		t.Errorf("%d %v %s", status, err, out)
	}
	if status, _, oops := s.records("ls", "--tool", "a/b"); status != 1 || !strings.Contains(oops, "400 Bad Request: tool is the name of a tool") {
		t.Errorf("%d %q", status, oops)
	}
}

// More records than a page has are all listed, each once.
func TestRecordsListGoesOn(t *testing.T) {
	s := openRecords(t)
	const many = recordsPage + 5
	for n := range many {
		if status, body, _ := s.write("payments", fmt.Sprintf("n%d", n)); status != 201 {
			t.Fatal(status, body)
		}
	}
	for limit, want := range map[string]int{"0": many, "203": 203, "200": 200} {
		status, out, oops := s.records("ls", "--limit", limit)
		lines := strings.Split(strings.TrimSpace(out), "\n")[1:]
		slices.Sort(lines)
		if n := len(slices.Compact(lines)); status != 0 || n != want || (oops == "") != (want == many) {
			t.Errorf("--limit %s: %d, %d records, %q", limit, status, n, oops)
		}
	}
}

func TestRecordsShow(t *testing.T) {
	s := openRecords(t)
	key := s.lose("payments", "lost")
	status, out, oops := s.records("show", key)
	if status != 0 || oops != "" {
		t.Errorf("%d %q", status, oops)
	}
	const at = `^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z  `
	s.matches(out, `^record +`+key+`$`, `^state +unknown: it may or may not have happened`, `^write +POST /payments$`, `^tool +payments$`,
		`^AT  +AFTER  +EVENT  +RUN  +STATUS  +WHAT$`, at+`- +claimed +1 +-$`, at+`\+\S+s +dispatched +1 +-$`, at+`\+\S+s +unknown +1 +-$`)

	s.mock.Script(mock.Step{Status: 500})
	_, _, header := s.write("payments", "mute")
	_, out, _ = s.records("show", header.Get("Oncegate-Key"))
	s.matches(out, `^upstream +answered 500, which does not say`, at+`\+\S+s +unknown +1 +500$`)

	done := func() string { _, _, h := s.write("payments", "done"); return h.Get("Oncegate-Key") }()
	if _, out, _ = s.records("show", done); !strings.Contains(out, "completed") {
		t.Error(out)
	}
	s.matches(out, `^answer +201, \d+ bytes, sha256 [0-9a-f]{64}$`, `^answer goes +20`, `^key goes +20`, at+`\+\S+s +completed +1 +201$`)

	status, out, _ = s.records("show", key, "--format", "json")
	var one struct {
		Key    string
		Events []struct {
			At   time.Time
			What string
		}
	}
	if err := json.Unmarshal([]byte(out), &one); err != nil || status != 0 || one.Key != key || len(one.Events) != 3 || one.Events[2].What != "unknown" || one.Events[0].At.IsZero() {
		t.Errorf("%d %v %s", status, err, out)
	}
	if status, out, oops := s.records("show", strings.Repeat("0", 64)); status != 1 || out != "" || !strings.Contains(oops, "404 Not Found: there is no record of a write under this key") {
		t.Errorf("%d %q %q", status, out, oops)
	}
}

// Whoever repeats a write gets the answer that was found, byte for byte.
func TestRecordsResolveAsExecuted(t *testing.T) {
	s := openRecords(t)
	key := s.lose("payments", "lost")
	file := filepath.Join(t.TempDir(), "answer.json")
	const body = "{\"id\": \"pay_81\", \"n\": 9007199254740993}\n"
	os.WriteFile(file, []byte(body), 0o600)
	status, out, oops := s.records("resolve", key, "--as", "executed", "--reason", "it is on the statement", "--actor", "kim", "--status", "201", "--body", file)
	if status != 0 || out != "ok    "+key+": completed\n" || oops != "" {
		t.Fatalf("%d %q %q", status, out, oops)
	}
	status, got, header := s.write("payments", "lost")
	if status != 201 || got != body || header.Get("Idempotent-Replayed") != "true" || header.Get("Oncegate-Outcome") != "replayed" || header.Get("Content-Type") != "application/json" || header.Get("Oncegate-Target") != "payments" {
		t.Errorf("%d %q %v", status, got, header)
	}
	if n := s.mock.Stats().Executions; n != 1 {
		t.Errorf("%d executions", n)
	}
	_, out, _ = s.records("show", key)
	s.matches(out, `^state +completed`, ` resolved +1 +201 +executed by kim: it is on the statement$`)

	// Without an answer repeats hear that it is gone.
	key = s.lose("payments", "other")
	if status, _, oops := s.records("resolve", key, "--as", "executed", "--reason", "x"); status != 0 {
		t.Fatal(oops)
	}
	if status, got, _ := s.write("payments", "other"); status != 410 || !strings.Contains(got, "result_gone") {
		t.Errorf("%d %s", status, got)
	}
	if _, out, _ = s.records("show", key); !strings.Contains(out, "executed by "+systemUser()+": x") {
		t.Error(out)
	}
	if n := s.mock.Stats().Executions; n != 2 {
		t.Errorf("%d executions", n)
	}
}

func TestRecordsResolveAsNotExecuted(t *testing.T) {
	s := openRecords(t)
	key := s.lose("payments", "lost")
	status, out, oops := s.records("resolve", strings.ToUpper(key), "--as", "not-executed", "--reason", "no trace")
	if status != 0 || out != "ok    "+key+": released\n" || oops != "" {
		t.Fatalf("%d %q %q", status, out, oops)
	}
	if status, body, header := s.write("payments", "lost"); status != 201 || header.Get("Oncegate-Outcome") != "executed" {
		t.Errorf("%d %s", status, body)
	}
}

// What was found out of one run is not taken for a later one.
func TestRecordsResolveOneRun(t *testing.T) {
	s := openRecords(t)
	key := s.lose("payments", "lost")
	_, shown, _ := s.records("show", key)
	fence := regexp.MustCompile(`(?m)^fence +(\d+)$`).FindStringSubmatch(shown)
	if fence == nil {
		t.Fatalf("no fence in %s", shown)
	}
	say := func(more ...string) (int, string) {
		status, out, oops := s.records(append([]string{"resolve", "--as", "not-executed", "--reason", "no trace", key}, more...)...)
		return status, out + oops
	}
	if status, out := say("--fence", fence[1]); status != 0 {
		t.Fatal(out)
	}
	s.lose("payments", "lost")
	if status, out := say("--fence", fence[1]); status != 1 || !strings.Contains(out, "409: it was run again") {
		t.Errorf("%d %s", status, out)
	}
	if status, out := say(strings.Repeat("0", 64), "--fence", fence[1]); status != 2 || !strings.Contains(out, "--fence") {
		t.Errorf("%d %s", status, out)
	}
}

// Of several each is resolved for itself.
func TestRecordsResolveSeveral(t *testing.T) {
	s := openRecords(t)
	first, second := s.lose("payments", "first"), s.lose("payments", "second")
	_, _, header := s.write("payments", "done")
	done, none := header.Get("Oncegate-Key"), strings.Repeat("0", 64)
	status, out, oops := s.records("resolve", first, done, none, second, "--as", "not-executed", "--reason", "the bank was down")
	want := regexp.MustCompile(`^ok    ` + first + `: released
FAIL  ` + done + `: 409: its outcome is not unknown, and nothing was changed: it is completed
FAIL  ` + none + `: 404: there is no record .*
ok    ` + second + `: released
$`)
	if status != 1 || !want.MatchString(out) || !strings.Contains(oops, "2 of 4 were not resolved") {
		t.Errorf("%d %q\n%s", status, oops, out)
	}
	if status, out, _ = s.records("ls", "--state", "unknown"); status != 0 || out != "no records\n" {
		t.Errorf("%d %s", status, out)
	}
}
