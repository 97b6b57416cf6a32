package mock

import (
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// operation is one call of the two APIs, or the write API.
type operation struct {
	suffix      string // of the path, whatever the base URL is
	method      string // "" is GET or POST
	billed      bool   // a provider charges for it
	namedEvents bool   // its events carry their type as the event's name
	answer      func(*http.Request, *ask, *Step) (answer, *Fault)
}

// operations in the order in which their suffixes are tried.
var operations = []*operation{
	{suffix: "/chat/completions", method: "POST", billed: true, answer: chat},
	{suffix: "/completions", method: "POST", billed: true, answer: completions},
	{suffix: "/responses", method: "POST", billed: true, namedEvents: true, answer: responses},
	{suffix: "/messages/count_tokens", method: "POST", answer: countTokens},
	{suffix: "/messages", method: "POST", billed: true, namedEvents: true, answer: messages},
	{suffix: "/embeddings", method: "POST", billed: true, answer: embeddings},
	{suffix: "/moderations", method: "POST", answer: moderations},
	{suffix: "/images/generations", method: "POST", billed: true, answer: images},
	{suffix: "/audio/speech", method: "POST", billed: true, answer: speech},
	{suffix: "/audio/transcriptions", method: "POST", billed: true, answer: transcriptions},
	{suffix: "/rerank", method: "POST", billed: true, answer: rerank},
	{suffix: "/models", method: "GET"},
}

// modelsOperation is answered by the Mock itself, which knows its models.
var modelsOperation = operations[len(operations)-1]

func operationOf(path string) *operation {
	path = strings.TrimSuffix(path, "/")
	for _, op := range operations {
		if strings.HasSuffix(path, op.suffix) {
			return op
		}
	}
	if strings.Contains(path, "/models/") { // an id may hold slashes
		return modelsOperation
	}
	if strings.HasSuffix(path, paymentsOperation.suffix) || strings.Contains(path, paymentsOperation.suffix+"/") {
		return paymentsOperation
	}
	return nil
}

func (op *operation) allows(method string) bool {
	return method == op.method || method == http.MethodHead && op.method == http.MethodGet
}

// newID makes an id that no other call has, in the shape of the prefix's kind.
func newID(prefix string) string {
	return prefix + strings.ReplaceAll(uuid.NewString(), "-", "")
}

// whole is an answer that does not stream.
func whole(v any, u counted) answer {
	return answer{contentType: "application/json", body: encode(v), usage: u}
}

// streamed is an answer that does.
func streamed(events []event, u counted) answer {
	return answer{contentType: "text/event-stream; charset=utf-8", events: events, streams: true, usage: u}
}
