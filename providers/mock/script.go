package mock

import (
	"time"
)

// Script says how the mock answers: each request takes the first step left
// that fits it, in order, and when none is left or fits, it gets the default
// answer. docs/mock.md describes it for those who write it in YAML.
type Script struct {
	Steps []Step `yaml:"steps"`
	// Otherwise is how the default answer is given: its delays, its text. Its
	// Match and Times are not looked at. Nil means Options.Latency and
	// Options.ChunkLatency.
	Otherwise *Step `yaml:"otherwise"`
	// Record keeps the headers and the body of each request for Stats.
	Record bool `yaml:"record"`
	// Keys makes the write API honour idempotency keys. Nil: it ignores them.
	Keys *Keys `yaml:"keys"`
}

// Keys is how the write API honours idempotency keys: a request with the key
// of an earlier one that had its effect gets its answer, another request with
// that key 422, and one that comes while the first is worked on 409.
type Keys struct {
	Header string        `yaml:"header"` // default Idempotency-Key
	Window time.Duration `yaml:"window"` // how long a key is remembered; default 24h
}

func (k *Keys) header() string {
	if k == nil || k.Header == "" {
		return "Idempotency-Key"
	}
	return k.Header
}

// Step is what one request gets. The zero Step is the default answer at once.
type Step struct {
	Match Match `yaml:"match"`
	Times int   `yaml:"times"` // how many requests it serves; 0 means 1, -1 for ever

	// What is answered.
	Status  int     `yaml:"status"`  // default 200; from 300 on an error in the surface's shape, unless there is a body
	Headers Header  `yaml:"headers"` // beside the usual ones; same names replace them
	Body    Body    `yaml:"body"`    // sent as it is; empty but not nil is an empty body
	HTML    int     `yaml:"html"`    // an HTML page of about so many bytes instead
	Error   *Fault  `yaml:"error"`   // the fields of the error body
	Events  []Event `yaml:"events"`  // these server-sent events, instead of the mock's own
	Billed  *bool   `yaml:"billed"`  // overrides the rule of billing
	Usage   *Usage  `yaml:"usage"`   // overrides what was counted
	Effect  *bool   `yaml:"effect"`  // whether a write is executed; default: with a status below 300
	Reply   `yaml:",inline"`

	// How a stream is built.
	Chunks     int       `yaml:"chunks"`      // pieces that the text is streamed in; default one a word
	UsageChunk string    `yaml:"usage_chunk"` // asked (default) | always | never: the usage chunk of an OpenAI stream
	NoFinish   bool      `yaml:"no_finish"`   // leave out what says that the answer is finished
	NoDone     bool      `yaml:"no_done"`     // leave out the closing [DONE], of messages message_stop
	LineEnding string    `yaml:"line_ending"` // lf (default) | crlf | cr
	Comments   *Comments `yaml:"comments"`
	ErrorAt    *ErrorAt  `yaml:"error_at"`

	// How it goes over the wire.
	Delay      time.Duration `yaml:"delay"`       // before the headers
	ChunkDelay time.Duration `yaml:"chunk_delay"` // before each chunk but the first
	WriteSize  int           `yaml:"write_size"`  // bytes a write, each flushed: 1 is a byte at a time; 0 means one write an event
	WriteDelay time.Duration `yaml:"write_delay"` // between those writes
	KeepOpen   time.Duration `yaml:"keep_open"`   // after the last event, before the body is ended

	// How it goes wrong.
	Hang  *Point `yaml:"hang"`  // stop there; go on after For, or never
	Reset *Point `yaml:"reset"` // a TCP reset there
	Close *Point `yaml:"close"` // close the connection there, without an end of the body
	Cut   *int   `yaml:"cut"`   // end the body cleanly after so many chunks; bytes of an answer that does not stream
}

// Match says which requests a step is for. Every field that is set must fit.
// A step without one fits everything but GET /models.
type Match struct {
	Method string `yaml:"method"` // exactly
	Path   string `yaml:"path"`   // a part of the path
	Model  string `yaml:"model"`  // the model, exactly
	Body   string `yaml:"body"`   // a part of the body
	Header string `yaml:"header"` // a part of one "Name: value" line, the name spelled as Go does
	Stream *bool  `yaml:"stream"` // whether a stream was asked for
}

// Reply overrides what the mock says.
type Reply struct {
	Text      string     `yaml:"text"`       // instead of the echo
	ToolCalls []ToolCall `yaml:"tool_calls"` // calls of tools, offered or not, instead of text
	Finish    string     `yaml:"finish"`     // the finish reason, in the surface's own word
	Choices   int        `yaml:"choices"`    // how many, whatever n asks for
	Pad       int        `yaml:"pad"`        // so many bytes "a" more, as one word
}

// ToolCall is one call of a tool that the mock answers with.
type ToolCall struct {
	Name      string `yaml:"name"`
	Arguments Body   `yaml:"arguments"` // JSON, as a string or written out; default {}
}

// Usage overrides the counts of an answer. A nil field is left as counted.
// Cached tokens are part of Input, reasoning tokens part of Output.
type Usage struct {
	Input     *int `yaml:"input"`
	Output    *int `yaml:"output"`
	Cached    int  `yaml:"cached"`
	Reasoning int  `yaml:"reasoning"`
}

// Fault fills in an error body. Empty fields follow from the status.
type Fault struct {
	Message string `yaml:"message"`
	Type    string `yaml:"type"`
	Code    string `yaml:"code"`
	Param   string `yaml:"param"`
}

// Comments are SSE comment lines, each followed by an empty line; before an
// answer that does not stream they are empty lines.
type Comments struct {
	Count int           `yaml:"count"`
	Text  string        `yaml:"text"`  // default "keep-alive"
	Ping  bool          `yaml:"ping"`  // Anthropic's ping events instead
	After int           `yaml:"after"` // chunks
	Every time.Duration `yaml:"every"` // the pause after each
}

// ErrorAt is an error told inside a stream, which ends with it.
type ErrorAt struct {
	Chunk int    `yaml:"chunk"` // after so many chunks
	Event string `yaml:"event"` // its event name; default none, of messages and responses "error"
	Fault `yaml:",inline"`
	Data  Body `yaml:"data"` // sent instead of an error made of the fields
}

// Event is one server-sent event. In YAML a plain string is its data.
type Event struct {
	Name    string        `yaml:"event"`
	ID      string        `yaml:"id"`
	Data    Body          `yaml:"data"`
	Comment string        `yaml:"comment"` // a comment instead
	Raw     string        `yaml:"raw"`     // these bytes instead, whatever they are
	Delay   time.Duration `yaml:"delay"`   // before it
}

// Place is a moment in an exchange.
type Place string

const (
	AtAccept  Place = "accept"  // the connection was taken; nothing was read. Where the mock does not own the listener, as AtRequest
	AtRequest Place = "request" // the request's headers were read, its body was not
	// The body was read; nothing of a write was done and nothing billed. A
	// hang with For is work then, which a client that leaves does not end.
	AtBeforeEffect Place = "before_effect"
	AtAfterEffect  Place = "after_effect" // all that was done; Delay is still to come

	AtHeaders Place = "headers" // the body was read, and Delay is over; nothing was answered
	AtBytes   Place = "bytes"   // After bytes of the body were written
	AtChunks  Place = "chunks"  // After chunks of the stream were written
)

// Point is where an exchange goes wrong.
type Point struct {
	At    Place `yaml:"at"` // default headers
	After int   `yaml:"after"`
	// For is how long a hang is; 0 is until the client leaves. Of a reset or a
	// close before the effect: the effect comes all the same, so long after it.
	For time.Duration `yaml:"for"`
}

// Header is a set of header lines; a list in YAML is several lines.
type Header map[string]Values

// Values are the lines of one header.
type Values []string

// Body is bytes that are sent as they are. In YAML a string stands for itself
// and anything else for its JSON.
type Body []byte
