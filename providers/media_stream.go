package providers

import (
	"bytes"
	"strings"
)

// mediaStream reads the streams of speech, transcriptions and images: typed
// events, of which one kind brings what was asked for.
type mediaStream struct {
	wire  Wire
	whole bool
	used  usage
}

func (s *mediaStream) event(name, data []byte) verdict {
	if bytes.Equal(bytes.TrimSpace(data), doneMark) {
		return verdict{kind: Preamble, done: true}
	}
	doc := peek(data)
	kind := doc.Get("type").Str
	if kind == "" {
		kind = string(name)
	}
	switch {
	case kind == "error", kind == "" && errorIn(doc):
		return verdict{fault: true}
	case kind == "speech.audio.done", kind == "transcript.text.done":
		s.used.read(doc.Get("usage"))
		s.whole = true
		return verdict{kind: Content, done: true}
	case strings.HasSuffix(kind, ".completed"):
		// image_generation.completed, image_edit.completed: one for each
		// image, so it is no end.
		var one usage
		one.read(doc.Get("usage"))
		s.used.add(one)
		s.whole = true
	}
	return verdict{kind: Content}
}

func (s *mediaStream) closed() (string, bool) { return "", s.whole }
func (s *mediaStream) end() End {
	return End{Whole: s.whole, Usage: s.used.sum(s.wire)}
}

// plainStream reads events of which nothing is known: they are whole when
// they come to a clean end.
type plainStream struct {
	clean bool
}

func (s *plainStream) event(_, _ []byte) verdict { return verdict{kind: Content} }

func (s *plainStream) closed() (string, bool) {
	s.clean = true
	return "", true
}

func (s *plainStream) end() End { return End{Whole: s.clean} }
