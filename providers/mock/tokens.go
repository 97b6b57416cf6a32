package mock

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// tokens counts text by the mock's rule: words are what whitespace parts, and
// a word is a token for every four characters begun. It is no tokenizer; it
// is a rule that whoever reads a test can follow with a pencil.
func tokens(text string) (n int) {
	for word := range strings.FieldsSeq(text) {
		n += (utf8.RuneCountInString(word) + 3) / 4
	}
	return n
}

// mediaTokens is what an image, a sound or a file in a prompt counts.
const mediaTokens = 85

// promptTokens counts a part of a prompt: the texts in it, each medium as
// mediaTokens. Names of members, roles and types are free.
func promptTokens(v gjson.Result) (n int) {
	switch {
	case v.IsArray():
		for _, e := range v.Array() {
			n += promptTokens(e)
		}
	case v.IsObject():
		switch v.Get("type").String() {
		case "image_url", "input_image", "image", "input_audio", "file", "input_file", "document":
			return mediaTokens
		}
		for _, name := range []string{"content", "text", "input", "output", "arguments", "refusal", "thinking"} {
			n += promptTokens(v.Get(name))
		}
		for _, call := range v.Get("tool_calls").Array() {
			n += tokens(call.Get("function.name").String()) + tokens(call.Get("function.arguments").String())
		}
		if v.Get("type").String() == "tool_use" {
			n += tokens(v.Get("name").String()) + tokens(v.Get("input").Raw)
		}
	case v.Type == gjson.String:
		n = tokens(v.String())
	case v.Type == gjson.Number: // a prompt may come as token numbers
		n = 1
	}
	return n
}

// words parts a text before each run of whitespace, so that the parts joined
// are the text.
func words(text string) (out []string) {
	start, inSpace := 0, true
	for i, r := range text {
		space := unicode.IsSpace(r)
		if space && !inSpace {
			out = append(out, text[start:i])
			start = i
		}
		inSpace = space
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}

// cutTokens keeps the words of a text that fit into limit tokens, and says
// whether that was not all.
func cutTokens(text string, limit int) (string, bool) {
	if limit <= 0 || tokens(text) <= limit {
		return text, false
	}
	var b strings.Builder
	left := limit
	for _, w := range words(text) {
		n := tokens(w)
		if n > left {
			if b.Len() == 0 {
				r := []rune(strings.TrimSpace(w))
				b.WriteString(string(r[:min(4*left, len(r))]))
			}
			break
		}
		b.WriteString(w)
		left -= n
	}
	return b.String(), true
}

// pieces parts a text into the chunks of a stream: a word each, or n of them.
func pieces(text string, n int) []string {
	out := words(text)
	if n <= 0 || len(out) <= n {
		return out
	}
	merged := make([]string, n)
	for i := range merged {
		merged[i] = strings.Join(out[i*len(out)/n:(i+1)*len(out)/n], "")
	}
	return merged
}

// fragments parts a tool's arguments as streams do, wherever it happens to be
// between characters: 16 bytes or so each, or n of them.
func fragments(s string, n int) (out []string) {
	size := 16
	if n > 0 {
		size = max((len(s)+n-1)/n, 1)
	}
	for len(s) > size {
		cut := size
		for cut < len(s) && !utf8.RuneStart(s[cut]) {
			cut++
		}
		out = append(out, s[:cut])
		s = s[cut:]
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}
