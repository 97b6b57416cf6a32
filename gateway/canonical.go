package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// member is a top-level member of a JSON body.
type member struct {
	name  string
	value jsontext.Value // a part of the body: never changed
}

// ordered are the members inside which the order of names changes the answer:
// a model fills in a schema's properties in their order.
var ordered = []string{"functions", "response_format", "text", "tools"}

// lax reads what clients really send: what is no valid UTF-8, or has a name
// twice, is for the upstream to judge.
var lax = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// memberLists are lists of members: none outlives the reading of its body.
var memberLists = sync.Pool{New: func() any { l := make([]member, 0, 16); return &l }}

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// parseJSON checks a body's syntax and reads its top level.
func parseJSON(body []byte) (*document, *refusal) {
	d := new(document)
	dec := decoders.Get().(*jsontext.Decoder)
	defer func() {
		dec.Reset(bytes.NewBuffer(nil)) // not to keep the body alive
		decoders.Put(dec)
	}()
	dec.Reset(bytes.NewBuffer(body), lax...)

	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, badJSON(dec, err)
		}
		return nil, badBody("the body is no JSON object", "")
	}
	dec.ReadToken()
	d.members = (*memberLists.Get().(*[]member))[:0]
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, badJSON(dec, err)
		}
		m := member{name: name.String()}
		start := dec.InputOffset()
		if err := dec.SkipValue(); err != nil {
			return nil, badJSON(dec, err)
		}
		m.value = trimToValue(body[start:dec.InputOffset()])
		if refused := d.note(m); refused != nil {
			return nil, refused
		}
		d.members = append(d.members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, badJSON(dec, err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		if err == nil {
			err = errors.New("something follows the JSON object")
		}
		return nil, badJSON(dec, err)
	}
	return d, nil
}

// trimToValue drops the colon and white space before a value.
func trimToValue(b []byte) jsontext.Value {
	return jsontext.Value(bytes.TrimLeft(b, ": \t\r\n"))
}

// maxModelName bounds a model's name, in bytes: it becomes a header and a
// word of the log.
const maxModelName = 256

// note takes what the gateway itself reads from a member.
func (d *document) note(m member) *refusal {
	switch m.name {
	case "model", "stream":
		for _, other := range d.members {
			if other.name == m.name {
				return badBody("the body names "+m.name+" twice; which one is meant?", m.name)
			}
		}
	case "user", "safety_identifier", "metadata", "stream_options":
	default:
		return nil
	}
	v := gjson.ParseBytes(m.value)
	switch m.name {
	case "model":
		if v.Type != gjson.String || v.Str == "" {
			return badBody("model must be a string that names one", "model")
		}
		if len(v.Str) > maxModelName {
			return badBody(fmt.Sprintf("model is longer than %d characters", maxModelName), "model")
		}
		d.model = v.Str
	case "stream":
		if v.Type != gjson.True && v.Type != gjson.False && v.Type != gjson.Null {
			return badBody("stream must be true or false", "stream")
		}
		d.stream = v.Type == gjson.True
	case "stream_options":
		d.includeUsage = v.Get("include_usage").Type == gjson.True
	case "safety_identifier":
		if v.Type == gjson.String {
			d.safetyID = v.Str
		}
	case "user":
		if v.Type == gjson.String {
			d.bodyUser = v.Str
		}
	case "metadata":
		if id := v.Get("user_id"); id.Type == gjson.String {
			d.metaUser = id.Str
		}
	}
	return nil
}

func badJSON(dec *jsontext.Decoder, err error) *refusal {
	offset := dec.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = syntax.ByteOffset
		err = syntax.Err
	}
	return malformed(offset, err)
}

// canonicalNumbers keeps every digit: 9007199254740993 and ...992 are two
// orders, not one.
var canonicalNumbers = []jsontext.Options{
	jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false),
}

// scratches are buffers that values are made canonical in.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch is the largest of them, in bytes, that is kept.
const maxScratch = 256 << 10

// members digests a body's members in the canonical form: white space,
// escapes and the order of names make no difference, but inside the ordered
// ones, unless the key is explicit. What has no canonical form counts by its
// bytes.
func (k *digest) members(all []member, explicit bool, ignore []string) {
	byName := func(a, b member) int { return strings.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(all, byName) {
		slices.SortStableFunc(all, byName)
	}
	pooled := scratches.Get().(*[]byte)
	scratch := *pooled
	defer func() {
		if *pooled = scratch; cap(scratch) <= maxScratch {
			scratches.Put(pooled)
		}
	}()
	for _, m := range all {
		value, present := m.value, true
		if !explicit {
			value, present = without(m, ignore)
		}
		if !present {
			continue
		}
		k.text(m.name)
		if plain(value) {
			k.bytes(value)
			continue
		}
		scratch = append(scratch[:0], value...)
		v := jsontext.Value(scratch)
		var err error
		if !explicit && slices.Contains(ordered, m.name) {
			err = v.Format(append(canonicalNumbers, jsontext.PreserveRawStrings(false), jsontext.ReorderRawObjects(false))...)
		} else {
			err = v.Canonicalize(canonicalNumbers...)
		}
		if err != nil {
			k.text("raw")
			k.bytes(value)
			continue
		}
		k.bytes(v)
		scratch = v
	}
}

// plain says that a value is its own canonical form: a number, a literal, or a
// string of printable ASCII without escapes.
func plain(v jsontext.Value) bool {
	switch v.Kind() {
	case '{', '[':
		return false
	case '"':
		for _, ch := range v {
			if ch == '\\' || ch < ' ' || ch >= 0x7f {
				return false
			}
		}
	}
	return true
}

// without leaves out of a member what the configured pointers name.
func without(m member, pointers []string) (jsontext.Value, bool) {
	value := m.value
	for _, p := range pointers {
		name, rest, deeper := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		if unescapePointer(name) != m.name {
			continue
		}
		if !deeper {
			return nil, false
		}
		var path []string
		for part := range strings.SplitSeq(rest, "/") {
			path = append(path, gjsonEscape(unescapePointer(part)))
		}
		if out, err := sjson.DeleteBytes(slices.Clone(value), strings.Join(path, ".")); err == nil {
			value = out
		}
	}
	return value, true
}

func unescapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

func gjsonEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, ".", `\.`, "*", `\*`, "?", `\?`, "|", `\|`, "#", `\#`, "@", `\@`).Replace(s)
}
