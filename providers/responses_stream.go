package providers

import (
	"bytes"
	"strings"
)

// responsesStream reads OpenAI's responses: typed events, ended by one of
// three.
//
// response.failed is an error as long as nothing was given out; after content
// it is relayed as the operation's own end, for its readers know it, and the
// answer is not whole.
type responsesStream struct {
	content bool
	whole   bool
	cut     bool
	used    usage
}

func (s *responsesStream) event(name, data []byte) verdict {
	if bytes.Equal(bytes.TrimSpace(data), doneMark) {
		return verdict{kind: Preamble, done: true}
	}
	kind := string(name)
	if kind == "" || kind == "message" {
		doc := peek(data)
		if kind = strings.Clone(doc.Get("type").Str); kind == "" && errorIn(doc) {
			return verdict{fault: true}
		}
	}
	switch kind {
	case "response.created", "response.in_progress", "response.queued", "ping", "keepalive":
		return verdict{kind: Preamble}
	case "response.completed", "response.incomplete":
		response := peek(data).Get("response")
		s.used.read(response.Get("usage"))
		s.whole, s.cut = true, kind == "response.incomplete"
		return verdict{kind: Content, done: true}
	case "response.failed", "response.cancelled":
		if !s.content && kind == "response.failed" {
			return verdict{fault: true}
		}
		s.used.read(peek(data).Get("response.usage"))
		return verdict{kind: Content, done: true}
	case "error":
		return verdict{fault: true}
	}
	s.content = true
	return verdict{kind: Content}
}

func (s *responsesStream) closed() (string, bool) { return "", s.whole }

func (s *responsesStream) end() End {
	return End{Whole: s.whole, Cut: s.cut, Usage: s.used.tokens()}
}
