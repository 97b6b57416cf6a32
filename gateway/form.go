package gateway

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
)

// part is one part of a multipart body.
type part struct {
	name, file, contentType string
	sum                     [32]byte // of its bytes
}

// parseForm reads a multipart body by its parts: a retry has a new boundary,
// and is the same call.
func parseForm(contentType string, body []byte) (*document, *refusal) {
	d := new(document)
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, badBody("the body must be multipart/form-data with a boundary", "")
	}
	var parts []part
	in := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := in.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, badBody("the multipart body can't be read: "+err.Error(), "")
		}
		name := p.FormName()
		sum := sha256.New() // a file is large: no copy is made of it
		var data bytes.Buffer
		if name == "model" || name == "stream" || name == "user" {
			_, err = io.Copy(io.MultiWriter(sum, &data), p)
		} else {
			_, err = io.Copy(sum, p)
		}
		if err != nil {
			return nil, badBody("the multipart body can't be read: "+err.Error(), "")
		}
		for _, other := range parts {
			if other.name == name && (name == "model" || name == "stream") {
				return nil, badBody("the body names "+name+" twice; which one is meant?", name)
			}
		}
		switch name {
		case "model":
			if data.Len() > maxModelName {
				return nil, badBody(fmt.Sprintf("model is longer than %d characters", maxModelName), "model")
			}
			d.model = data.String()
		case "stream":
			d.stream = data.String() == "true"
		case "user":
			d.bodyUser = kept(data.String())
		}
		parts = append(parts, part{name: name, file: p.FileName(), contentType: p.Header.Get("Content-Type"), sum: [32]byte(sum.Sum(nil))})
	}
	k := digest{h: sha256.New()}
	k.text("multipart")
	for _, p := range parts {
		k.text(p.name)
		k.text(p.file)
		k.text(p.contentType)
		k.bytes(p.sum[:])
	}
	k.sum(d.digest[:])
	return d, nil
}
