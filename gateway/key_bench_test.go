package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func BenchmarkDerivedKey1KB(b *testing.B) {
	body := []byte(`{"model":"gpt-4o-mini","messages":[{"role":"system","content":"You are a helper."},{"role":"user","content":"` +
		strings.Repeat("word ", 170) + `"}],"temperature":0.2,"max_tokens":100}`)
	g := &Gateway{documents: newDocuments()}
	setDefaults(&g.opt)
	c := &call{op: &operations[0], who: principal{secret: make([]byte, 32)}}
	c.up.Body = body
	b.ReportAllocs()
	for b.Loop() {
		d, refused := g.document(c)
		if refused != nil {
			b.Fatal(refused)
		}
		c.body = d
		g.setKey(c, http.Header{})
	}
}
