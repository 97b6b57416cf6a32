package providers

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
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
	model   modelName
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
		s.ended(peek(data).Get("response"))
		s.whole, s.cut = true, kind == "response.incomplete"
		return verdict{kind: Content, done: true}
	case "response.failed", "response.cancelled":
		if !s.content && kind == "response.failed" {
			return verdict{fault: true}
		}
		s.ended(peek(data).Get("response"))
		return verdict{kind: Content, done: true}
	case "error":
		return verdict{fault: true}
	}
	s.content = true
	return verdict{kind: Content}
}

// ended reads what the last event says of the whole response.
func (s *responsesStream) ended(response gjson.Result) {
	if !response.IsObject() {
		return
	}
	response.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "usage":
			s.used.read(v)
		case "model":
			s.model.read(v)
		case "service_tier":
			s.used.tier(v)
		case "tool_usage":
			s.used.toolUse(v)
		}
		return true
	})
}

func (s *responsesStream) closed() (string, bool) { return "", s.whole }

func (s *responsesStream) end() End {
	return End{Whole: s.whole, Cut: s.cut, Model: string(s.model), Usage: s.used.sum(Responses)}
}
