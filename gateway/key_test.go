package gateway

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"oncegate/cache"
)

func testCall(t testing.TB, body string, change func(*call)) *call {
	t.Helper()
	g := &Gateway{documents: newDocuments()}
	setDefaults(&g.opt)
	c := &call{op: &operations[0], who: principal{secret: []byte("s")}}
	c.up.Body = []byte(body)
	if change != nil {
		change(c)
	}
	d, refused := g.document(c)
	if refused != nil {
		t.Fatalf("%s: %s", body, refused.message)
	}
	c.body = d
	g.setKey(c, http.Header{})
	return c
}

func keyOf(t testing.TB, body string) cache.Key { return testCall(t, body, nil).key }

func TestDerivedKeyIgnoresNoise(t *testing.T) {
	base := keyOf(t, `{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0}`)
	for _, same := range []string{
		`{ "model" : "m", "messages" : [ {"role":"user","content":"hi"} ], "temperature": 0 }`,
		`{"temperature":0,"messages":[{"content":"hi","role":"user"}],"model":"m"}`,
		`{"model":"m","messages":[{"role":"user","content":"\u0068i"}],"temperature":0}`,
	} {
		if keyOf(t, same) != base {
			t.Errorf("%s has another key", same)
		}
	}
}

func TestDerivedKeyTellsApart(t *testing.T) {
	bodies := []string{
		`{"model":"m"}`, `{"model":"m","temperature":0}`, `{"model":"m","temperature":null}`, `{"model":"m","temperature":"0"}`,
		`{"model":"m","seed":9007199254740993}`, `{"model":"m","seed":9007199254740992}`, `{"model":"m","seed":1.0}`, `{"model":"m","seed":1}`,
		`{"model":"m","stream":true}`, `{"model":"m","stream":false}`,
		`{"model":"m","stop":"x"}`, `{"model":"m","stop":["x"]}`,
		`{"model":"m","tools":[{"a":1,"b":2}]}`, `{"model":"m","tools":[{"b":2,"a":1}]}`,
		`{"model":"m","text":{"a":1,"b":2}}`, `{"model":"m","text":{"b":2,"a":1}}`,
		`{"model":"m","x":{"a":1,"a":2}}`, `{"model":"m","x":{"a":2}}`,
		`{"model":"m","x":"\ud800"}`, `{"model":"m","x":"\ufffd"}`,
		`{"model":"m","MODEL":"n"}`,
		`{"model":"m","\ud800":1}`, `{"model":"m","\ud801":1}`, `{"model":"m","\ufffd":1}`, "{\"model\":\"m\",\"\xff\":1}", "{\"model\":\"m\",\"\xfe\":1}",
	}
	seen := map[cache.Key]string{}
	for _, b := range bodies {
		k := keyOf(t, b)
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s share a key", b, other)
		}
		seen[k] = b
	}
}

func TestFingerprintOfAnExplicitKeyIgnoresOrderEverywhere(t *testing.T) {
	explicit := func(c *call) { c.ownKey = "k" }
	a := testCall(t, `{"model":"m","tools":[{"a":1,"b":2}]}`, explicit)
	b := testCall(t, `{"tools":[{"b":2,"a":1}],"model":"m"}`, explicit)
	if a.key != b.key || a.fingerprint != b.fingerprint {
		t.Error("the same call in another order is refused")
	}
	if c := testCall(t, `{"model":"m","tools":[{"a":1,"b":3}]}`, explicit); c.key != a.key || c.fingerprint == a.fingerprint {
		t.Error("another call under the same key is not told apart")
	}
}

func TestKeysNeverCrossPrincipals(t *testing.T) {
	as := func(secret, user string) cache.Key {
		return testCall(t, `{"model":"m"}`, func(c *call) { c.who.secret, c.user = []byte(secret), user }).key
	}
	if as("a", "") == as("b", "") {
		t.Error("two principals share a key")
	}
	if as("a", "bc") == as("ab", "c") {
		t.Error("concatenations collide")
	}
	same := func(secret string) cache.Key {
		return testCall(t, `{"model":"m"}`, func(c *call) { c.who.secret, c.ownKey = []byte(secret), "k" }).key
	}
	if same("a") == same("b") {
		t.Error("two principals share an explicit key")
	}
}

func TestIgnoredPointersStayOutOfDerivedKeys(t *testing.T) {
	g := &Gateway{documents: newDocuments()}
	setDefaults(&g.opt)
	g.opt.Dedupe.Ignore = []string{"/metadata/trace_id", "/a~1b"}
	key := func(body string) cache.Key {
		c := &call{op: &operations[0], who: principal{secret: []byte("s")}}
		c.up.Body = []byte(body)
		d, _ := g.document(c)
		c.body = d
		g.setKey(c, http.Header{})
		return c.key
	}
	a := key(`{"model":"m","metadata":{"trace_id":"1","x":1},"a/b":1}`)
	if key(`{"model":"m","metadata":{"trace_id":"2","x":1},"a/b":2}`) != a {
		t.Error("what is ignored changes the key")
	}
	if key(`{"model":"m","metadata":{"trace_id":"2","x":2}}`) == a {
		t.Error("what is not ignored does not change the key")
	}
}

func TestMultipartIsKeyedByItsParts(t *testing.T) {
	form := func(boundary, model string) *call {
		body := strings.ReplaceAll("--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"+model+
			"\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n--B--\r\n", "B", boundary)
		g := &Gateway{documents: newDocuments()}
		setDefaults(&g.opt)
		c := &call{op: &operation{name: "transcriptions", form: true}, who: principal{secret: []byte("s")}}
		c.up.Body, c.up.ContentType = []byte(body), "multipart/form-data; boundary="+boundary
		d, refused := g.document(c)
		if refused != nil {
			t.Fatal(refused.message)
		}
		c.body = d
		g.setKey(c, http.Header{})
		return c
	}
	if form("xx", "whisper").key != form("yy", "whisper").key {
		t.Error("a new boundary makes a new key")
	}
	if form("xx", "whisper").key == form("xx", "other").key {
		t.Error("another part makes no new key")
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{`k`, `"k"`, `"a\"b";p=1`, `"`, ``, "\x7f", `"a b"`, strings.Repeat("k", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, why := parseIdempotencyKey(line)
		if why != "" {
			if key != "" {
				t.Fatalf("refused %q and gave %q", line, key)
			}
			return
		}
		if key == "" || len(key) > 255 {
			t.Fatalf("%q gave a key of %d characters", line, len(key))
		}
		for i := range len(key) {
			if key[i] <= ' ' || key[i] >= 0x7f {
				t.Fatalf("%q gave %q", line, key)
			}
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"model":"m"}`, `{"model":"m","model":"n"}`, `[]`, `{`, `{"model":1}`, `{"a":{"a":[1,2,{}]},"stream":true,"model":"x"} x`} {
		f.Add([]byte(s))
	}
	g := &Gateway{documents: newDocuments()}
	setDefaults(&g.opt)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		c := &call{op: &operations[0], who: principal{secret: []byte("s")}}
		c.up.Body = body
		d, refused := g.document(c)
		if refused != nil {
			if refused.status != 400 {
				t.Fatalf("status %d", refused.status)
			}
			return
		}
		c.body = d
		g.setKey(c, http.Header{})
		first := c.key
		g.documents = newDocuments()
		if d, refused = g.document(c); refused != nil {
			t.Fatal("understood once only")
		}
		c.body = d
		g.setKey(c, http.Header{})
		if first != c.key {
			t.Fatal("the key is not stable")
		}
		if string(body) != before {
			t.Fatal("the body was changed")
		}
	})
}

// FuzzCanonical: what the library for canonical JSON makes one value of, we do
// too, and what it tells apart or refuses we tell apart and refuse.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"b":[1,{"z":"\u0061","y":{}}],"a":1.0}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":1},"c":2}`, `"\ud800"`, "\"\xff\"", `[ ]`,
		`{"é":1,"e":2,"\u00e9x":[]}`, `"\/\n\u2028<"`, `-0`, `1e400`, `[1,]`, `{"a"}`, `[}`, `{"a":1,}`, "\"a\tb\"", `{"":{"":{"":0}}}`,
	} {
		f.Add([]byte(s))
	}
	canonical := func(b []byte) (text string, ok bool) {
		r := newJSONReader(b)
		defer r.release()
		if r.value(false) != nil {
			return "", false
		}
		_, err := r.dec.ReadToken()
		return string(r.text), err == io.EOF && !r.odd
	}
	numbers := []jsontext.Options{jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, ok := canonical(b)
		theirs := jsontext.Value(bytes.Clone(b))
		refused := theirs.Canonicalize(numbers...)
		if ok != (refused == nil) {
			t.Fatalf("%q: %v, and the library says %v", b, ok, refused)
		}
		if !ok {
			return
		}
		if again, _ := canonical(theirs); again != text {
			t.Fatalf("%q is %q, and its canonical form %q", b, text, again)
		}
		ours := jsontext.Value(text)
		if err := ours.Canonicalize(numbers...); err != nil || string(ours) != string(theirs) {
			t.Fatalf("%q is %q, which means something else: %v", b, text, err)
		}
	})
}

func FuzzParseForm(f *testing.F) {
	f.Add("multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		d, refused := parseForm(contentType, body)
		if refused == nil && d.digest == [32]byte{} {
			t.Fatal("accepted without a digest")
		}
	})
}
