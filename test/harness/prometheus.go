package harness

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Prometheus is a running one.
type Prometheus struct {
	t    testing.TB
	addr string
}

// StartPrometheus runs a Prometheus on dir/prometheus.yml until the end of the
// test.
func StartPrometheus(t testing.TB, dir string) *Prometheus {
	t.Helper()
	p := &Prometheus{t: t, addr: freeAddr(t)}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.addr, "--log.level=warn",
		"--scrape.discovery-reload-interval=100ms") // else 5 s may pass before it sees its targets, and as many again
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	said := func() string { text, _ := os.ReadFile(log.Name()); return string(text) }
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // what it stored goes with the test
		<-ended
		if t.Failed() {
			t.Logf("prometheus's log:\n%s", said())
		}
	})
	Eventually(t, 30*time.Second, "prometheus is ready", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("prometheus ended: %v\n%s", err, said())
		default:
		}
		res, err := http.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	return p
}

// Series are the labels and values that an expression gives now.
type Series []struct {
	Metric map[string]string
	Value  [2]any // when, and what as text
}

// Query evaluates an expression. One that Prometheus refuses ends the test.
func (p *Prometheus) Query(expr string) Series {
	p.t.Helper()
	var s Series
	if err := json.Unmarshal([]byte(p.ask("query?query="+url.QueryEscape(expr), expr).Get("result").Raw), &s); err != nil {
		p.t.Fatalf("%s: %v", expr, err)
	}
	return s
}

// Rules are the rules that it evaluates.
func (p *Prometheus) Rules() []gjson.Result {
	p.t.Helper()
	return p.ask("rules", "rules").Get("groups.#.rules|@flatten").Array()
}

// Targets says how the scrape of each job went last, by the job's name: "up",
// or why not.
func (p *Prometheus) Targets() map[string]string {
	p.t.Helper()
	all := map[string]string{}
	for _, target := range p.ask("targets", "targets").Get("activeTargets").Array() {
		all[target.Get("labels.job").String()] = strings.TrimSpace(target.Get("health").String() + " " + target.Get("lastError").String())
	}
	return all
}

// ask gives the data of an answer.
func (p *Prometheus) ask(path, what string) gjson.Result {
	p.t.Helper()
	res, err := http.Get("http://" + p.addr + "/api/v1/" + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Status != "success" {
		p.t.Fatalf("%s: %s", what, fmt.Sprint(answer.Error, err))
	}
	return gjson.ParseBytes(answer.Data)
}
