package providers

import "strings"

// messagesStream reads Anthropic's messages: typed events from message_start
// to message_stop.
type messagesStream struct {
	whole bool
	cut   bool
	used  usage
	begun count // the output that message_start tells of: a beginning, no sum
	model modelName
}

func (s *messagesStream) event(name, data []byte) verdict {
	kind := string(name)
	if kind == "content_block_delta" {
		return verdict{kind: Content}
	}
	doc := peek(data)
	if kind == "" || kind == "message" {
		if kind = strings.Clone(doc.Get("type").Str); kind == "" && errorIn(doc) {
			return verdict{fault: true}
		}
	}
	switch kind {
	case "message_start":
		message := doc.Get("message")
		s.model.read(message.Get("model"))
		s.used.read(message.Get("usage"))
		s.begun, s.used.output = s.used.output, count{}
		return verdict{kind: Preamble}
	case "ping", "":
		return verdict{kind: Preamble}
	case "content_block_start":
		// An empty text or thought says nothing yet; a tool's name does.
		block := doc.Get("content_block")
		if t := block.Get("type").Str; (t == "text" || t == "thinking") && !says(block.Get(t)) {
			return verdict{kind: Preamble}
		}
		return verdict{kind: Content}
	case "message_delta":
		s.used.read(doc.Get("usage"))
		s.cut = s.cut || cutBy(doc.Get("delta.stop_reason").Str)
		return verdict{kind: Content}
	case "message_stop":
		s.whole = true
		return verdict{kind: Content, done: true}
	case "error":
		return verdict{fault: true}
	}
	return verdict{kind: Content}
}

func (s *messagesStream) closed() (string, bool) { return "", s.whole }

func (s *messagesStream) end() End {
	used := s.used
	if !s.whole && !used.output.set {
		used.output = s.begun
	}
	return End{Whole: s.whole, Cut: s.cut, Model: string(s.model), Usage: used.sum(Messages)}
}
