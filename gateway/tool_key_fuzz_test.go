package gateway

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// A body's digest stands whatever white space is in its JSON, and two that
// encoding/json takes for different texts of one order are told apart by it only
// where their digits or names differ. Nothing that can be sent makes it panic.
func FuzzBodyDigest(f *testing.F) {
	f.Add("application/json", []byte(`{"b":[1,2.0,{"x":null}],"a":"\u00e9"}`))
	f.Add("application/json; charset=utf-8", []byte(`{"a":1,"a":2}`))
	f.Add("application/problem+json", []byte(`[9007199254740993]`))
	f.Add(`multipart/form-data; boundary=x`, []byte("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"))
	f.Add("multipart/mixed", []byte("--\r\n"))
	f.Add(";", []byte("\x00"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		kind, sum := bodyDigest(contentType, body)
		if again, twice := bodyDigest(contentType, bytes.Clone(body)); again != kind || twice != sum {
			t.Fatal("the same body has two digests")
		}
		var wide bytes.Buffer
		if json.Indent(&wide, body, " ", "\t") != nil {
			return
		}
		before, _ := canonical(body)
		after, ok := canonical(wide.Bytes())
		if !bytes.Equal(before, after) {
			t.Fatalf("white space makes a difference: %q, %q", before, after)
		}
		if ok && !json.Valid(after) {
			t.Fatalf("the canonical form is no JSON: %q", after)
		}
	})
}

// What a probe asks for is one path and one query, however odd the values are
// that it is made with.
func FuzzFillProbe(f *testing.F) {
	f.Add([]byte(`{"ref":"order 7&x=1#/../?"}`))
	f.Add([]byte(`{"ref":12}`))
	f.Add([]byte(`{"ref":"{upstream_key}","ref":"b"}`))
	f.Add([]byte(`[{"ref":1}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got := fillProbe("/p/{/ref}/x?ref={/ref}&k={upstream_key}", body)
		if got == "" {
			return
		}
		if strings.Count(got, "{upstream_key}") != 1 {
			t.Fatalf("a value holds a placeholder: %q", got)
		}
		u, err := url.Parse(strings.ReplaceAll(got, "{upstream_key}", "k"))
		if err != nil || strings.Count(u.EscapedPath(), "/") != 3 || len(u.Query()) != 2 || u.Fragment != "" {
			t.Fatalf("it asks for something else: %q, %v", got, err)
		}
	})
}
