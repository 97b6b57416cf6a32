package mock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ParseScript reads a script in YAML, or in JSON, which is YAML too. An error
// names the line; unknown keys are errors.
func ParseScript(src []byte) (s Script, err error) {
	// The YAML library is young: a source it trips over is a bad script, and
	// no reason to stop.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the script is not readable as YAML: %v", p)
		}
	}()
	file, err := parser.ParseBytes(src, 0)
	if err != nil {
		return Script{}, readable(err)
	}
	if len(file.Docs) > 1 {
		return Script{}, errors.New("the script must be one YAML document")
	}
	err = yaml.NewDecoder(bytes.NewReader(src), yaml.Strict()).Decode(&s)
	if err != nil && !errors.Is(err, io.EOF) {
		return Script{}, located(file, readable(err))
	}
	var faults []error
	for _, f := range s.faults() {
		if line := lineOf(file, f.path); line > 0 {
			faults = append(faults, fmt.Errorf("line %d: %w", line, f))
		} else {
			faults = append(faults, f)
		}
	}
	return s, errors.Join(faults...)
}

// Validate says what is wrong with a script: all faults at once.
func (s *Script) Validate() error {
	var errs []error
	for _, f := range s.faults() {
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// fault is one thing wrong with a script, and where.
type fault struct {
	path string // a YAML path: $.steps[0].reset
	text string
}

func (f fault) Error() string { return strings.TrimPrefix(f.path, "$.") + ": " + f.text }

func (s *Script) faults() []fault {
	var out []fault
	if k := s.Keys; k != nil {
		if k.Window < 0 {
			out = append(out, fault{"$.keys.window", "must not be negative"})
		}
		if strings.ContainsAny(k.Header, ": \t\r\n") {
			out = append(out, fault{"$.keys.header", fmt.Sprintf("%q is no name of a header", k.Header)})
		}
	}
	for i := range s.Steps {
		out = s.Steps[i].faults(out, fmt.Sprintf("$.steps[%d]", i))
	}
	if s.Otherwise != nil {
		out = s.Otherwise.faults(out, "$.otherwise")
	}
	return out
}

func (s *Step) faults(out []fault, at string) []fault {
	add := func(field, format string, args ...any) {
		out = append(out, fault{at + "." + field, fmt.Sprintf(format, args...)})
	}
	if s.Status != 0 && (s.Status < 200 || s.Status > 999) {
		add("status", "%d is no final HTTP status; use 200 to 999", s.Status)
	}
	if s.Times < -1 {
		add("times", "use -1 for ever, or how many requests the step serves")
	}
	switch s.UsageChunk {
	case "", "asked", "always", "never":
	default:
		add("usage_chunk", "%q is none of asked, always, never", s.UsageChunk)
	}
	switch s.LineEnding {
	case "", "lf", "crlf", "cr":
	default:
		add("line_ending", "%q is none of lf, crlf, cr", s.LineEnding)
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"html", int64(s.HTML)}, {"choices", int64(s.Choices)}, {"pad", int64(s.Pad)}, {"chunks", int64(s.Chunks)},
		{"write_size", int64(s.WriteSize)}, {"delay", int64(s.Delay)}, {"chunk_delay", int64(s.ChunkDelay)},
		{"write_delay", int64(s.WriteDelay)}, {"keep_open", int64(s.KeepOpen)},
	} {
		if n.value < 0 {
			add(n.field, "must not be negative")
		}
	}
	for _, n := range []struct {
		field string
		value int
	}{{"html", s.HTML}, {"pad", s.Pad}, {"chunks", s.Chunks}, {"choices", s.Choices}} {
		if n.value > maxMade {
			add(n.field, "%d is more than %d, the most that is made up", n.value, maxMade)
		}
	}
	said := 0
	for _, is := range []bool{s.Body != nil, s.HTML > 0, len(s.Events) > 0} {
		if is {
			said++
		}
	}
	if said > 1 {
		add("body", "only one of body, html and events can be the answer")
	}
	if s.Error != nil && s.Status < 300 {
		add("error", "goes with a status from 300 on; an error inside a stream is error_at")
	}
	ends := 0
	for field, p := range map[string]*Point{"hang": s.Hang, "reset": s.Reset, "close": s.Close} {
		if p == nil {
			continue
		}
		if field != "hang" {
			ends++
		}
		switch p.At {
		case "", AtHeaders, AtBytes, AtChunks, AtRequest, AtBeforeEffect, AtAfterEffect:
		case AtAccept:
			if field == "hang" {
				add(field+".at", "a hang can be at request, before_effect, after_effect, headers, bytes or chunks")
			}
		default:
			add(field+".at", "%q is none of accept, request, before_effect, after_effect, headers, bytes, chunks", p.At)
		}
		if p.After < 0 || p.For < 0 {
			add(field, "after and for must not be negative")
		}
		if p.After > 0 && p.At != AtBytes && p.At != AtChunks {
			add(field+".after", "goes with at: bytes or at: chunks")
		}
		if p.For > 0 && field != "hang" && p.At != AtBeforeEffect {
			add(field+".for", "goes with hang, or with at: before_effect")
		}
	}
	if s.Cut != nil {
		ends++
		if *s.Cut < 0 {
			add("cut", "must not be negative")
		}
	}
	if ends > 1 {
		add("reset", "only one of reset, close and cut can end the answer")
	}
	if c := s.Comments; c != nil && (c.Count < 0 || c.After < 0 || c.Every < 0) {
		add("comments", "count, after and every must not be negative")
	}
	if e := s.ErrorAt; e != nil && e.Chunk < 0 {
		add("error_at.chunk", "must not be negative")
	}
	for i, c := range s.ToolCalls {
		if c.Name == "" {
			add(fmt.Sprintf("tool_calls[%d]", i), "needs the name of the tool")
		}
	}
	return out
}

// maxMade bounds what a step can make the mock make up, in bytes or pieces.
const maxMade = 256 << 20

// lineOf finds the line of a YAML path, or of the nearest thing around it
// that is there.
func lineOf(file *ast.File, path string) int {
	for path != "$" && path != "" {
		if p, err := yaml.PathString(path); err == nil {
			if node, err := p.FilterFile(file); err == nil && node != nil && node.GetToken() != nil {
				return node.GetToken().Position.Line
			}
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

// readable turns the library's error, which draws the source over several
// lines, into one line.
func readable(err error) error {
	var ye yaml.Error
	if errors.As(err, &ye) && ye.GetToken() != nil && ye.GetToken().Position != nil {
		return fmt.Errorf("line %d: %s", ye.GetToken().Position.Line, ye.GetMessage())
	}
	return err
}

// located adds the line to an error that names a value and not where it is,
// as those of durations do.
func located(file *ast.File, err error) error {
	if strings.HasPrefix(err.Error(), "line ") {
		return err
	}
	for _, doc := range file.Docs {
		for _, node := range ast.Filter(ast.StringType, doc) {
			if t := node.GetToken(); t != nil && strings.Contains(err.Error(), strconv.Quote(t.Value)) {
				return fmt.Errorf("line %d: %w", t.Position.Line, err)
			}
		}
	}
	return err
}

// UnmarshalYAML takes a string as it is and anything else as JSON.
func (b *Body) UnmarshalYAML(node ast.Node) error {
	if text, ok := plain(node); ok {
		*b = Body(text)
		return nil
	}
	var v any
	if err := yaml.NodeToValue(node, &v, yaml.UseOrderedMap()); err != nil {
		return err
	}
	out, err := yaml.MarshalWithOptions(v, yaml.JSON())
	if err != nil {
		return err
	}
	*b = Body(bytes.TrimSpace(out))
	return nil
}

// UnmarshalYAML takes one value or a list of them, each as it is written.
func (v *Values) UnmarshalYAML(node ast.Node) error {
	if list, ok := node.(*ast.SequenceNode); ok {
		for _, n := range list.Values {
			text, err := scalar(n)
			if err != nil {
				return err
			}
			*v = append(*v, text)
		}
		return nil
	}
	text, err := scalar(node)
	*v = Values{text}
	return err
}

// UnmarshalYAML takes a plain string as the data of an event.
func (e *Event) UnmarshalYAML(node ast.Node) error {
	if text, ok := plain(node); ok {
		e.Data = Body(text)
		return nil
	}
	type fields Event
	return yaml.NodeToValue(node, (*fields)(e), yaml.Strict())
}

func plain(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// scalar gives a value as it was written, so that 0.10 and 1e3 stay so.
func scalar(node ast.Node) (string, error) {
	if text, ok := plain(node); ok {
		return text, nil
	}
	if n, ok := node.(ast.ScalarNode); ok {
		return n.GetToken().Value, nil
	}
	return "", fmt.Errorf("line %d: a header's value is a text, a number, or a list of them", node.GetToken().Position.Line)
}
