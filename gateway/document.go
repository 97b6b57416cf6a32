package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"unicode"
)

// document is what the gateway itself reads in a body.
type document struct {
	model        string
	safetyID     string // safety_identifier
	bodyUser     string // user
	metaUser     string // metadata.user_id
	stream       bool
	includeUsage bool
	digest       [32]byte // of the body in its canonical form
}

// user is on whose behalf the body says that it is.
func (d *document) user() string { return cmp.Or(d.safetyID, d.bodyUser, d.metaUser) }

// document understands a call's body. A body that was seen before, byte for
// byte, is not read again: making a large one canonical costs several times
// as much as hashing it, and an SDK's retry is byte-identical. What is
// remembered of each is small, whatever it says.
func (g *Gateway) document(c *call) (*document, *refusal) {
	id := bodyID{explicit: c.explicit(), size: len(c.up.Body), sum: [2]uint64{
		maphash.Bytes(g.documents.seed[0], c.up.Body), maphash.Bytes(g.documents.seed[1], c.up.Body),
	}}
	if c.op.form {
		id.contentType = c.up.ContentType
	}
	d := g.documents.get(id)
	if d == nil {
		var refused *refusal
		if d, refused = c.parse(g.opt.Dedupe.Ignore); refused != nil {
			return nil, refused
		}
		if len(id.contentType) <= maxContentType {
			id.contentType = strings.Clone(id.contentType)
			g.documents.put(id, d)
		}
	}
	switch {
	case d.model == "" && !c.op.noModel:
		return nil, badBody("you must provide a model parameter", "model")
	case len(d.model) > maxModel || strings.ContainsFunc(d.model, unicode.IsControl):
		return nil, badBody(fmt.Sprintf("model is the name of one, in up to %d bytes and without control characters", maxModel), "model")
	}
	return d, nil
}

// maxModel bounds, in bytes, a name that answers carry in a header.
const maxModel = 1024

func (c *call) parse(ignore []string) (*document, *refusal) {
	if c.op.form {
		return parseForm(c.up.ContentType, c.up.Body)
	}
	if len(bytes.TrimSpace(c.up.Body)) == 0 {
		return nil, badBody("the body is empty; a JSON object was expected", "")
	}
	return parseJSON(c.up.Body, c.explicit(), ignore)
}

// bodyID names a body by its bytes, and by what else decides how it is read.
// What it finds is the body's digest and model, nobody's answer: 128 bits under
// seeds that nobody knows tell bodies apart well enough.
type bodyID struct {
	sum         [2]uint64
	size        int
	contentType string // multipart: with its boundary
	explicit    bool
}

// maxContentType is how long that may be, in bytes, for its body to be
// remembered: boundaries have 70 at most.
const maxContentType = 256

// maxDocuments bounds how many bodies are remembered: two generations of half
// as many, of which the older one is dropped when the younger is full.
const maxDocuments = 8192

// documents remembers what the last bodies said.
type documents struct {
	seed       [2]maphash.Seed
	mu         sync.Mutex
	young, old map[bodyID]*document
}

func newDocuments() *documents {
	return &documents{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (ds *documents) get(id bodyID) *document {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d := ds.young[id]; d != nil {
		return d
	}
	return ds.old[id]
}

func (ds *documents) put(id bodyID, d *document) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.young == nil || len(ds.young) >= maxDocuments/2 {
		ds.young, ds.old = make(map[bodyID]*document), ds.young
	}
	ds.young[id] = d
}
