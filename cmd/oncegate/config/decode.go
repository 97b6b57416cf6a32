package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"oncegate/prices"
)

// maxNodes bounds what aliases can blow a small file up to.
const maxNodes = 100_000

// decoder fills the structs from a YAML tree and notes each value's place. It
// goes on after a fault, so that all of them are found.
type decoder struct {
	file    string
	around  surroundings
	faults  Faults
	places  map[string]Place
	anchors map[string]ast.Node
	nodes   int
}

func (d *decoder) fault(p Place, field, what, mend string) {
	d.faults = append(d.faults, Fault{Place: p, Field: field, What: what, Mend: mend})
}

func (d *decoder) place(n ast.Node) Place {
	p := Place{File: d.file, Line: 1}
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		p.Line = n.GetToken().Position.Line
	}
	return p
}

// bare strips anchors and follows aliases. It returns nil where it noted a
// fault.
func (d *decoder) bare(n ast.Node, field string) ast.Node {
	for {
		if d.nodes++; d.nodes > maxNodes {
			if d.nodes == maxNodes+1 {
				d.fault(d.place(n), field, "the file is too large, counted with its aliases repeated", "use fewer aliases")
			}
			return nil
		}
		switch x := n.(type) {
		case *ast.AnchorNode:
			d.anchors[x.Name.GetToken().Value] = x.Value
			n = x.Value
		case *ast.AliasNode:
			name := x.Value.GetToken().Value
			to, ok := d.anchors[name]
			if !ok {
				d.fault(d.place(n), field, "there is no anchor &"+name+" above", "define it before it is used")
				return nil
			}
			n = to
		case *ast.TagNode:
			d.fault(d.place(n), field, "YAML tags are not read", "write the value without "+x.Start.Value)
			return nil
		default:
			return n
		}
	}
}

// section fills a struct from a mapping.
func (d *decoder) section(into reflect.Value, n ast.Node, path string) {
	if n = d.bare(n, path); n == nil {
		return
	}
	if _, ok := n.(*ast.NullNode); ok {
		return // a key with nothing under it: all defaults
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		d.fault(d.place(n), path, "is not a section", "indent keys under it: "+strings.Join(keysOf(into.Type()), ", "))
		return
	}
	seen := map[string]int{}
	for it := m.MapRange(); it.Next(); {
		kv := it.KeyValue()
		key, at := keyText(kv.Key), d.place(kv.Key)
		full := join(path, key)
		if line, twice := seen[key]; twice {
			d.fault(at, full, fmt.Sprintf("stands twice, first in line %d", line), "keep one of them")
			continue
		}
		seen[key] = at.Line
		field, ok := fieldOf(into.Type(), key)
		switch {
		case ok:
			d.places[full] = at
			d.value(into.FieldByIndex(field.Index), field, kv.Value, full)
		case kv.Key.IsMergeKey():
			d.fault(at, full, "merge keys are not read", "write the keys out, or use an alias for the whole section")
		case isLater(full):
			d.fault(at, full, "not in this version yet", "leave it out until then")
		default:
			d.fault(at, full, "unknown key", didYouMean(key, keysOf(into.Type())))
		}
	}
}

// value fills one field.
func (d *decoder) value(into reflect.Value, field reflect.StructField, n ast.Node, path string) {
	switch {
	case into.Kind() == reflect.Struct:
		d.section(into, n, path)
		return
	case into.Kind() == reflect.Slice:
		d.list(into, field, n, path)
		return
	case into.Kind() == reflect.Map:
		d.named(into, field, n, path)
		return
	}
	if n = d.bare(n, path); n == nil {
		return
	}
	at := d.place(n)
	if d.places[path].Line > 0 && !isScalar(n) {
		at = d.places[path]
	}
	raw, null, ok := scalar(n)
	switch {
	case null:
		return
	case !ok:
		d.fault(at, path, "is a list or a section where one value is expected", "write it as one value, in quotes if it holds braces or brackets")
		return
	}
	text, ok := d.expanded(raw, at, path)
	if !ok {
		return
	}
	if what, mend := set(into, field, text); what != "" {
		d.fault(at, path, quoted(raw, field)+what, mend)
	}
}

// list fills a slice; one value stands for a list of one.
func (d *decoder) list(into reflect.Value, field reflect.StructField, n ast.Node, path string) {
	if n = d.bare(n, path); n == nil {
		return
	}
	if _, null := n.(*ast.NullNode); null {
		return
	}
	elem := into.Type().Elem()
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		at := d.place(n)
		if p := d.places[path]; p.Line > 0 {
			at = p
		}
		d.fault(at, path, "is not a list", `start each entry with "- ", or write it in [brackets]`)
		return
	}
	out := reflect.MakeSlice(into.Type(), 0, len(seq.Values))
	for i, v := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		p := d.place(v)
		if m, ok := v.(ast.MapNode); ok {
			if it := m.MapRange(); it.Next() { // a mapping's own token is its first colon
				p = d.place(it.Key())
			}
		}
		d.places[at] = p
		e := reflect.New(elem).Elem()
		if elem.Kind() == reflect.Struct {
			fillDefaults(e)
			d.section(e, v, at)
			out = reflect.Append(out, e)
			continue
		}
		if v = d.bare(v, at); v == nil {
			continue
		}
		raw, null, ok := scalar(v)
		if null || !ok {
			d.fault(p, at, "is not a text", "write it in quotes")
			continue
		}
		text, ok := d.expanded(raw, p, at)
		if !ok {
			continue
		}
		if text == "" && strings.Contains(raw, ":-") {
			continue // "${NAME:-}": left out when the variable is
		}
		if what, mend := set(e, field, text); what != "" {
			d.fault(p, at, quoted(raw, field)+what, mend)
			continue
		}
		// Entries that were left out must not shift the places of the others.
		d.places[fmt.Sprintf("%s[%d]", path, out.Len())] = p
		out = reflect.Append(out, e)
	}
	into.Set(out)
}

// named fills a map of sections or of texts, by names of the user's own.
func (d *decoder) named(into reflect.Value, field reflect.StructField, n ast.Node, path string) {
	sections := into.Type().Elem().Kind() == reflect.Struct
	if n = d.bare(n, path); n == nil {
		return
	}
	if _, null := n.(*ast.NullNode); null {
		return
	}
	m, ok := n.(ast.MapNode)
	if !ok {
		mend := "indent names under it, each with its value"
		if sections {
			mend = "indent names under it, each with " + strings.Join(keysOf(into.Type().Elem()), ", ")
		}
		d.fault(d.place(n), path, "is not a section", mend)
		return
	}
	out := reflect.MakeMap(into.Type())
	for it := m.MapRange(); it.Next(); {
		kv := it.KeyValue()
		key, at := keyText(kv.Key), d.place(kv.Key)
		full := join(path, key)
		switch first, twice := d.places[full]; {
		case kv.Key.IsMergeKey():
			d.fault(at, full, "merge keys are not read", "write the names out")
			continue
		case twice:
			d.fault(at, full, fmt.Sprintf("stands twice, first in line %d", first.Line), "keep one of them")
			continue
		}
		d.places[full] = at
		e := reflect.New(into.Type().Elem()).Elem()
		if sections {
			fillDefaults(e)
			d.section(e, kv.Value, full)
		} else {
			d.value(e, field, kv.Value, full)
			if raw, _, _ := scalar(kv.Value); e.String() == "" && strings.Contains(raw, ":-") {
				continue // "${NAME:-}": left out when the variable is
			}
		}
		out.SetMapIndex(reflect.ValueOf(key), e)
	}
	into.Set(out)
}

func (d *decoder) expanded(raw string, at Place, path string) (string, bool) {
	text, err := d.around.expand(raw)
	if err == nil {
		return text, true
	}
	what, mend := err.Error(), ""
	if e, ok := err.(*expandError); ok {
		what, mend = e.what, e.mend
	}
	d.fault(at, path, what, mend)
	return "", false
}

// set gives a scalar field its value. Empty texts: it is set.
func set(into reflect.Value, field reflect.StructField, text string) (what, mend string) {
	switch into.Interface().(type) {
	case time.Duration:
		d, err := ParseDuration(text)
		if err != nil {
			return err.Error(), "write it with units: 500ms, 30s, 5m, 24h, 7d"
		}
		into.SetInt(int64(d))
		return bounds(field, float64(d))
	case Size:
		s, err := ParseSize(text)
		if err != nil {
			return err.Error(), "write it as 64KiB, 32MiB, 1GiB"
		}
		into.SetInt(int64(s))
		return bounds(field, float64(s))
	case Toggle:
		on, what, mend := boolean(text)
		into.Set(reflect.ValueOf(map[bool]Toggle{true: True, false: False}[on]))
		return what, mend
	case prices.Rate:
		r, err := prices.ParseRate(text)
		if err != nil {
			return "is " + err.Error(), "write US dollars a million tokens, as 0.42"
		}
		into.SetInt(int64(r))
		return "", ""
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
		if list := field.Tag.Get("enum"); list != "" && text != "" {
			return oneOf(text, strings.Split(list, ","), field)
		}
	case reflect.Bool:
		on, what, mend := boolean(text)
		into.SetBool(on)
		return what, mend
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return "is not a whole number", "write it in digits"
		}
		into.SetInt(int64(n))
		return bounds(field, float64(n))
	case reflect.Float64:
		if strings.Trim(text, "+-.0123456789") != "" { // no hex, no exponent, no infinity
			return "is not a number", "write it in digits, as 0.5"
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "is not a number", "write it in digits, as 0.5"
		}
		into.SetFloat(n)
		return bounds(field, n)
	default:
		panic("config: a field of a kind that is not read: " + field.Name)
	}
	return "", ""
}

func boolean(text string) (on bool, what, mend string) {
	switch strings.ToLower(text) {
	case "true":
		return true, "", ""
	case "false":
		return false, "", ""
	}
	return false, "is neither true nor false", "write true or false"
}

func oneOf(text string, known []string, field reflect.StructField) (what, mend string) {
	if slices.Contains(known, text) {
		return "", ""
	}
	if name(field) == "kind" && laterKinds[text] {
		return "comes later: this version does not speak to it", "use one of " + strings.Join(known, ", ")
	}
	mend = "write one of these"
	if nearest(text, known) != "" {
		mend = didYouMean(text, known)
	}
	return "is not one of " + strings.Join(known, ", "), mend
}

func bounds(field reflect.StructField, n float64) (what, mend string) {
	mend = "leave it out"
	if def := field.Tag.Get("default"); def != "" {
		mend += " for the default of " + def
	}
	if b, ok := field.Tag.Lookup("above"); ok {
		if limit, _ := strconv.ParseFloat(b, 64); n <= limit {
			return "must be more than " + b, mend
		}
	}
	if b, ok := field.Tag.Lookup("min"); ok {
		if limit, _ := strconv.ParseFloat(b, 64); n < limit {
			return "must be at least " + b, mend
		}
	}
	if b, ok := field.Tag.Lookup("max"); ok {
		if limit, _ := strconv.ParseFloat(b, 64); n > limit {
			return "must be at most " + b, mend
		}
	}
	return "", ""
}

// quoted is the value as it was written, to begin a fault's text with; of
// secrets nothing.
func quoted(raw string, field reflect.StructField) string {
	if field.Tag.Get("secret") != "" || len(raw) > 80 {
		return ""
	}
	return strconv.Quote(raw) + " "
}

func isScalar(n ast.Node) bool {
	_, _, ok := scalar(n)
	return ok
}

// scalar is the text of a value as it stands in the file.
func scalar(n ast.Node) (text string, null, ok bool) {
	switch x := n.(type) {
	case *ast.NullNode:
		return "", true, true
	case *ast.StringNode:
		return x.Value, false, true
	case *ast.LiteralNode:
		return x.Value.Value, false, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return strings.TrimSpace(n.GetToken().Value), false, true
	}
	return "", false, false
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.String()
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
