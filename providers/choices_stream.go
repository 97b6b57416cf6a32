package providers

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// choicesStream reads chat completions and completions: chunks with choices,
// each of which ends with its finish_reason, then [DONE].
type choicesStream struct {
	wire           Wire
	seen, finished choiceSet
	cut            bool
	used           usage
	model          modelName
	last           shape
}

var doneMark = []byte("[DONE]")

const doneEvent = "data: [DONE]\n\n"

func (s *choicesStream) event(_, data []byte) verdict {
	if s.last.fits(data) {
		return verdict{kind: Content}
	}
	if bytes.Equal(bytes.TrimSpace(data), doneMark) {
		return verdict{kind: Preamble, done: true}
	}
	doc := peek(data)
	if !doc.IsObject() {
		return verdict{kind: Content}
	}
	var choices, usage, acts, fault bool
	ends := false
	doc.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "error":
			fault = says(v)
		case "object":
			fault = fault || v.Str == "error"
		case "usage":
			if usage = v.IsObject(); usage {
				s.used.read(v)
			}
		case "model":
			s.model.read(v)
		case "service_tier":
			s.used.tier(v)
		case "choices":
			if !v.IsArray() {
				break
			}
			at := 0
			v.ForEach(func(_, choice gjson.Result) bool {
				choices = true
				a, e := s.choice(choice, at)
				acts, ends = acts || a, ends || e
				at++
				return true
			})
		}
		return !fault
	})
	switch {
	case fault:
		return verdict{fault: true}
	case acts || ends:
		if !ends && !usage {
			s.last.learn(data)
		}
		return verdict{kind: Content}
	case choices && usage:
		return verdict{kind: Content}
	case usage:
		return verdict{kind: Usage}
	default:
		return verdict{kind: Preamble} // a role, an empty text, Azure's filter results
	}
}

// choice notes one choice of a chunk: whether it says something to act upon,
// and whether it ends there.
func (s *choicesStream) choice(choice gjson.Result, at int) (acts, ends bool) {
	choice.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "index":
			at = int(v.Int())
		case "finish_reason":
			if v.Type == gjson.String && v.Str != "" {
				ends = true
				s.cut = s.cut || cutBy(v.Str)
			}
		case "delta", "message":
			if !v.IsObject() {
				break
			}
			v.ForEach(func(k, v gjson.Result) bool {
				acts = acts || k.Str != "role" && says(v)
				return !acts
			})
		case "text":
			acts = acts || says(v)
		}
		return true
	})
	s.seen.add(at)
	if ends {
		s.finished.add(at)
	}
	return acts, ends
}

// closed: a stream in which each choice has its finish is complete, and gets
// the [DONE] that it lacks.
func (s *choicesStream) closed() (string, bool) { return doneEvent, s.complete() }

func (s *choicesStream) complete() bool { return s.finished.n > 0 && s.finished.n == s.seen.n }

func (s *choicesStream) end() End {
	return End{Whole: s.complete(), Cut: s.cut, Model: string(s.model), Usage: s.used.sum(s.wire)}
}

// choiceSet is a set of choice indices.
type choiceSet struct {
	low  uint64
	high map[int]bool
	n    int
}

func (c *choiceSet) add(i int) {
	if i >= 0 && i < 64 {
		if c.low&(1<<i) == 0 {
			c.low |= 1 << i
			c.n++
		}
		return
	}
	if !c.high[i] {
		if c.high == nil {
			c.high = map[int]bool{}
		}
		c.high[i] = true
		c.n++
	}
}

// shape is a content chunk less its text. Nearly all chunks of a stream are
// alike but for their text, and what was found of one holds for the others:
// this spares reading each as JSON.
type shape struct {
	head, tail []byte
}

var contentMark = []byte(`"content":"`)

// learn takes the shape of a chunk that has content and ends nothing.
func (s *shape) learn(data []byte) {
	s.head, s.tail = s.head[:0], s.tail[:0]
	i := bytes.Index(data, contentMark)
	if i < 0 {
		return
	}
	i += len(contentMark)
	end := bytes.IndexByte(data[i:], '"')
	if end <= 0 || bytes.IndexByte(data[i:i+end], '\\') >= 0 {
		return
	}
	s.head = append(s.head, data[:i]...)
	s.tail = append(s.tail, data[i+end:]...)
}

// fits reports whether data is the learned chunk with another text. A text
// that holds a quote or ends with a backslash is left to the JSON reader.
func (s *shape) fits(data []byte) bool {
	if len(s.head) == 0 || len(data) <= len(s.head)+len(s.tail) ||
		!bytes.HasPrefix(data, s.head) || !bytes.HasSuffix(data, s.tail) {
		return false
	}
	text := data[len(s.head) : len(data)-len(s.tail)]
	return text[len(text)-1] != '\\' && bytes.IndexByte(text, '"') < 0
}
