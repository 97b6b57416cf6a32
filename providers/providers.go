// Package providers speaks each upstream's wire format: it sends one attempt,
// says how far it came when it fails, and reads an answer in whole pieces,
// byte for byte as they came. A Tool does so for an HTTP API of which nothing
// is known. It knows nothing of records, of retries or of who asked.
package providers

import (
	"context"
	"net/http"

	"oncegate/policy"
	"oncegate/prices"
)

// Wire is the protocol of an operation: how its answer is read, metered and
// ended.
type Wire uint8

const (
	Chat           Wire = iota + 1 // OpenAI chat completions
	Completions                    // OpenAI legacy completions
	Responses                      // OpenAI responses
	Messages                       // Anthropic messages
	CountTokens                    // Anthropic messages/count_tokens
	Embeddings                     //
	Moderations                    //
	Images                         //
	Speech                         // binary audio, or SSE
	Transcriptions                 // multipart in; JSON, text or SSE out
	Rerank                         //
	Raw                            // the passthrough: nothing is known of it
)

// Call is one call to be carried upstream. Its fields are read only: attempts
// of one call may share it.
type Call struct {
	Wire        Wire
	Method      string
	Path        string      // after /v1, escaped, with a leading slash: /chat/completions
	Query       string      // raw, undecoded, without ?
	Header      http.Header // as the client sent it: what is between it and us stays here
	ContentType string      // of Body
	Body        []byte      // as the client sent it, decoded from its Content-Encoding
	Model       string      // as the client named it; "" when it named none
	Stream      bool        // the client asked for a stream
}

// Provider is one configured upstream.
type Provider interface {
	Name() string
	// Serves says whether this kind of upstream speaks w.
	Serves(w Wire) bool
	// Try makes one attempt, with the given credential (an index into the
	// provider's own), naming the model as model ("" leaves the body's own).
	// A nil error is a 2xx whose answer is still to be read: the caller
	// closes it. An error's Failure says how far the attempt came.
	// Cancelling ctx ends the attempt and the reading of its answer.
	Try(ctx context.Context, c *Call, model string, credential int) (Answer, *Error)
}

// Answer is a 2xx answer being read.
type Answer interface {
	Status() int
	// Header is the upstream's, without hop-by-hop headers, Set-Cookie,
	// Content-Length and Content-Encoding. It must not be changed.
	Header() http.Header
	// Events says that the answer is text/event-stream: a comment line may
	// stand between two pieces, and an error may be told as an event.
	Events() bool
	// Next gives the next piece. The last one has Last set and may be empty;
	// after it Next gives empty last pieces. The piece's bytes belong to the
	// caller. What is no stream comes judged and whole, in one piece (or,
	// beyond the size that is judged, as it comes after a first one).
	Next() (Piece, *Error)
	// End says how the answer ended; valid once Next returned a piece with
	// Last set, and after an error as far as it came.
	End() End
	// Close lets the upstream go. It keeps the connection for others where
	// the answer was read to its end.
	Close()
}

// PieceKind says what a piece of an answer is to its reader.
type PieceKind uint8

const (
	Content  PieceKind = iota // commits the call: somebody may act on it
	Preamble                  // comments, pings, role-only chunks: can still be taken back
	Usage                     // a usage event that only those who asked for it may see
)

// Piece is a part of an answer: of SSE one or more whole events, bytes as
// they came; of anything else bytes.
type Piece struct {
	Kind PieceKind
	Data []byte
	Last bool // the answer is over with this piece, which may be empty
}

// End says how an answer ended.
type End struct {
	Whole bool   // every choice has its finish, or the operation's own terminal event came: fit to be kept
	Cut   bool   // whole, but finished by length or content filter
	Model string // as the answer names it; "" where it does not
	// Usage is what the upstream says it used. Of an answer that is not whole
	// it is what was told until then: the least that is billed.
	Usage prices.Usage
}

// Error is a failed attempt: what policy needs to know of it, and what the
// client may be told. Failure.Status is 0 where a body broke without naming
// an error: the 2xx it began with says nothing then.
type Error struct {
	policy.Failure             // its Err reads as what a client may be told: no address, no credential; what lies beneath is for the log
	Header         http.Header // the upstream's, filtered as Answer.Header is; nil when there was no response
	Body           []byte      // the upstream's error body as it came, at most 1 MiB, its credentials masked; of an in-band error the error event's JSON
	Object         bool        // Body is a JSON object: it may be passed on as it is
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return http.StatusText(e.Status)
}

func (e *Error) Unwrap() error { return e.Err }
