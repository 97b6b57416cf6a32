package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"oncegate/cmd/oncegate/config"
)

// What aliases can blow a small file up to: how much of it, and how deep, by
// the length of a path.
const (
	maxNodes = 100_000
	maxPath  = 1_000
)

// tree reads a YAML tree. It goes on after a fault, so that all are found.
type tree struct {
	file    string
	faults  config.Faults
	anchors map[string]ast.Node
	nodes   int
	blown   bool
}

func (t *tree) fault(n ast.Node, path, what, mend string) {
	t.faultAt(lineOf(n), path, what, mend)
}

func (t *tree) faultAt(line int, path, what, mend string) {
	t.faults = append(t.faults, config.Fault{Place: config.Place{File: t.file, Line: line}, Field: path, What: what, Mend: mend})
}

// lineOf is where a value begins. A mapping's own token is its first colon.
func lineOf(n ast.Node) int {
	if m, ok := n.(ast.MapNode); ok {
		if it := m.MapRange(); it.Next() {
			n = it.Key()
		}
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 1
	}
	return n.GetToken().Position.Line
}

// bare strips anchors and follows aliases. It returns nil where it noted a
// fault.
func (t *tree) bare(n ast.Node, path string) ast.Node {
	for {
		if t.nodes++; t.nodes > maxNodes || len(path) > maxPath {
			if !t.blown {
				t.fault(n, "", "is too large, counted with its aliases repeated", "use fewer aliases, and none inside of what it stands for")
			}
			t.blown = true
			return nil
		}
		switch x := n.(type) {
		case *ast.AnchorNode:
			t.anchors[x.Name.GetToken().Value] = x.Value
			n = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			to, ok := t.anchors[name]
			if !ok {
				t.fault(x, path, "there is no anchor &"+name+" above", "define it before it is used")
				return nil
			}
			n = to
		case *ast.TagNode:
			t.fault(x, path, "YAML tags are not read", "write the value without "+x.Start.Value)
			return nil
		default:
			return n
		}
	}
}

// key is one that a section may have, and what reads its value.
type key struct {
	name string
	read func(n ast.Node, path string)
}

// section reads a mapping with these keys.
func (t *tree) section(n ast.Node, path string, keys ...key) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	t.each(n, path, names, func(k ast.MapKeyNode, name, full string, v ast.Node) {
		i := slices.Index(names, name)
		switch {
		case i >= 0:
			keys[i].read(v, full)
		case k.IsMergeKey():
			t.fault(k, full, "merge keys are not read", "write the keys out, or use an alias for the whole section")
		default:
			t.fault(k, full, "unknown key", config.DidYouMean(name, names))
		}
	})
}

// each goes through the keys of a mapping. known is what to name where there
// is no mapping.
func (t *tree) each(n ast.Node, path string, known []string, visit func(k ast.MapKeyNode, name, full string, v ast.Node)) {
	if n = t.bare(n, path); n == nil {
		return
	}
	if _, null := n.(*ast.NullNode); null {
		return
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		mend := "indent keys under it"
		if len(known) > 0 {
			mend += ": " + strings.Join(known, ", ")
		}
		t.fault(n, path, "is not a section", mend)
		return
	}
	seen := map[string]int{}
	for it := m.MapRange(); it.Next(); {
		k := it.Key()
		name := keyText(k)
		full := name
		if path != "" {
			full = path + "." + name
		}
		if line, twice := seen[name]; twice {
			t.fault(k, full, fmt.Sprintf("stands twice, first in line %d", line), "keep one of them")
			continue
		}
		seen[name] = lineOf(k)
		visit(k, name, full, it.Value())
	}
}

// list reads the entries of a sequence.
func (t *tree) list(n ast.Node, path string, entry func(n ast.Node, path string)) {
	if n = t.bare(n, path); n == nil {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		t.fault(n, path, "is not a list", "begin each entry with a dash")
		return
	}
	for i, v := range seq.Values {
		entry(v, fmt.Sprintf("%s[%d]", path, i))
	}
}

// text reads one value, as it stands in the file.
func (t *tree) text(n ast.Node, path string) (string, bool) {
	if n = t.bare(n, path); n == nil {
		return "", false
	}
	text, ok := scalar(n)
	if !ok {
		t.fault(n, path, "is not one value", "write it as one, in quotes if it holds any of {}[]:#")
	}
	return text, ok
}

// texts reads one value or a list of them.
func (t *tree) texts(n ast.Node, path string) (all []string) {
	b := t.bare(n, path)
	if _, list := b.(*ast.SequenceNode); !list {
		if s, ok := t.text(n, path); ok {
			all = append(all, s)
		}
		return all
	}
	t.list(n, path, func(n ast.Node, path string) {
		if s, ok := t.text(n, path); ok {
			all = append(all, s)
		}
	})
	return all
}

// json writes a value as JSON: members in their order, numbers digit for digit.
func (t *tree) json(n ast.Node, path string) []byte {
	var b bytes.Buffer
	t.writeJSON(&b, n, path)
	return b.Bytes()
}

func (t *tree) writeJSON(b *bytes.Buffer, n ast.Node, path string) {
	n = t.bare(n, path)
	switch x := n.(type) {
	case nil, *ast.NullNode:
		b.WriteString("null")
	case ast.MapNode:
		between := "{"
		t.each(x.(ast.Node), path, nil, func(_ ast.MapKeyNode, name, full string, v ast.Node) {
			b.WriteString(between)
			b.Write(quote(name))
			b.WriteByte(':')
			t.writeJSON(b, v, full)
			between = ","
		})
		if between == "{" {
			b.WriteByte('{')
		}
		b.WriteByte('}')
	case *ast.SequenceNode:
		b.WriteByte('[')
		for i, v := range x.Values {
			if i > 0 {
				b.WriteByte(',')
			}
			t.writeJSON(b, v, fmt.Sprintf("%s[%d]", path, i))
		}
		b.WriteByte(']')
	case *ast.StringNode, *ast.LiteralNode:
		s, _ := scalar(x)
		b.Write(quote(s))
	default:
		s, ok := scalar(x)
		if !ok || !json.Valid([]byte(s)) {
			t.fault(n, path, "is no value of JSON", "write it as JSON would, or in quotes")
			s = "null"
		}
		b.WriteString(s)
	}
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// scalar is the text of a value as it stands in the file.
func scalar(n ast.Node) (string, bool) {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value, true
	case *ast.LiteralNode:
		return x.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return strings.TrimSpace(n.GetToken().Value), true
	}
	return "", false
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.String()
}
