package gateway

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// member is a top-level member of a JSON body.
type member struct {
	name     string
	value    []byte // a part of the body: never changed
	from, to int    // where its canonical form is in the reader's text
	odd      bool   // it has none: a name twice, lone surrogates, no UTF-8
	absent   bool   // left out of the digest
}

// ordered are the members inside which the order of names changes the answer:
// a model fills in a schema's properties in their order.
var ordered = []string{"functions", "response_format", "text", "tools"}

// lax reads what clients really send: what is no valid UTF-8, or has a name
// twice, is for the upstream to judge.
var lax = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// jsonReader reads a JSON body and makes it canonical in the same pass: white
// space, escapes and the order of names make no difference. Every digit does:
// 9007199254740993 and ...992 are two orders, not one.
type jsonReader struct {
	in      bytes.Buffer
	dec     jsontext.Decoder
	text    []byte   // what was read, in canonical form
	odd     bool     // it has none
	members []member // of the top level
	open    []span   // members of the objects that are being read
	scratch []byte
	hash    digest
}

// span is a member in a reader's text, with the comma after it.
type span struct{ from, colon, to int }

var jsonReaders = sync.Pool{New: func() any { return &jsonReader{hash: digest{h: sha256.New()}} }}

// maxScratch is the largest buffer, in bytes, that is kept for the next body.
const maxScratch = 256 << 10

func newJSONReader(body []byte) *jsonReader {
	r := jsonReaders.Get().(*jsonReader)
	r.in = *bytes.NewBuffer(body)
	r.dec.Reset(&r.in, lax...)
	return r
}

func (r *jsonReader) release() {
	r.in = bytes.Buffer{} // not to keep the body alive
	r.dec.Reset(&r.in)
	clear(r.members)
	r.text, r.odd, r.members, r.open = r.text[:0], false, r.members[:0], r.open[:0]
	if cap(r.text)+cap(r.scratch) <= maxScratch && cap(r.members) <= maxScratch/64 && cap(r.open) <= maxScratch/64 {
		jsonReaders.Put(r)
	}
}

// parseJSON checks a body's syntax, reads what the gateway wants to know of its
// top level, and digests it less what ignore points to. With an explicit key
// the order of names makes no difference anywhere, and nothing is ignored.
func parseJSON(body []byte, explicit bool, ignore []string) (*document, *refusal) {
	if explicit {
		ignore = nil
	}
	r := newJSONReader(body)
	defer r.release()
	dec := &r.dec
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, badJSON(dec, err)
		}
		return nil, badBody("the body is no JSON object", "")
	}
	d := new(document)
	dec.ReadToken()
	for dec.PeekKind() != '}' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, badJSON(dec, err)
		}
		m := member{name: memberName(name), from: len(r.text)}
		inOrder := !explicit && slices.Contains(ordered, m.name)
		start := dec.InputOffset()
		r.odd = false
		if err := r.value(inOrder); err != nil {
			return nil, badJSON(dec, err)
		}
		m.value, m.to, m.odd = trimToValue(body[start:dec.InputOffset()]), len(r.text), r.odd
		if refused := d.note(m, r.members); refused != nil {
			return nil, refused
		}
		r.leaveOut(&m, ignore, inOrder)
		r.members = append(r.members, m)
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
	r.digest(d.digest[:])
	return d, nil
}

// trimToValue drops the colon and white space before a value.
func trimToValue(b []byte) []byte { return bytes.TrimLeft(b, ": \t\r\n") }

// value reads a value and appends its canonical form to text. inOrder keeps
// the order of names.
func (r *jsonReader) value(inOrder bool) error {
	switch r.dec.PeekKind() {
	case '{':
		return r.object(inOrder)
	case '[':
		return r.array(inOrder)
	}
	v, err := r.dec.ReadValue()
	if err == nil {
		r.scalar(v)
	}
	return err
}

func (r *jsonReader) array(inOrder bool) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	r.text = append(r.text, '[')
	for r.dec.PeekKind() != ']' {
		if err := r.value(inOrder); err != nil {
			return err
		}
		r.text = append(r.text, ',')
	}
	r.end(']')
	_, err := r.dec.ReadToken()
	return err
}

func (r *jsonReader) object(inOrder bool) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	r.text = append(r.text, '{')
	first := len(r.open)
	for r.dec.PeekKind() != '}' {
		from := len(r.text)
		name, err := r.dec.ReadValue()
		if err != nil {
			return err
		}
		r.scalar(name)
		colon := len(r.text)
		r.text = append(r.text, ':')
		if err := r.value(inOrder); err != nil {
			return err
		}
		r.text = append(r.text, ',')
		r.open = append(r.open, span{from, colon, len(r.text)})
	}
	r.sort(r.open[first:], inOrder)
	r.open = r.open[:first]
	r.end('}')
	_, err := r.dec.ReadToken()
	return err
}

// end closes an array or an object, in place of the comma after its last value.
func (r *jsonReader) end(with byte) {
	if last := len(r.text) - 1; r.text[last] == ',' {
		r.text[last] = with
	} else {
		r.text = append(r.text, with)
	}
}

// sort puts the members of the object that was just read in the order of their
// names. inOrder leaves them as they are. One name twice has no canonical form.
func (r *jsonReader) sort(members []span, inOrder bool) {
	byName := func(a, b span) int { return bytes.Compare(r.text[a.from:a.colon], r.text[b.from:b.colon]) }
	sorted := slices.IsSortedFunc(members, byName)
	if !sorted {
		at := members[0].from
		slices.SortFunc(members, byName)
		if !inOrder {
			r.scratch = r.scratch[:0]
			for _, m := range members {
				r.scratch = append(r.scratch, r.text[m.from:m.to]...)
			}
			defer copy(r.text[at:], r.scratch)
		}
	}
	for i := 1; i < len(members); i++ {
		r.odd = r.odd || byName(members[i-1], members[i]) == 0
	}
}

// scalar appends the canonical form of what is no object or array.
func (r *jsonReader) scalar(v jsontext.Value) {
	if v.Kind() != '"' {
		r.text = append(r.text, v...)
		return
	}
	if bytes.IndexByte(v, '\\') < 0 {
		r.odd = r.odd || !utf8.Valid(v)
		r.text = append(r.text, v...)
		return
	}
	plain, err := jsontext.AppendUnquote(r.scratch[:0], v)
	if r.scratch = plain; err == nil {
		r.text, err = jsontext.AppendQuote(r.text, plain)
	}
	r.odd = r.odd || err != nil
}

// maxModelName bounds a model's name, in bytes: it becomes a header and a
// word of the log.
const maxModelName = 256

// note takes what the gateway itself reads from a member.
func (d *document) note(m member, before []member) *refusal {
	switch m.name {
	case "model", "stream":
		for _, other := range before {
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
			d.safetyID = kept(v.Str)
		}
	case "user":
		if v.Type == gjson.String {
			d.bodyUser = kept(v.Str)
		}
	case "metadata":
		if id := v.Get("user_id"); id.Type == gjson.String {
			d.metaUser = kept(id.Str)
		}
	}
	return nil
}

// memberName gives the name that a string stands for. One that is no text, as
// with lone surrogates in it, counts by its bytes: apart from all that are.
func memberName(quoted jsontext.Value) string {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	plain, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return "\xff" + string(quoted)
	}
	return string(plain)
}

func badJSON(dec *jsontext.Decoder, err error) *refusal {
	offset := dec.InputOffset()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = syntax.ByteOffset
		err = syntax.Err
	}
	return malformed(offset, err)
}

// digest digests the members that were read, by their names. What has no
// canonical form counts by its bytes.
func (r *jsonReader) digest(into []byte) {
	k := &r.hash
	k.h.Reset()
	k.text("json")
	slices.SortStableFunc(r.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for i := range r.members {
		m := &r.members[i]
		if m.absent {
			continue
		}
		k.text(m.name)
		if m.odd {
			k.text("raw")
			k.bytes(m.value)
		} else {
			k.bytes(r.text[m.from:m.to])
		}
	}
	k.sum(into)
}

// leaveOut leaves out of a member what the configured pointers name.
func (r *jsonReader) leaveOut(m *member, pointers []string, inOrder bool) {
	value, present := without(m.name, m.value, pointers)
	m.absent = !present
	if m.absent || len(value) == len(m.value) {
		return
	}
	rest := newJSONReader(value)
	defer rest.release()
	err := rest.value(inOrder)
	r.text = append(r.text[:m.from], rest.text...)
	m.value, m.to, m.odd = value, len(r.text), rest.odd || err != nil
}

// without gives a member's value less what the pointers name in it. A member
// that is named as a whole is not present.
func without(name string, value []byte, pointers []string) (_ []byte, present bool) {
	for _, p := range pointers {
		first, rest, deeper := strings.Cut(strings.TrimPrefix(p, "/"), "/")
		if unescapePointer(first) != name {
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
