package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what is generated in docs/")

const printed = `
auth:
  admin_token: hunter2-token
  keys: [{name: a, hash: "sha256:abababababababababababababababababababababababababababababababab", models: [gpt-4*, "a$$b*"]}]
store: {secret: hunter2-hunter2-hunter2}
dedupe: {ttl: {chat: 90m, max: 14d}, ignore: [/metadata/trace_id], headers: []}
providers:
  - name: p
    kind: openai
    base_url: "http://h/v1"
    api_keys: ["${KEY}", hunter2]
    policy: {attempts: 2, backoff: {cap: 1s}}
models: [{name: "*", targets: [{provider: p}, {provider: p, model: "yes", weight: 0}]}]
tools:
  - name: payments
    base_url: https://api.acmepay.example?key=hunter2
    headers: {Authorization: "Bearer ${KEY}", x-a.b: hunter2, x-it's: hunter2}
    upstream_key_header: Idempotency-Key
    not_executed: [503, 429]
    probe: {get: "/v1/payments?ref={/ref}&max=$$5", executed: /data/0}
    policy: {timeouts: {first_byte: 7s}}
  - {name: mail, base_url: mock, key_fields: [/to], window: 90m, reads: ["POST /search"], replay_headers: [X-Id]}
prices:
  deepseek-v3.2: {input: 0.42, output: "0.42", cached_input: 0.04}
  "qwen3:8b": {input: 0, output: 0.000000000001, cache_write_5m: 3.75, cache_write_1h: 6}
  it's: {input: 1}
`

func TestPrint(t *testing.T) {
	c := mustLoad(t, printed, "KEY=hunter2-key", "ONCEGATE_DEDUPE_LINGER=0")
	out, err := c.Print()
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	if strings.Contains(text, "hunter2") {
		t.Errorf("a secret in\n%s", text)
	}
	for _, want := range []string{
		"listen: 127.0.0.1:8080 # default", "linger: 0s # env ONCEGATE_DEDUPE_LINGER", "chat: 1h30m # config.yaml:6",
		"max: 14d # config.yaml:6", "********", "weight: 0 # config.yaml:13", "attempts: 2 # config.yaml:12",
		"Authorization: \"********\" # config.yaml:17", "x-a.b: \"********\" # config.yaml:17", "- 503 # config.yaml:19", "upstream_key_window: 30m # default",
		"absent_after: 0s # default", "first_byte: 7s # config.yaml:21", "window: 1h30m # config.yaml:22", "base_url: https://api.acmepay.example?********",
		"cached_input: 0.04 # config.yaml:24", "input: 0.0 # config.yaml:25", "\n  it's:\n    input: 1.0\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// What is printed can be read again, and says the same. Only the masks are
	// faults: two API keys are the same, a secret is too short.
	again, err := Load(Source{File: "again", Data: out})
	for _, f := range err.(Faults) {
		if f.Field != "providers[0].api_keys[1]" && f.Field != "store.secret" {
			t.Errorf("printed and read again: %v", f)
		}
	}
	for _, x := range []*Config{c, again} {
		x.Tools[0].Headers, x.Tools[0].BaseURL = nil, ""
		x.places, x.Auth.AdminToken, x.Store.Secret, x.Providers[0].APIKeys = nil, "", "", nil
	}
	if got, want := fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", c); got != want {
		t.Errorf("printed and read again:\n%s\nfirst:\n%s", got, want)
	}
}

func TestMaskURL(t *testing.T) {
	for in, want := range map[string]string{
		"http://h/v1":                   "http://h/v1",
		"http://user:pw@h/v1":           "http://********@h/v1",
		"http://h/v1?key=abc&x=y":       "http://h/v1?********",
		"local:./data":                  "local:./data",
		"http://h/\x7f":                 mask,
		"https://pw@h:1/a?k=v#fragment": "https://********@h:1/a?********#fragment",
	} {
		if got := MaskURL(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

func TestSchema(t *testing.T) {
	out, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Properties map[string]struct {
			AdditionalProperties any
			Properties           map[string]struct {
				Description string
				Default     any
			}
		}
	}
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	server := s.Properties["server"]
	if server.AdditionalProperties != false {
		t.Error("unknown keys are not refused")
	}
	if l := server.Properties["listen"]; l.Default != "127.0.0.1:8080" || !strings.Contains(l.Description, "data listener") {
		t.Errorf("listen: %+v", l)
	}
	if p, ok := s.Properties["prices"].AdditionalProperties.(map[string]any); !ok || p["additionalProperties"] != false {
		t.Errorf("prices: %+v", s.Properties["prices"])
	}
}

// Every key has a comment, and the manual has the same words.
func TestReference(t *testing.T) {
	describe(func(path string, _ reflect.StructField, comment string) {
		if comment == "" {
			t.Errorf("%s has no comment in config.go", path)
		}
	})
	const file, begin, end = "../../../docs/configuration.md", "<!-- keys: generated from config.go -->\n", "<!-- end of keys -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks its markers", file)
	}
	want := before + begin + Reference() + end + after
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what config.go says: go test ./cmd/oncegate/config -run TestReference -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// One variable for one key.
func TestVariablesAreDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, l := range leaves(reflect.ValueOf(&Config{}).Elem(), "") {
		v := variable(l.path)
		if other, twice := seen[v]; twice {
			t.Errorf("%s sets %s and %s", v, other, l.path)
		}
		seen[v] = l.path
	}
	if seen["ONCEGATE_SERVER_LISTEN"] != "server.listen" {
		t.Error("ONCEGATE_SERVER_LISTEN does not set server.listen")
	}
}
