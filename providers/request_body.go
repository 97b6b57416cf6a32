package providers

import (
	"bytes"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// edit replaces body[at:to] by text.
type edit struct {
	at, to int
	text   []byte
}

// upstreamBody is the call's body as the upstream gets it: the model renamed,
// a stream asked for its usage, and every other byte as the client sent it.
// Where nothing is to change, or the body is not what it is taken for, it is
// the call's own.
func (r *Relay) upstreamBody(c *Call, model string) []byte {
	rename := model != "" && model != c.Model
	ask := r.askUsage && c.Stream && (c.Wire == Chat || c.Wire == Completions)
	if !rename && !ask || len(c.Body) == 0 {
		return c.Body
	}
	if strings.HasPrefix(c.ContentType, "multipart/") {
		if rename {
			return renameMultipart(c.Body, c.ContentType, model)
		}
		return c.Body
	}
	var edits [2]edit
	n := 0
	if rename {
		if e, ok := renameModel(c.Body, model); ok {
			edits[n] = e
			n++
		}
	}
	if ask {
		if e, ok := askUsage(c.Body); ok {
			edits[n] = e
			n++
		}
	}
	if n == 2 && edits[1].at < edits[0].at {
		edits[0], edits[1] = edits[1], edits[0]
	}
	if n == 2 && edits[1].at < edits[0].to { // in each other: it is not the JSON it is taken for
		return c.Body
	}
	return apply(c.Body, edits[:n])
}

// apply makes edits, in order and apart from each other, on a copy.
func apply(body []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return body
	}
	size := len(body)
	for _, e := range edits {
		size += len(e.text) - (e.to - e.at)
	}
	out := make([]byte, 0, size)
	last := 0
	for _, e := range edits {
		out = append(out, body[last:e.at]...)
		out = append(out, e.text...)
		last = e.to
	}
	return append(out, body[last:]...)
}

// renameModel finds the top-level member that is named exactly "model", and
// what to put there. (Two such members are refused before a call is made.)
func renameModel(body []byte, model string) (edit, bool) {
	v := gjson.GetBytes(body, "model")
	if v.Type != gjson.String || v.String() == model || !holds(body, v) || !isRoot(body) {
		return edit{}, false
	}
	if !utf8.ValidString(model) {
		return edit{}, false
	}
	quoted, err := jsontext.AppendQuote(nil, model)
	if err != nil {
		return edit{}, false
	}
	return edit{at: v.Index, to: v.Index + len(v.Raw), text: quoted}, true
}

// askUsage sets stream_options.include_usage where the client did not.
func askUsage(body []byte) (edit, bool) {
	if !isRoot(body) {
		return edit{}, false
	}
	const option = `"include_usage":true`
	var options gjson.Result
	// Mostly it is not there, which shows faster than JSON is read: its name
	// may be written with escapes only if there are some of ASCII characters.
	if bytes.Contains(body, []byte("stream_options")) || bytes.Contains(body, []byte(`\u00`)) {
		options = gjson.GetBytes(body, "stream_options")
	}
	if !options.Exists() {
		end := bytes.LastIndexByte(body, '}')
		if end < 0 {
			return edit{}, false
		}
		text := `,"stream_options":{` + option + `}`
		if before := bytes.TrimRight(body[:end], " \t\r\n"); len(before) > 0 && before[len(before)-1] == '{' {
			text = text[1:]
		}
		return edit{at: end, to: end, text: []byte(text)}, true
	}
	if !holds(body, options) {
		return edit{}, false
	}
	at := options.Index
	switch {
	case options.Type == gjson.Null:
		return edit{at: at, to: at + len(options.Raw), text: []byte("{" + option + "}")}, true
	case !options.IsObject():
		return edit{}, false // not ours to mend: the upstream says what is wrong
	}
	asked := options.Get("include_usage")
	switch {
	case asked.Type == gjson.True:
		return edit{}, false
	case asked.Exists():
		if !holds(body, asked) {
			return edit{}, false
		}
		return edit{at: asked.Index, to: asked.Index + len(asked.Raw), text: []byte("true")}, true
	case says(options):
		return edit{at: at + 1, to: at + 1, text: []byte(option + ",")}, true
	default:
		return edit{at: at + 1, to: at + 1, text: []byte(option)}, true
	}
}

// holds reports whether v's place in body is known.
func holds(body []byte, v gjson.Result) bool {
	return v.Index > 0 && v.Index+len(v.Raw) <= len(body) && string(body[v.Index:v.Index+len(v.Raw)]) == v.Raw
}

// isRoot reports whether body is an object, as far as its first byte tells.
func isRoot(body []byte) bool {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// renameMultipart rewrites the value of the part named "model", and nothing
// else: the parts keep their order, their headers and the boundary.
func renameMultipart(body []byte, contentType, model string) []byte {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return body
	}
	delimiter := []byte("\r\n--" + params["boundary"])
	// The first delimiter has no line break before it when there is no preamble.
	at := 0
	if !bytes.HasPrefix(body, delimiter[2:]) {
		i := bytes.Index(body, delimiter)
		if i < 0 {
			return body
		}
		at = i + 2
	}
	for {
		line := bytes.IndexByte(body[at:], '\n') // the rest of the delimiter's own line
		if line < 0 || bytes.HasPrefix(body[at+len(delimiter)-2:], []byte("--")) {
			return body
		}
		at += line + 1
		head, value := 0, 0
		if bytes.HasPrefix(body[at:], []byte("\r\n")) { // a part without headers
			head, value = at, at+2
		} else {
			i := bytes.Index(body[at:], []byte("\r\n\r\n"))
			if i < 0 {
				return body
			}
			head, value = at+i, at+i+4
		}
		end := bytes.Index(body[value-2:], delimiter)
		if end < 0 {
			return body
		}
		end += value - 2
		if partName(body[at:head]) == "model" {
			if end < value || string(body[value:end]) == model {
				return body
			}
			return apply(body, []edit{{at: value, to: end, text: []byte(model)}})
		}
		at = end + 2
	}
}

// partName is the name in a part's Content-Disposition.
func partName(head []byte) string {
	for line := range strings.SplitSeq(string(head), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Disposition") {
			continue
		}
		if _, params, err := mime.ParseMediaType(value); err == nil {
			return params["name"]
		}
	}
	return ""
}
