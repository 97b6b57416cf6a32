package gateway

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

var errNotCanonical = errors.New("it has no canonical form: a name twice, or text that is no Unicode")

// pointed is a JSON body that values are looked up in.
type pointed struct {
	body []byte
	err  error // it is no JSON that everyone reads alike
	json bool
}

// pointInto looks at a body once, whatever is looked up in it. One that is not
// JSON, by its first byte, has no values.
func pointInto(body []byte) pointed {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")), " \t\r\n") // many an API takes the mark for white space
	if len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return pointed{}
	}
	p := pointed{body: body, json: true}
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if _, p.err = dec.ReadValue(); p.err == nil {
		if _, err := dec.ReadToken(); err != io.EOF {
			p.err = errors.New("something follows the JSON value")
		}
	}
	return p
}

// at gives the value that a JSON pointer (RFC 6901) names; nil: there is none.
// Of a body that names a member twice none is given: the API may take the other.
func (p pointed) at(pointer string) (jsontext.Value, error) {
	if !p.json || p.err != nil {
		return nil, p.err
	}
	var path []string
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		path = append(path, gjsonEscape(unescapePointer(part)))
	}
	v := gjson.GetBytes(p.body, strings.Join(path, "."))
	if !v.Exists() {
		return nil, nil
	}
	return jsontext.Value(v.Raw), nil
}

// canonical gives a JSON value in a form that is the same however it is
// written; false: it has none.
func canonical(value []byte) ([]byte, bool) {
	r := newJSONReader(value)
	defer r.release()
	if err := r.value(false); err != nil || r.odd {
		return nil, false
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return nil, false
	}
	return slices.Clone(r.text), true
}
