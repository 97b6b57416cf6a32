package mock

import (
	"bytes"
	"encoding/json"
)

// part says what an event is to the script's knobs.
type part uint8

const (
	preamble part = iota // before the content: sent whatever happens at chunk 0
	content              // a chunk
	tail                 // between the content and the finish
	finish               // says that the answer is finished
	usage                // the usage chunk of an OpenAI stream
	done                 // the end mark
)

// event is one server-sent event to be written.
type event struct {
	part   part
	name   string
	data   []byte
	tokens int // output tokens in it
	script *Event
}

// named is an event as Anthropic and the Responses API send it: the name is
// the data's own type.
func named(p part, v any) event {
	data := encode(v)
	var head struct {
		Type string `json:"type"`
	}
	json.Unmarshal(data, &head)
	return event{part: p, name: head.Type, data: data}
}

// encode is JSON without the escaping of <, > and & that would make an echo
// differ from what was said.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("mock: an answer of its own cannot be encoded: " + err.Error())
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// appendEvent writes an event by the WHATWG rules with the given line ending.
func appendEvent(b []byte, ev *event, eol string) []byte {
	name, id, data := ev.name, "", ev.data
	if s := ev.script; s != nil {
		if s.Raw != "" {
			return append(b, s.Raw...)
		}
		if s.Comment != "" {
			return append(append(append(append(b, ": "...), s.Comment...), eol...), eol...)
		}
		name, id = s.Name, s.ID
	}
	if name != "" {
		b = append(append(append(b, "event: "...), name...), eol...)
	}
	if id != "" {
		b = append(append(append(b, "id: "...), id...), eol...)
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		b = append(append(append(b, "data: "...), line...), eol...)
	}
	return append(b, eol...)
}

func (s *Step) eol() string {
	switch s.LineEnding {
	case "crlf":
		return "\r\n"
	case "cr":
		return "\r"
	}
	return "\n"
}
