package gateway

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
)

// part is one part of a multipart body.
type part struct {
	name, file, contentType string
	data                    []byte
}

// parseForm reads a multipart body by its parts: a retry has a new boundary,
// and is the same call.
func parseForm(contentType string, body []byte) (document, *refusal) {
	var d document
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return d, badBody("the body must be multipart/form-data with a boundary", "")
	}
	d.parts = []part{}
	in := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := in.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return d, badBody("the multipart body can't be read: "+err.Error(), "")
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return d, badBody("the multipart body can't be read: "+err.Error(), "")
		}
		name := p.FormName()
		for _, other := range d.parts {
			if other.name == name && (name == "model" || name == "stream") {
				return d, badBody("the body names "+name+" twice; which one is meant?", name)
			}
		}
		switch name {
		case "model":
			d.model = string(data)
		case "stream":
			d.stream = string(data) == "true"
		case "user":
			d.user = string(data)
		}
		d.parts = append(d.parts, part{name: name, file: p.FileName(), contentType: p.Header.Get("Content-Type"), data: data})
	}
	if d.model == "" {
		return d, badBody("you must provide a model parameter", "model")
	}
	return d, nil
}
