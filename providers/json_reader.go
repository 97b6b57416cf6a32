package providers

import (
	"bytes"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// jsonReader reads a JSON document once, from its beginning to its end. After
// a fault it gives nothing more.
type jsonReader struct {
	in      bytes.Buffer
	dec     jsontext.Decoder
	failed  error
	scratch []byte
}

var jsonReaders = sync.Pool{New: func() any { return new(jsonReader) }}

func newJSONReader(b []byte) *jsonReader {
	r := jsonReaders.Get().(*jsonReader)
	r.in = *bytes.NewBuffer(b)
	r.dec.Reset(&r.in, lax...)
	return r
}

func (r *jsonReader) release() {
	r.in, r.failed = bytes.Buffer{}, nil // not to keep the document alive
	r.dec.Reset(&r.in)
	jsonReaders.Put(r)
}

// over reports that the document was JSON to its end.
func (r *jsonReader) over() bool {
	if r.failed == nil {
		_, r.failed = r.dec.ReadToken()
	}
	return r.failed == io.EOF
}

func (r *jsonReader) note(err error) bool {
	if err != nil && r.failed == nil {
		if r.failed = err; err == io.EOF {
			r.failed = io.ErrUnexpectedEOF
		}
	}
	return r.failed == nil
}

func (r *jsonReader) skip() { r.note(r.dec.SkipValue()) }

// value reads a value in place: see peek.
func (r *jsonReader) value() gjson.Result {
	v, err := r.dec.ReadValue()
	if !r.note(err) {
		return gjson.Result{}
	}
	return peek(v)
}

// object has member called for each name of an object, to read the value; what
// is no object is skipped.
func (r *jsonReader) object(member func(name []byte)) {
	if r.dec.PeekKind() != '{' {
		r.skip()
		return
	}
	_, err := r.dec.ReadToken()
	for r.note(err) && r.dec.PeekKind() != '}' {
		var name jsontext.Value
		if name, err = r.dec.ReadValue(); r.note(err) {
			member(r.unquote(name))
		}
	}
	if r.failed == nil {
		_, err = r.dec.ReadToken()
		r.note(err)
	}
}

// array has element called for each element of an array, to read it; what is
// no array is skipped.
func (r *jsonReader) array(element func()) {
	if r.dec.PeekKind() != '[' {
		r.skip()
		return
	}
	_, err := r.dec.ReadToken()
	for r.note(err) && r.dec.PeekKind() != ']' {
		element()
	}
	if r.failed == nil {
		_, err = r.dec.ReadToken()
		r.note(err)
	}
}

func (r *jsonReader) unquote(name jsontext.Value) []byte {
	if bytes.IndexByte(name, '\\') < 0 {
		return name[1 : len(name)-1]
	}
	r.scratch, _ = jsontext.AppendUnquote(r.scratch[:0], name)
	return r.scratch
}
