package mock

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
)

// form is a multipart body, or an URL-encoded one, as far as the mock needs it.
type form struct {
	values   map[string]string
	file     []byte
	fileName string
}

func (f *form) value(name string) string { return f.values[name] }

// readForm reads what it can; what is missing the operation complains of.
func readForm(contentType string, body []byte) *form {
	f := &form{values: map[string]string{}}
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return f
	}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := r.NextPart()
		if err != nil {
			return f
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return f
		}
		if p.FormName() == "file" {
			f.file, f.fileName = data, p.FileName()
			continue
		}
		f.values[strings.TrimSuffix(p.FormName(), "[]")] = string(data)
	}
}

// readURLEncoded reads a form; nil: the body is none.
func readURLEncoded(contentType string, body []byte) *form {
	if kind, _, _ := mime.ParseMediaType(contentType); kind != "application/x-www-form-urlencoded" {
		return nil
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	f := &form{values: map[string]string{}}
	for name := range values {
		f.values[name] = values.Get(name)
	}
	return f
}
