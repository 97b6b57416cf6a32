package mock

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// prompt is what the surfaces' ways of asking for text have in common.
type prompt struct {
	said      string // the last thing the user, or a tool, said
	afterTool bool   // a tool said it
	tools     []tool
	choice    string       // "" the model's own, "none", "required", or the name of the tool that must be called
	schema    gjson.Result // the answer must be JSON of this schema
	json      bool         // the answer must be JSON
	maxTokens int          // 0 is no limit
	n         int          // choices
	logprobs  bool
	input     int // tokens
}

// tool is a tool offered to the model.
type tool struct {
	name   string
	schema gjson.Result // of its arguments
}

// maxEcho bounds what of the last message is said back, in characters.
const maxEcho = 2000

// reply is what the mock says.
type reply struct {
	choices []choice
	usage   counted
}

// choice is one answer: text, or calls.
type choice struct {
	text   string
	pieces []string // text as it is streamed
	calls  []call
	cut    bool   // by the token limit
	finish string // the script's word for how it ended
}

type call struct {
	name, arguments string
}

// counted is what an answer used, in tokens.
type counted struct {
	input, output, cached, reasoning int
}

// answer decides what to say to a prompt.
func (p *prompt) answer(s *Step) *reply {
	r := &reply{usage: counted{input: p.input}}
	n := max(p.n, 1)
	if s.Choices > 0 {
		n = s.Choices
	}
	c := choice{calls: p.calls(s), finish: s.Finish}
	if len(c.calls) == 0 {
		c.text = p.text(s)
		for have := len(words(c.text)); have < s.Chunks; have++ {
			c.text += " word"
		}
		if s.Pad > 0 {
			c.text = strings.TrimLeft(c.text+" "+strings.Repeat("a", s.Pad), " ")
		}
		c.text, c.cut = cutTokens(c.text, p.maxTokens)
		c.pieces = pieces(c.text, s.Chunks)
	}
	out := tokens(c.text)
	for _, call := range c.calls {
		out += tokens(call.name) + tokens(call.arguments)
	}
	for range n {
		r.choices = append(r.choices, c)
		r.usage.output += out
	}
	r.usage.override(s.Usage)
	return r
}

func (c *counted) override(u *Usage) {
	if u == nil {
		return
	}
	if u.Input != nil {
		c.input = *u.Input
	}
	if u.Output != nil {
		c.output = *u.Output
	}
	c.cached, c.reasoning = u.Cached, u.Reasoning
}

func (p *prompt) text(s *Step) string {
	switch {
	case s.Text != "":
		return s.Text
	case p.schema.Exists():
		return string(example(p.schema))
	}
	said := p.said
	if r := []rune(said); len(r) > maxEcho {
		said = string(r[:maxEcho])
	}
	switch {
	case p.json:
		return string(encode(map[string]string{"answer": "You said: " + said}))
	case p.afterTool:
		return "The tool answered: " + said
	case said == "":
		return "You said nothing."
	default:
		return "You said: " + said
	}
}

// calls decides which tools to call: those of the script; else those that the
// user's words ask for, as in `call get_weather {"city":"Oslo"}`; else, where
// the request demands a call, the one it names or the first.
func (p *prompt) calls(s *Step) (out []call) {
	for _, c := range s.ToolCalls {
		args := string(c.Arguments)
		if args == "" {
			args = "{}"
		}
		out = append(out, call{c.Name, args})
	}
	if len(out) > 0 || p.choice == "none" || len(p.tools) == 0 || s.Text != "" {
		return out
	}
	if !p.afterTool {
		out = p.askedFor()
	}
	if len(out) > 0 || p.choice == "" {
		return out
	}
	chosen := p.tools[0]
	for _, t := range p.tools {
		if t.name == p.choice {
			chosen = t
		}
	}
	return []call{{chosen.name, string(example(chosen.schema))}}
}

func (p *prompt) askedFor() (out []call) {
	rest := p.said
	for {
		_, after, found := strings.Cut(rest, "call ")
		if !found {
			return out
		}
		rest = strings.TrimLeft(after, " ")
		for _, t := range p.tools {
			tail, ok := strings.CutPrefix(rest, t.name)
			if !ok || t.name == "" || tail != "" && nameByte(tail[0]) {
				continue
			}
			if p.choice != "" && p.choice != "required" && p.choice != t.name {
				continue
			}
			args := string(example(t.schema))
			d := json.NewDecoder(strings.NewReader(tail))
			var given json.RawMessage
			if strings.HasPrefix(strings.TrimSpace(tail), "{") && d.Decode(&given) == nil {
				args = string(given)
				tail = tail[d.InputOffset():]
			}
			out, rest = append(out, call{t.name, args}), tail
			break
		}
	}
}

func nameByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// example makes a small JSON value that fits a schema: every required member,
// the first of an enum, a fixed text or number elsewhere. It knows type,
// enum, const, properties, required, items, minItems, anyOf, oneOf, allOf and
// local $ref, which is what SDKs make of a user's types.
func example(schema gjson.Result) []byte {
	return appendExample(nil, schema, schema, 0)
}

func appendExample(b []byte, s, root gjson.Result, depth int) []byte {
	if depth > 16 { // a schema that holds itself
		return append(b, "null"...)
	}
	if ref := s.Get("$ref").String(); strings.HasPrefix(ref, "#/") {
		target := root
		for name := range strings.SplitSeq(ref[2:], "/") {
			target = member(target, name)
		}
		return appendExample(b, target, root, depth+1)
	}
	if v := s.Get("const"); v.Exists() {
		return append(b, v.Raw...)
	}
	if v := s.Get("enum.0"); v.Exists() {
		return append(b, v.Raw...)
	}
	for _, some := range []string{"anyOf", "oneOf", "allOf"} {
		if v := s.Get(some + ".0"); v.Exists() && !s.Get("properties").Exists() {
			return appendExample(b, v, root, depth+1)
		}
	}
	kind := s.Get("type")
	name := kind.String()
	if kind.IsArray() {
		name = kind.Get("0").String()
	}
	switch name {
	case "string":
		return append(b, `"text"`...)
	case "integer", "number":
		if v := s.Get("minimum"); v.Exists() {
			return append(b, v.Raw...)
		}
		return append(b, '1')
	case "boolean":
		return append(b, "true"...)
	case "null":
		return append(b, "null"...)
	case "array":
		b = append(b, '[')
		for i := range min(s.Get("minItems").Int(), 16) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendExample(b, s.Get("items"), root, depth+1)
		}
		return append(b, ']')
	}
	b = append(b, '{')
	first := true
	s.Get("properties").ForEach(func(key, v gjson.Result) bool {
		for _, r := range s.Get("required").Array() {
			if r.String() != key.String() {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(append(b, key.Raw...), ':')
			b = appendExample(b, v, root, depth+1)
			break
		}
		return true
	})
	return append(b, '}')
}

// member looks a name up as it is, whatever characters it has.
func member(v gjson.Result, name string) (found gjson.Result) {
	v.ForEach(func(key, value gjson.Result) bool {
		if key.String() == name {
			found = value
			return false
		}
		return true
	})
	return found
}
