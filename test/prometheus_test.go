package test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/tidwall/gjson"

	"oncegate/test/harness"
	"oncegate/test/up"
)

const (
	deployed  = "../deploy/prometheus/"
	dashboard = "../deploy/grafana/oncegate.json"
)

// exercised is a gateway, and what sends it some of everything that its metrics
// count.
func exercised(t *testing.T) (g *harness.Gateway, exercise func()) {
	t.Helper()
	const usage = `{"prompt_tokens":1000,"completion_tokens":100}`
	u := up.New(t)
	u.Choose(func(c *up.Call) up.Step {
		switch {
		case strings.Contains(c.Target, "/lost"):
			return up.RST
		case strings.Contains(c.Target, "/payments"):
			return up.Status(201, `{"id":1}`)
		case c.Model() == "m" && c.N == 1:
			return up.Fail(503, "down")
		}
		return priced(c.Model(), usage)
	})
	g = harness.Start(t, u.URL(), dear, harness.Config{"tools": []any{harness.Tool("pay", u.URL(), nil)}})
	return g, func() {
		t.Helper()
		for _, model := range []string{"m", "m", "unpriced"} {
			if a := g.Chat(`{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, "Idempotency-Key: "+model); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
		for _, write := range []struct {
			path   string
			status int
		}{{"/payments", 201}, {"/payments", 201}, {"/lost", 424}} {
			if a := g.Post("/tools/pay"+write.path, order, "Idempotency-Key: k"+write.path); a.Status != write.status {
				t.Fatalf("%s: %d %s", write.path, a.Status, a.Body)
			}
		}
	}
}

// fileText is a file's text.
func fileText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// panels are the dashboard's expressions and, of each, the labels that its
// legend shows.
func panels(t *testing.T) (exprs, legends []string) {
	t.Helper()
	text := fileText(t, dashboard)
	if !gjson.Valid(text) {
		t.Fatal("the dashboard is not JSON")
	}
	for _, panel := range gjson.Get(text, "panels").Array() {
		for _, target := range panel.Get("targets").Array() {
			exprs, legends = append(exprs, target.Get("expr").String()), append(legends, target.Get("legendFormat").String())
		}
	}
	if len(exprs) < 20 {
		t.Fatalf("the dashboard has %d expressions: %q", len(exprs), exprs)
	}
	return exprs, legends
}

// alerts are the expressions of the alerts, by name.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(fileText(t, deployed+"alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			all[rule.Alert] = rule.Expr
		}
	}
	if len(all) != 6 {
		t.Fatalf("alerts: %q", all)
	}
	return all
}

var (
	sampleLine    = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})?$`)
	sampleLabel   = regexp.MustCompile(`([a-z_]+)="`)
	exprMetric    = regexp.MustCompile(`(oncegate_\w+)(?:\{([^}]*)\})?`)
	exprMatcher   = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)"`)
	exprGrouping  = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	legendLabel   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	histogramPart = regexp.MustCompile(`(_bucket|_sum|_count)$`)
)

// exported are the gateway's own metrics and the labels of each.
func exported(m harness.Metrics) map[string][]string {
	all := map[string][]string{}
	for s := range m {
		parts := sampleLine.FindStringSubmatch(s)
		if parts == nil || !strings.HasPrefix(parts[1], "oncegate_") {
			continue
		}
		name := parts[1]
		if base := histogramPart.ReplaceAllString(name, ""); strings.HasSuffix(base, "_seconds") {
			name = base
		}
		labels := all[name]
		for _, l := range sampleLabel.FindAllStringSubmatch(parts[2], -1) {
			if l[1] != "le" && !slices.Contains(labels, l[1]) {
				labels = append(labels, l[1])
			}
		}
		slices.Sort(labels)
		all[name] = labels
	}
	return all
}

// Dashboard and alerts name only what a gateway exports, and docs/metrics.md
// names all of it.
func TestMonitoringNamesWhatIsExported(t *testing.T) {
	t.Parallel()
	g, exercise := exercised(t)
	exercise()
	have := exported(g.Metrics())
	exprs, legends := panels(t)
	for _, name := range slices.Sorted(maps.Keys(alerts(t))) {
		exprs, legends = append(exprs, alerts(t)[name]), append(legends, "")
	}
	named := map[string]bool{}
	for i, expr := range exprs {
		given := []string{"job", "instance"} // by Prometheus
		if !exprMetric.MatchString(expr) {
			t.Errorf("%q names no metric", expr)
		}
		for _, s := range exprMetric.FindAllStringSubmatch(expr, -1) {
			name := histogramPart.ReplaceAllString(s[1], "")
			labels, ok := have[name]
			if !ok {
				t.Errorf("%s: no gateway exports %s", expr, name)
			}
			named[name] = true
			for _, l := range exprMatcher.FindAllStringSubmatch(s[2], -1) {
				if l[1] != "job" && !slices.Contains(labels, l[1]) {
					t.Errorf("%s: %s has no label %s", expr, name, l[1])
				}
			}
			given = append(given, labels...)
			if name != s[1] {
				given = append(given, "le")
			}
		}
		var groups []string
		for _, g := range exprGrouping.FindAllStringSubmatch(expr, -1) {
			groups = append(groups, strings.Split(g[1], ", ")...)
		}
		for _, l := range groups {
			if !slices.Contains(given, l) {
				t.Errorf("%s: nothing in it has the label %s", expr, l)
			}
		}
		for _, l := range legendLabel.FindAllStringSubmatch(legends[i], -1) {
			if !slices.Contains(groups, l[1]) {
				t.Errorf("%s: the legend shows %s, which is summed away", expr, l[1])
			}
		}
	}
	docs := fileText(t, "../docs/metrics.md")
	for name, labels := range have {
		if !named[name] {
			t.Errorf("neither the dashboard nor an alert shows %s", name)
		}
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| (.*?) \\|").FindStringSubmatch(docs)
		if row == nil {
			t.Errorf("docs/metrics.md has no row for %s", name)
			continue
		}
		var told []string
		for _, l := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			told = append(told, l[1])
		}
		if slices.Sort(told); !slices.Equal(told, labels) {
			t.Errorf("docs/metrics.md has %q as labels of %s, it has %q", told, name, labels)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(oncegate_\\w+)`").FindAllStringSubmatch(docs, -1) {
		if _, ok := have[row[1]]; !ok {
			t.Errorf("docs/metrics.md tells of %s, which is not exported", row[1])
		}
	}
	for name := range alerts(t) {
		if !strings.Contains(docs, "`"+name+"`") {
			t.Errorf("docs/metrics.md says nothing of %s", name)
		}
	}
}

// promtool finds the files right, and the alerts do in time what their tests
// say.
func TestPrometheusRules(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"},
		{"check", "rules", "--lint=all", "--lint-fatal", "alerts.yml"},
		{"test", "rules", "alerts_test.yml"},
	} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = deployed
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tests := fileText(t, deployed+"alerts_test.yml")
	for name := range alerts(t) {
		if n := strings.Count(tests, "alertname: "+name+"\n"); n == 0 {
			t.Errorf("alerts_test.yml never sees %s fire", name)
		}
	}
}

// A real Prometheus scrapes a gateway by the example, without and with a token,
// and what dashboard and alerts ask for is there.
func TestPrometheusScrapes(t *testing.T) {
	t.Parallel()
	const token = "look-but-do-not-touch"
	open, exercise := exercised(t)
	guarded := harness.Start(t, up.New(t).URL(), harness.Config{"auth.admin_token": token})

	dir := t.TempDir()
	for name, text := range map[string]string{"prometheus.yml": scrape(t, open, guarded), "alerts.yml": fileText(t, deployed+"alerts.yml"), "admin_token": token} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := harness.StartPrometheus(t, dir)
	within := 20 * time.Second
	harness.Eventually(t, within, "both are scraped", func() bool {
		return maps.Equal(p.Targets(), map[string]string{"oncegate": "up", "guarded": "up"})
	})
	exercise()
	harness.Eventually(t, within, "the requests", func() bool {
		s := p.Query(`sum(oncegate_requests_total{job="oncegate"})`)
		return len(s) == 1 && s[0].Value[1] == "6"
	})
	// Prometheus saw the gateway before: what came then is an increase, from the first on.
	for _, name := range []string{"requests", "saved_requests", "saved_tokens", "saved_usd", "unpriced_requests", "duplicate_writes_prevented"} {
		expr := "sum(increase(oncegate_" + name + "_total[1m])) > 0"
		harness.Eventually(t, within, expr, func() bool { return len(p.Query(expr)) == 1 })
	}

	exprs, _ := panels(t)
	for _, expr := range exprs {
		expr = strings.NewReplacer("$job", "oncegate", "$__range", "5m", "$__rate_interval", "1m", "$__interval", "1m").Replace(expr)
		harness.Eventually(t, within, expr, func() bool { return len(p.Query(expr)) > 0 })
	}
	comparison := regexp.MustCompile(` (>|>=|==) \d+`)
	for name, expr := range alerts(t) {
		p.Query(expr)
		if what := comparison.ReplaceAllString(expr, ""); what == expr {
			t.Errorf("%s compares nothing: %s", name, expr)
		} else {
			harness.Eventually(t, within, what, func() bool { return len(p.Query(what)) > 0 })
		}
	}

	// The lost write is the one thing to tell of.
	harness.Eventually(t, within, "the alerts are evaluated, and the write is in doubt", func() bool {
		rules := p.Rules()
		for _, rule := range rules {
			want := "inactive"
			if rule.Get("name").String() == "OncegateWriteInDoubt" {
				want = "pending" // for two minutes
			}
			if rule.Get("health").String() != "ok" || rule.Get("state").String() != want {
				return false
			}
		}
		return len(rules) == len(alerts(t))
	})
}

// scrape is the example with a job for each of the gateways, the second with
// its token, and with more haste.
func scrape(t *testing.T, open, guarded *harness.Gateway) string {
	t.Helper()
	example := fileText(t, deployed+"prometheus.yml")
	swap := func(text, old, by string) string {
		t.Helper()
		if strings.Count(text, old) != 1 {
			t.Fatalf("prometheus.yml has not one %q", old)
		}
		return strings.Replace(text, old, by, 1)
	}
	job := func(text string) harness.Map {
		var file struct {
			Jobs []harness.Map `yaml:"scrape_configs"`
		}
		if err := yaml.Unmarshal([]byte(text), &file); err != nil || len(file.Jobs) != 1 {
			t.Fatalf("%v, %d jobs:\n%s", err, len(file.Jobs), text)
		}
		return file.Jobs[0]
	}
	file := harness.Map{}
	if err := yaml.Unmarshal([]byte(example), &file); err != nil {
		t.Fatal(err)
	}
	other := swap(example, "# authorization:", "authorization:")
	other = swap(other, "job_name: oncegate", "job_name: guarded")
	file["scrape_configs"] = []harness.Map{
		job(swap(example, "127.0.0.1:8081", open.Admin)), job(swap(other, "127.0.0.1:8081", guarded.Admin)),
	}
	file["global"] = harness.Map{"scrape_interval": "250ms", "evaluation_interval": "250ms"}
	out, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
