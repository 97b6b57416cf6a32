package verify

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"oncegate/cmd/oncegate/config"
	"oncegate/providers/mock"
)

// Read reads a scenario. env is what ${NAME} in headers and in the
// configuration reads, as os.Environ gives it. The faults are all there are.
func Read(file string, data []byte, env []string) (*Scenario, config.Faults) {
	r := &reader{tree: tree{file: file, anchors: map[string]ast.Node{}}, env: env, out: &Scenario{File: file}}
	r.document(data)
	slices.SortStableFunc(r.faults, func(a, b config.Fault) int { return a.Place.Line - b.Place.Line })
	return r.out, r.faults
}

// reader fills a Scenario.
type reader struct {
	tree
	env      []string
	out      *Scenario
	expected bool // something is
}

func (r *reader) document(data []byte) {
	// The YAML library is young: a file that it trips over is a fault to tell,
	// and no reason to stop.
	defer func() {
		if p := recover(); p != nil {
			r.faultAt(1, "", fmt.Sprintf("is not readable as YAML: %v", p), "look for unusual syntax: tags, anchors, complex keys")
		}
	}()
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, what := 1, err.Error()
		var at yaml.Error
		if errors.As(err, &at) {
			what = at.GetMessage()
			if t := at.GetToken(); t != nil && t.Position != nil {
				line = t.Position.Line
			}
		}
		r.faultAt(line, "", "is not YAML: "+strings.TrimSpace(what), `check the indentation, and put values with any of {}[]:#&*!|>'"%@ into quotes`)
		return
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		b := doc.Body
		if _, comment := b.(*ast.CommentGroupNode); b == nil || comment {
			continue
		}
		if body != nil {
			r.fault(b, "", "a second YAML document begins here", "make it a file of its own")
			return
		}
		body = b
	}
	if body == nil {
		r.faultAt(1, "", "is empty", "add steps; docs/verify.md has an example")
		return
	}
	if m, ok := body.(*ast.MappingNode); ok && m.IsFlowStyle {
		r.faultAt(1, "", "is one pair of braces", "write config:, mock: and steps: as sections, each on a line of its own")
		return
	}
	r.top(body, data)
}

// top reads the sections. Those that are the configuration's and the mock's
// go to their own readers as they stand, lines and all.
func (r *reader) top(body ast.Node, data []byte) {
	begins := map[string]int{} // by section, its line
	if m, ok := body.(ast.MapNode); ok {
		for it := m.MapRange(); it.Next(); {
			begins[keyText(it.Key())] = lineOf(it.Key())
		}
	}
	cut := func(name string) (text []byte, line int) {
		line = begins[name]
		end := math.MaxInt
		for _, other := range begins {
			if other > line {
				end = min(end, other)
			}
		}
		return only(data, line, end), line
	}
	s := r.out
	var configured []byte
	r.section(body, "",
		key{"mock_url", r.mockURL},
		key{"config", func(n ast.Node, path string) {
			configured, s.configLine = cut(path)
			r.ownAddresses(n, path)
		}},
		key{"mock", func(_ ast.Node, path string) { s.script, s.scriptLine = cut(path) }},
		key{"steps", func(n ast.Node, path string) { r.list(n, path, r.step) }},
		key{"expect", func(n ast.Node, path string) {
			s.Total, s.totalLine = &Expect{}, lineOf(n)
			r.section(n, path, r.countKeys(s.Total)...)
		}},
	)
	r.config(configured)
	r.script()
	if len(s.Steps) == 0 {
		r.faultAt(1, "steps", "there are none", "add one, as `- {name: a call, expect: {status: 200}}`")
	} else if !r.expected {
		r.faultAt(s.Steps[0].Line, "steps", "nothing is expected of any", "add expect: to one, as `expect: {status: 200}`")
	}
}

// only blanks all lines but one section's, and that one's key.
func only(data []byte, line, end int) []byte {
	lines := bytes.SplitAfter(data, []byte("\n"))
	var out []byte
	for i, l := range lines {
		switch n := i + 1; {
		case n >= end:
			return out
		case n < line:
			out = append(out, '\n')
		case n == line:
			colon := bytes.IndexByte(l, ':') + 1
			out = append(out, bytes.Repeat([]byte(" "), colon)...)
			out = append(out, l[colon:]...)
		default:
			out = append(out, l...)
		}
	}
	return out
}

// ownAddresses refuses what a gateway in this process has of its own.
func (r *reader) ownAddresses(n ast.Node, path string) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return // its own reader says so
	}
	for it := m.MapRange(); it.Next(); {
		section := keyText(it.Key())
		inner, ok := it.Value().(ast.MapNode)
		if !ok {
			continue
		}
		for in := inner.MapRange(); in.Next(); {
			switch k := section + "." + keyText(in.Key()); k {
			case "server.listen", "server.admin_listen", "server.shutdown_grace", "server.shutdown_delay", "store.url":
				r.fault(in.Key(), path+"."+k, "is verify's own", "leave it out: the gateway gets free ports and a store in a temporary directory")
			}
		}
	}
}

func (r *reader) config(part []byte) {
	env := slices.DeleteFunc(slices.Clone(r.env), func(kv string) bool { return strings.HasPrefix(kv, "ONCEGATE_") })
	conf, err := config.Load(config.Source{File: r.file, Data: append([]byte{}, part...), Env: env, Part: true})
	r.out.Config = conf
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			if f.Place.Line == 1 {
				f.Place.Line = max(1, r.out.configLine) // of the section as a whole
			}
			f.Field = strings.TrimSuffix("config."+f.Field, ".")
			r.faults = append(r.faults, f)
		}
	}
}

// How the mock's own reader tells a fault.
var (
	mockFault    = regexp.MustCompile(`^line (\d+): (.*)`)
	unknownField = regexp.MustCompile(`^unknown field "(.*)"`)
)

// scriptKeys are all keys of a script, those of its sections too.
var scriptKeys = keysOf(reflect.TypeFor[mock.Script](), nil)

func keysOf(t reflect.Type, known []string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return known
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name != "" && !slices.Contains(known, name) {
			known = append(known, name)
		}
		known = keysOf(f.Type, known)
	}
	return known
}

func (r *reader) script() {
	script, err := mock.ParseScript(r.out.script)
	if err == nil {
		r.out.Script = script
		return
	}
	for text := range strings.Lines(err.Error()) {
		line, what := r.out.scriptLine, strings.TrimSpace(text)
		if m := mockFault.FindStringSubmatch(what); m != nil {
			line, _ = strconv.Atoi(m[1])
			what = m[2]
		}
		mend := ""
		if m := unknownField.FindStringSubmatch(what); m != nil {
			mend = config.DidYouMean(m[1], scriptKeys)
		} else if !strings.Contains(what, ";") {
			mend = "docs/mock.md has every key of a script"
		}
		r.faultAt(line, "mock", what, mend)
	}
}

func (r *reader) mockURL(n ast.Node, path string) {
	text, ok := r.text(n, path)
	if !ok {
		return
	}
	text = r.expanded(n, path, text)
	if u, err := url.Parse(text); text != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		r.fault(n, path, strconv.Quote(text)+" is not a URL", "write it as http://127.0.0.1:9090")
		return
	}
	r.out.MockURL = strings.TrimSuffix(text, "/")
}

func (r *reader) step(n ast.Node, path string) {
	s := Step{Line: lineOf(n), Name: fmt.Sprintf("step %d", len(r.out.Steps)+1)}
	var one Ask
	single := 0 // the line of a key that is one request's
	keys := []key{
		{"name", func(n ast.Node, path string) { s.Name, _ = r.text(n, path) }},
		{"wait", func(n ast.Node, path string) { s.Wait = r.duration(n, path, 0) }},
		{"at_once", func(n ast.Node, path string) {
			s.AtOnce = true
			r.list(n, path, func(n ast.Node, path string) {
				var a Ask
				r.section(n, path, append(r.askKeys(&a),
					key{"wait", func(n ast.Node, path string) { a.Wait = r.duration(n, path, 0) }},
					key{"expect", func(n ast.Node, path string) { r.section(n, path, r.answerKeys(&a.Expect)...) }},
				)...)
				s.Asks = append(s.Asks, a.whole())
			})
			if len(s.Asks) == 0 {
				r.fault(n, path, "has no requests", "add one, as `- {repeat: 10}`")
			}
		}},
		{"expect", func(n ast.Node, path string) {
			r.section(n, path, append(r.answerKeys(&s.Expect), r.countKeys(&s.Expect)...)...)
		}},
	}
	for _, k := range r.askKeys(&one) {
		keys = append(keys, key{k.name, func(n ast.Node, path string) {
			single = lineOf(n)
			k.read(n, path)
		}})
	}
	r.section(n, path, keys...)
	switch {
	case s.AtOnce && single > 0:
		r.faultAt(single, path, "is one request and several at once", "write the request into the list of at_once")
	case !s.AtOnce:
		s.Asks = []Ask{one.whole()}
	}
	r.out.Steps = append(r.out.Steps, s)
}

// whole fills in what was left out.
func (a Ask) whole() Ask {
	if a.Path == "" {
		a.Path = defaultPath
	}
	if a.Method == "" {
		a.Method = http.MethodPost
	}
	if a.Body == "" && a.Path == defaultPath && a.Method == http.MethodPost {
		a.Body = defaultBody
	}
	if a.Timeout == 0 {
		a.Timeout = defaultTimeout
	}
	a.Repeat = max(1, a.Repeat)
	return a
}

func (r *reader) askKeys(a *Ask) []key {
	return []key{
		{"method", func(n ast.Node, path string) {
			text, ok := r.text(n, path)
			if a.Method = text; ok && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				r.fault(n, path, strconv.Quote(text)+" is not a method", "write it as GET or POST")
			}
		}},
		{"path", func(n ast.Node, path string) {
			text, ok := r.text(n, path)
			_, err := url.ParseRequestURI(text)
			if a.Path = text; ok && (err != nil || text[0] != '/') {
				r.fault(n, path, strconv.Quote(text)+" is not a path", "begin it with a slash, as "+defaultPath+", and escape what is special")
			}
		}},
		{"headers", func(n ast.Node, path string) {
			a.Headers = map[string][]string{}
			r.each(n, path, nil, func(_ ast.MapKeyNode, name, full string, v ast.Node) {
				for _, text := range r.texts(v, full) {
					a.Headers[name] = append(a.Headers[name], r.expanded(v, full, text))
				}
			})
		}},
		{"body", func(n ast.Node, path string) {
			switch b := r.bare(n, path).(type) {
			case *ast.StringNode, *ast.LiteralNode:
				a.Body, _ = scalar(b)
			default:
				a.Body = string(r.json(n, path))
			}
		}},
		{"timeout", func(n ast.Node, path string) { a.Timeout = r.duration(n, path, 1) }},
		{"repeat", func(n ast.Node, path string) {
			if a.Repeat = int(r.number(n, path, 1)); a.Repeat > maxRepeat {
				r.fault(n, path, "is too often", fmt.Sprintf("%d is the most; make several steps", maxRepeat))
			}
		}},
	}
}

// number reads a whole number of at least least.
func (r *reader) number(n ast.Node, path string, least int64) int64 {
	text, ok := r.text(n, path)
	if !ok {
		return least
	}
	v, err := strconv.ParseInt(text, 10, 32)
	if err != nil || v < least {
		r.fault(n, path, strconv.Quote(text)+" is not a number that fits", fmt.Sprintf("write a whole number, %d or more", least))
		return least
	}
	return v
}

func (r *reader) duration(n ast.Node, path string, least time.Duration) time.Duration {
	text, ok := r.text(n, path)
	if !ok {
		return least
	}
	d, err := config.ParseDuration(text)
	if err != nil || d < least {
		r.fault(n, path, strconv.Quote(text)+" is not a duration that fits", "write it with units: 500ms, 30s, 5m")
		return least
	}
	return d
}

var placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// expanded reads the environment for ${NAME}. ${RUN} and ${N} stay: they are
// known when the request is sent.
func (r *reader) expanded(n ast.Node, path, text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[2 : len(ref)-1]
		if name == "RUN" || name == "N" {
			return ref
		}
		for _, kv := range r.env {
			if value, ok := strings.CutPrefix(kv, name+"="); ok {
				return value
			}
		}
		r.fault(n, path, "the environment has no "+name, "set it")
		return ""
	})
}
