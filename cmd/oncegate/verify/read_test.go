package verify

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/verify.md is held to what the reader takes: every key is told of.
func TestDocumentedKeys(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(doc), "## The file")
	if !found {
		t.Fatal("no section on the file")
	}
	keys := 0
	for _, file := range []string{"read.go", "read_expect.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range regexp.MustCompile(`(?:\bkey\{|^\s*\{|wordKey\()"([a-z_]+)", `).FindAllSubmatch(src, -1) {
			keys++
			if !regexp.MustCompile("[`{ ]" + string(k[1]) + "[`:]").MatchString(tables) {
				t.Errorf("docs/verify.md does not tell of %s", k[1])
			}
		}
	}
	if keys < 18 {
		t.Errorf("only %d keys were looked for", keys)
	}
}

// What surprises the YAML library is a fault, not a panic; and lines are the
// file's own.
func TestReadLines(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"steps:\n- expect: {status: 200}\n\nmock:\n\n  # a script\n\n  steps:\n  - {stats: 3}\nconfig:\n", `s.yaml:9: mock: unknown field "stats"; did you mean status?`},
		{"config: {polcy: {}}\nsteps: [{expect: {status: 200}}]", `s.yaml:1: config.polcy: unknown key; did you mean policy?`},
		{"steps: [{expect: {status: 200}}]\nconfig:\n  models:\n    - {name: a, targets: [{provider: b}]}\n", `s.yaml:4: config.models[0].targets[0].provider: "b" is not a provider; known are mock`},
		{"# nothing\nsteps: [{expect: {status: 200}}]\nconfig:\n  providers: [{name: a, kind: mock}]\n", `s.yaml:3: config.models[0].targets[0].provider: "mock" is not a provider; known are a`},
		{"steps: [{expect: {status: 200}}]\nmock: |\n  steps: 3\n", `s.yaml:2: mock: `},
		{"steps: &a [{expect: {status: 200}, body: *a}]", `s.yaml:1: is too large, counted with its aliases repeated; use fewer`},
		{"steps: {name: x}", `s.yaml:1: steps: is not a list; begin each entry with a dash`},
		{"? [a]\n: b\n", `s.yaml:2: is not YAML`},
		{"steps: [{expect: {status: 200}}]\nsteps: []\n", `s.yaml:2: steps: stands twice, first in line 1; keep one of them`},
		{"mock_url: 127.0.0.1:9090\nsteps: [{expect: {status: 200}}]\n", `s.yaml:1: mock_url: "127.0.0.1:9090" is not a URL; write it as http://127.0.0.1:9090`},
	} {
		if _, faults := Read("s.yaml", []byte(c.text), nil); !strings.Contains(faults.Error(), c.want) {
			t.Errorf("%q: no %q in\n%v", c.text, c.want, faults)
		}
	}
}

// A body is the JSON that was written, digit for digit.
func TestReadBody(t *testing.T) {
	s, faults := Read("s.yaml", []byte(`
steps:
  - body: &b {z: 1.0, a: [null, "x<", true, 18446744073709551615, {}], e: []}
    headers: {A: ["1", 0.10], B: "${WHO} ${RUN}"}
    expect: {status: 200}
  - {body: *b}
  - body: |
      {"a":  1}
  - {}
  - {method: GET, path: /v1/models}
`), []string{"WHO=me"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	want := []string{`{"z":1.0,"a":[null,"x<",true,18446744073709551615,{}],"e":[]}`, `{"z":1.0,"a":[null,"x<",true,18446744073709551615,{}],"e":[]}`, "{\"a\":  1}\n", defaultBody, ""}
	for i, w := range want {
		if got := s.Steps[i].Asks[0].Body; got != w {
			t.Errorf("step %d: %s, want %s", i+1, got, w)
		}
	}
	if h := s.Steps[0].Asks[0].Headers; len(h["A"]) != 2 || h["A"][1] != "0.10" || h["B"][0] != "me ${RUN}" {
		t.Errorf("%q", h)
	}
}
