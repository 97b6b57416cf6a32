package providers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

func body(t *testing.T, c *Call, model string) string {
	t.Helper()
	r, err := New(Options{Name: "up", BaseURL: "http://up"})
	if err != nil {
		t.Fatal(err)
	}
	before := string(c.Body)
	got := string(r.upstreamBody(c, model))
	if string(c.Body) != before {
		t.Fatal("the call's own body was changed")
	}
	return got
}

// B018-B023: one value changes, nothing else.
func TestRenameModel(t *testing.T) {
	for _, c := range []struct{ in, model, want string }{
		{`{"model":"m1","x":1}`, "m2", `{"model":"m2","x":1}`},
		{` { "a" : 9007199254740993 , "model" :  "m1" , "n":1.0,"z":-0,"e":1e-7, "u":"\u0068<&", "null":null } `, "m2",
			` { "a" : 9007199254740993 , "model" :  "m2" , "n":1.0,"z":-0,"e":1e-7, "u":"\u0068<&", "null":null } `},
		{`{"metadata":{"model":"x"},"MODEL":"dear","model":"m1"}`, "m2", `{"metadata":{"model":"x"},"MODEL":"dear","model":"m2"}`},
		{`{"model":"m1"}`, "a\"b\\c/<d>", `{"model":"a\"b\\c/<d>"}`},
		{`{"model":"m1"}`, "m1", `{"model":"m1"}`},
		{`{"model":"m1"}`, "", `{"model":"m1"}`},
		{`{"model":7}`, "m2", `{"model":7}`},
		{`[{"model":"m1"}]`, "m2", `[{"model":"m1"}]`},
		{`not json`, "m2", `not json`},
		{`{}`, "m2", `{}`},
	} {
		if got := body(t, call(Embeddings, c.in), c.model); got != c.want {
			t.Errorf("%s as %q: %s, want %s", c.in, c.model, got, c.want)
		}
	}
}

// B028: usage is asked for where the client did not.
func TestAskUsage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"model":"m1","stream":true}`, `{"model":"m1","stream":true,"stream_options":{"include_usage":true}}`},
		{"{\"stream\":true\n}\n", "{\"stream\":true\n,\"stream_options\":{\"include_usage\":true}}\n"},
		{`{"stream":true,"stream_options":null}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"stream":true,"stream_options":{}}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"stream":true,"stream_options":{"x":1}}`, `{"stream":true,"stream_options":{"include_usage":true,"x":1}}`},
		{`{"stream_options":{"x":1,"include_usage":false},"stream":true}`, `{"stream_options":{"x":1,"include_usage":true},"stream":true}`},
		{`{"stream_options":{"include_usage":null},"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{`{"stream":true,"stream_options":{"include_usage":true}}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{`{"str\u0065am_options":{"include_usage":true},"stream":true}`, `{"str\u0065am_options":{"include_usage":true},"stream":true}`},
		{`{"stream":true,"x":"caf\u00e9"}`, `{"stream":true,"x":"caf\u00e9","stream_options":{"include_usage":true}}`},
		{`{"stream":true,"stream_options":"x"}`, `{"stream":true,"stream_options":"x"}`},
		{`{"stream":true,"metadata":{"stream_options":{"include_usage":true}}}`, `{"stream":true,"metadata":{"stream_options":{"include_usage":true}},"stream_options":{"include_usage":true}}`},
	} {
		k := call(Chat, c.in)
		k.Stream = true
		if got := body(t, k, ""); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
	for _, w := range []Wire{Responses, Messages, Speech, Raw} {
		if got := body(t, call(w, `{"stream":true}`), ""); got != `{"stream":true}` {
			t.Errorf("wire %d: %s", w, got)
		}
	}
	if got := body(t, call(Chat, `{"stream":false}`), ""); got != `{"stream":false}` {
		t.Error(got)
	}
	r, _ := New(Options{BaseURL: "http://up", StreamUsage: LeaveUsage})
	if got := r.upstreamBody(call(Chat, `{"stream":true}`), ""); string(got) != `{"stream":true}` {
		t.Errorf("leave: %s", got)
	}
}

func TestBothEdits(t *testing.T) {
	for in, want := range map[string]string{
		`{"stream":true,"model":"m1","z":0}`:                                    `{"stream":true,"model":"m2","z":0,"stream_options":{"include_usage":true}}`,
		`{"stream":true,"stream_options":{"a":1},"model":"m1"}`:                 `{"stream":true,"stream_options":{"include_usage":true,"a":1},"model":"m2"}`,
		`{"stream":true,"stream_options":{"include_usage":false},"model":"m1"}`: `{"stream":true,"stream_options":{"include_usage":true},"model":"m2"}`,
	} {
		if got := body(t, call(Chat, in), "m2"); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzEdits(f *testing.F) {
	f.Add(`{"model":"m1","stream":true,"stream_options":{"include_usage":false,"x":[1]},"n":9007199254740993}`, "m2")
	f.Add(`{"a":{"model":"m1"},"m\u006fdel":"m1","z":1}`, "\u00e9\"")
	f.Add(`{"m\u006fdel""}"`, "\u00e9") // no JSON: its edits are in each other
	f.Fuzz(func(t *testing.T, in, model string) {
		c := &Call{Wire: Chat, Stream: true, Body: []byte(in), Model: "-"}
		r := &Relay{askUsage: true}
		out := string(r.upstreamBody(c, model))
		if !json.Valid([]byte(in)) || !isRoot([]byte(in)) {
			return
		}
		if !json.Valid([]byte(out)) {
			t.Fatalf("%s became %s", in, out)
		}
		// All members but the two are the same text in the same order.
		members := func(s string) (all []string) {
			gjson.Parse(s).ForEach(func(k, v gjson.Result) bool {
				if k.String() != "model" && k.String() != "stream_options" {
					all = append(all, k.Raw+v.Raw)
				}
				return true
			})
			return all
		}
		if a, b := members(in), members(out); !reflect.DeepEqual(a, b) {
			t.Fatalf("%s became %s", in, out)
		}
		if v := gjson.Get(in, "model"); v.Type == gjson.String && model != "" && utf8.ValidString(model) {
			if got := gjson.Get(out, "model").String(); got != model {
				t.Fatalf("model is %q, not %q, in %s", got, model, out)
			}
		}
		if o := gjson.Get(in, "stream_options"); !o.Exists() && !gjson.Get(out, "stream_options.include_usage").Bool() {
			t.Fatalf("usage is not asked for in %s", out)
		}
	})
}

func TestRenameMultipart(t *testing.T) {
	form := func(model string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		w.SetBoundary("bound--ary")
		p, _ := w.CreateFormFile("file", "model.wav")
		io.WriteString(p, "RIFF\r\n--bound\r\nname=\"model\"\r\n\r\nm1\r\n\x00\xff")
		w.WriteField("language", "m1")
		w.WriteField("model", model)
		w.WriteField("prompt", "")
		w.Close()
		return b.String(), w.FormDataContentType()
	}
	in, contentType := form("m1")
	want, _ := form("whisper-large-v3")
	c := call(Transcriptions, in)
	c.ContentType = contentType
	if got := body(t, c, "whisper-large-v3"); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := body(t, c, "m1"); got != in {
		t.Errorf("changed without need: %q", got)
	}
	_, params, _ := mime.ParseMediaType(contentType)
	for name, c := range map[string]struct{ in, want string }{
		"first part":       {"--%[1]s\r\nContent-Disposition: form-data; name=model\r\n\r\nm1\r\n--%[1]s--\r\n", "--%[1]s\r\nContent-Disposition: form-data; name=model\r\n\r\nm2\r\n--%[1]s--\r\n"},
		"preamble":         {"pre\r\n--%[1]s\r\nX: y\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n\r\n--%[1]s--", "pre\r\n--%[1]s\r\nX: y\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm2\r\n--%[1]s--"},
		"no headers":       {"--%[1]s\r\n\r\nx\r\n--%[1]s--", "--%[1]s\r\n\r\nx\r\n--%[1]s--"},
		"cut":              {"--%[1]s\r\nContent-Disposition: form-data; name=model\r\n\r\nm1", "--%[1]s\r\nContent-Disposition: form-data; name=model\r\n\r\nm1"},
		"cut in a header":  {"--%[1]s\r\nContent-Disp", "--%[1]s\r\nContent-Disp"},
		"another boundary": {"--x\r\n\r\n--x--", "--x\r\n\r\n--x--"},
		"empty":            {"", ""},
	} {
		in, want := fmt.Sprintf(strings.ReplaceAll(c.in, "%[1]s", "%[1]s"), params["boundary"]), fmt.Sprintf(c.want, params["boundary"])
		if c.in == "" {
			in, want = "", ""
		}
		if name == "another boundary" {
			in, want = c.in, c.want
		}
		if got := string(renameMultipart([]byte(in), contentType, "m2")); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func FuzzRenameMultipart(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=model\r\n\r\nm1\r\n--b--\r\n"))
	f.Add([]byte("--b\r\n\r\n\r\n--b\r\n--b\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		out := renameMultipart(in, "multipart/form-data; boundary=b", "m2")
		if bytes.Equal(in, out) {
			return
		}
		// One stretch was replaced by m2.
		start := 0
		for start < len(in) && start < len(out) && in[start] == out[start] {
			start++
		}
		end := 0
		for end < len(in)-start && end < len(out)-start && in[len(in)-1-end] == out[len(out)-1-end] {
			end++
		}
		if changed := out[start : len(out)-end]; !bytes.Contains([]byte("m2"), changed) {
			t.Fatalf("%q became %q", in, out)
		}
	})
}
