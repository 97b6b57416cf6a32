package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Source is what a configuration is read from. Later ones win over earlier:
// defaults, the file, Env, Flags.
type Source struct {
	File  string            // its path; empty: no file, and the built-in mock upstream is what is served
	Data  []byte            // its content; nil: File is read
	Env   []string          // NAME=value, as os.Environ gives them
	Flags map[string]string // path of the key to the value; the flag is named --listen for server.listen
	Part  bool              // what names no providers, or no models, has the built-in mock upstream there
}

// others are ONCEGATE_ variables that are no keys: flags of commands, and what
// the container's own config file reads.
var others = []string{"ONCEGATE_CONFIG", "ONCEGATE_LOG_LEVEL", "ONCEGATE_KEY_HASH"}

// Load reads a configuration and checks it. The error is Faults, all of them.
// The Config is never nil: beside an error it holds what could be read.
func Load(s Source) (*Config, error) {
	env := environment(s.Env)
	d := &decoder{
		file:    s.File,
		around:  surroundings{env: func(n string) (string, bool) { v, ok := env[n]; return v, ok }, file: readSecret},
		places:  map[string]Place{},
		anchors: map[string]ast.Node{},
	}
	c := &Config{places: d.places}
	fillDefaults(reflect.ValueOf(c).Elem())

	readable := true
	none := s.File == "" && s.Data == nil
	if none || s.Part {
		c.useMock()
	}
	if !none {
		readable = d.document(c, s.Data)
	}
	d.environment(c, env)
	d.flags(c, s.Flags)
	if readable { // else everything that the file says would be missing, too
		d.check(c)
	}
	if len(d.faults) > 0 {
		return c, d.faults.sorted()
	}
	return c, nil
}

// useMock serves every model from the built-in mock upstream, and has its
// write API as a tool.
func (c *Config) useMock() {
	p, t, tool := Provider{Name: "mock", Kind: "mock"}, Target{Provider: "mock"}, Tool{Name: "payments", BaseURL: MockTool}
	fillDefaults(reflect.ValueOf(&p).Elem())
	fillDefaults(reflect.ValueOf(&t).Elem())
	fillDefaults(reflect.ValueOf(&tool).Elem())
	c.Providers = []Provider{p}
	c.Models = []Model{{Name: "*", Targets: []Target{t}}}
	c.Tools = []Tool{tool}
}

// document reads the file; false: it is no YAML, no section, or not there.
func (d *decoder) document(c *Config, data []byte) (ok bool) {
	// The YAML library is young: a file that it trips over is a fault to tell,
	// and no reason to stop.
	defer func() {
		if p := recover(); p != nil {
			d.fault(Place{File: d.file, Line: 1}, "", fmt.Sprintf("is not readable as YAML: %v", p), "look for unusual syntax: tags, anchors, complex keys")
			ok = false
		}
	}()
	if data == nil {
		var err error
		if data, err = os.ReadFile(d.file); err != nil {
			d.fault(Place{File: d.file}, "", "cannot be read: "+reason(err), "check the path, or leave --config out")
			return false
		}
	}
	tree, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		p, what := Place{File: d.file, Line: 1}, err.Error()
		var at yaml.Error
		if errors.As(err, &at) {
			what = at.GetMessage()
			if t := at.GetToken(); t != nil && t.Position != nil {
				p.Line = t.Position.Line
			}
		}
		d.fault(p, "", "is not YAML: "+strings.TrimSpace(what), `check the indentation, and put values with any of {}[]:#&*!|>'"%@ into quotes`)
		return false
	}
	var body ast.Node
	for _, doc := range tree.Docs {
		b := doc.Body
		if _, comment := b.(*ast.CommentGroupNode); b == nil || comment {
			continue
		}
		if body != nil {
			d.fault(d.place(b), "", "a second YAML document begins here", "keep one; remove the --- line")
			return false
		}
		body = b
	}
	if body != nil {
		d.section(reflect.ValueOf(c).Elem(), body, "")
	}
	return !slices.ContainsFunc(d.faults, func(f Fault) bool { return f.Field == "" })
}

// environment lays ONCEGATE_* variables over the file.
func (d *decoder) environment(c *Config, env map[string]string) {
	known := slices.Clone(others)
	for _, l := range leaves(reflect.ValueOf(c).Elem(), "") {
		v := variable(l.path)
		known = append(known, v)
		if text := env[v]; text != "" { // an empty one is how some tools leave it out
			d.override(l, Place{Env: v}, trimNewline(text))
		}
	}
	// An unknown variable may be somebody else's (Kubernetes sets
	// ONCEGATE_SERVICE_HOST for a service of that name), so only what looks
	// like a slip, or like a key to come, is a fault.
	names := make([]string, 0, len(env))
	for n := range env {
		if strings.HasPrefix(n, prefix) && !slices.Contains(known, n) {
			names = append(names, n)
		}
	}
	sort.Strings(names)
	for _, n := range names {
		for key := range later {
			if v := variable(key); n == v || strings.HasPrefix(n, v+"_") {
				d.fault(Place{Env: n}, key, "not in this version yet", "unset it until then")
			}
		}
		short := make([]string, len(known))
		for i, k := range known {
			short[i] = strings.TrimPrefix(k, prefix)
		}
		if k := nearest(strings.TrimPrefix(n, prefix), short); k != "" && edits(n, prefix+k, 2) <= 2 {
			d.fault(Place{Env: n}, "", "sets nothing", "did you mean "+prefix+k+"?")
		}
	}
}

// flags lays command-line flags over all else.
func (d *decoder) flags(c *Config, flags map[string]string) {
	for _, l := range leaves(reflect.ValueOf(c).Elem(), "") {
		if text, ok := flags[l.path]; ok {
			d.override(l, Place{Flag: "--" + l.path[strings.LastIndexByte(l.path, '.')+1:]}, text)
		}
	}
}

// override replaces what the file says of a leaf, its faults included.
func (d *decoder) override(l leaf, p Place, text string) {
	d.faults = slices.DeleteFunc(d.faults, func(f Fault) bool { return f.Field == l.path })
	d.places[l.path] = p
	if what, mend := set(l.value, l.field, text); what != "" {
		d.fault(p, l.path, quoted(text, l.field)+what, mend)
	}
}

func environment(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, kv := range list {
		if n, v, ok := strings.Cut(kv, "="); ok {
			env[n] = v
		}
	}
	return env
}

// near is the place to name in a fault about path: its own, or that of the
// closest section around it.
func (d *decoder) near(path string) Place {
	for p := path; p != ""; p = p[:max(0, strings.LastIndexAny(p, ".["))] {
		if at, ok := d.places[p]; ok {
			return at
		}
	}
	if d.file == "" {
		return Place{}
	}
	return Place{File: d.file, Line: 1}
}

func (d *decoder) faultAt(path, what, mend string) {
	d.fault(d.near(path), path, what, mend)
}

func index(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
