package gateway

import (
	"oncegate/cache"
	"oncegate/providers"
)

// surface says in whose shape a client expects errors, and an error inside a stream.
type surface uint8

const (
	openAI surface = iota
	anthropic
	problemJSON // of tools: RFC 9457
)

// operation is one thing that a client can ask for. The table below is all
// that the path knows of it: how it is keyed, metered and ended.
type operation struct {
	name    string
	path    string         // below /v1
	wire    providers.Wire // how its answer is read, metered and ended
	surface surface
	form    bool       // the body is multipart/form-data, else JSON
	short   bool       // its answers are kept as long as embeddings are
	noModel bool       // the model may be left out
	single  cache.Mode // not 0: shares no more than this unless a request, key or model says so; parallel equal calls are how one asks for several
}

var operations = []operation{
	{name: "chat", path: "/chat/completions", wire: providers.Chat},
	{name: "completions", path: "/completions", wire: providers.Completions},
	{name: "responses", path: "/responses", wire: providers.Responses, noModel: true}, // a stored prompt may name it
	{name: "embeddings", path: "/embeddings", wire: providers.Embeddings, short: true},
	{name: "moderations", path: "/moderations", wire: providers.Moderations, noModel: true},
	{name: "images", path: "/images/generations", wire: providers.Images, noModel: true, single: cache.Retries},
	{name: "speech", path: "/audio/speech", wire: providers.Speech, single: cache.Retries},
	{name: "transcriptions", path: "/audio/transcriptions", wire: providers.Transcriptions, form: true},
	{name: "rerank", path: "/rerank", wire: providers.Rerank},
	{name: "messages", path: "/messages", wire: providers.Messages, surface: anthropic},
	{name: "count_tokens", path: "/messages/count_tokens", wire: providers.CountTokens, surface: anthropic},
}

// counted are the operations that the ledger and the metrics know.
func counted() []*operation {
	all := []*operation{&passthrough, &toolCalls}
	for i := range operations {
		all = append(all, &operations[i])
	}
	return all
}

// passthrough is any other path below /v1: sent once, never shared or kept.
var passthrough = operation{name: "passthrough", wire: providers.Raw, noModel: true}
