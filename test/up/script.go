package up

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Step is an answer, or a part of one. After the last step of a call the body
// is ended in an orderly way, unless a step closed the connection.
type Step func(*Exchange)

// Seq does one step after the other, until one closes the connection.
func Seq(steps ...Step) Step {
	return func(x *Exchange) {
		for _, s := range steps {
			if x.closed {
				return
			}
			s(x)
		}
	}
}

// Status answers with a status and a body as application/json; header lines
// ("Name: value") may add to that, or replace the Content-Type.
func Status(status int, body string, lines ...string) Step {
	lines = slices.Clone(lines)
	if header(lines).Get("Content-Type") == "" {
		lines = append(lines, "Content-Type: application/json")
	}
	if header(lines).Get("Content-Length") == "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return func(x *Exchange) {
		x.Head(status, lines...)
		x.Write(body)
	}
}

// OK answers a chat completion with that text.
func OK(text string) Step { return Status(200, Completion(text)) }

// Fail answers an error in OpenAI's shape.
func Fail(status int, code string, lines ...string) Step {
	return Status(status, Problem(code), lines...)
}

// SSE answers a whole stream, one event an item.
func SSE(items ...string) Step {
	return Seq(Open(), Events(items...))
}

// Open begins a chunked event stream.
func Open(lines ...string) Step {
	return func(x *Exchange) {
		x.Head(200, append([]string{"Content-Type: text/event-stream"}, lines...)...)
	}
}

// Head begins an answer with that status and these header lines.
func Head(status int, lines ...string) Step {
	return func(x *Exchange) { x.Head(status, lines...) }
}

// Events writes events, each in a write of its own.
func Events(items ...string) Step {
	return func(x *Exchange) {
		for _, item := range items {
			x.Write("data: " + item + "\n\n")
		}
	}
}

// Bytes writes bytes of the body, each argument in a write of its own.
func Bytes(parts ...string) Step {
	return func(x *Exchange) {
		for _, p := range parts {
			x.Write(p)
		}
	}
}

// Raw writes bytes outside any framing.
func Raw(p string) Step { return func(x *Exchange) { x.Raw(p) } }

// Slowly writes the bytes of p one by one, gap apart.
func Slowly(p string, gap time.Duration) Step {
	return func(x *Exchange) {
		for i := range len(p) {
			x.Write(p[i : i+1])
			if gap > 0 && !x.Wait(gap) {
				return
			}
		}
	}
}

// Pause waits; it is part of the scenario, never a means to wait for the
// gateway. It ends early when the peer leaves.
func Pause(d time.Duration) Step { return func(x *Exchange) { x.Wait(d) } }

// Gate waits until c is closed or gives a value, or the peer leaves.
func Gate(c <-chan struct{}) Step {
	return func(x *Exchange) {
		select {
		case <-c:
		case <-x.Call.gone:
		case <-x.done:
		}
	}
}

// FIN ends the body in an orderly way and closes the connection.
func FIN(x *Exchange) {
	x.End()
	x.Close()
}

// Cut closes the connection without ending the body.
func Cut(x *Exchange) { x.Close() }

// RST resets the connection.
func RST(x *Exchange) { x.Reset() }

// Hang keeps silent for d, then closes.
func Hang(d time.Duration) Step {
	return func(x *Exchange) {
		x.Wait(d)
		x.Close()
	}
}

// ThenDead answers, and resets the connection as soon as a byte of the next
// request arrives on it, unread.
func ThenDead(s Step) Step {
	return func(x *Exchange) {
		s(x)
		x.closeOnNext = true
	}
}

// Done is the item that ends a stream on OpenAI's surface.
const Done = "[DONE]"

// Role is the chunk with the role only.
func Role() string { return Delta(`{"role":"assistant","content":""}`) }

// Chunk is a chunk whose content is text.
func Chunk(text string) string { return Delta(`{"content":` + quote(text) + `}`) }

// Delta is a chunk of choice 0 with that delta.
func Delta(delta string) string { return DeltaOf(0, delta, "") }

// DeltaOf is a chunk of one choice, with a finish reason unless that is empty.
func DeltaOf(index int, delta, finish string) string {
	reason := "null"
	if finish != "" {
		reason = quote(finish)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m1","choices":[{"index":%d,"delta":%s,"finish_reason":%s}]}`, index, delta, reason)
}

// Finish is the chunk that ends choice 0.
func Finish() string { return DeltaOf(0, `{}`, "stop") }

// FinishBy is the chunk that ends choice 0 for that reason.
func FinishBy(reason string) string { return DeltaOf(0, `{}`, reason) }

// Usage is the chunk with empty choices that says what was used.
func Usage(input, output int) string {
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m1","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, input, output, input+output)
}

// Completion is the body of a whole chat completion.
func Completion(text string) string {
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m1","choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`, quote(text))
}

// Problem is an error body in OpenAI's shape.
func Problem(code string) string {
	return fmt.Sprintf(`{"error":{"message":"upstream says %s","type":%s,"param":null,"code":%s}}`, code, quote(code), quote(code))
}

// InBand is the item of an error inside a stream.
func InBand(code string, status int) string {
	return fmt.Sprintf(`{"error":{"message":"upstream says %s","type":%s,"code":%d}}`, code, quote(code), status)
}

func quote(s string) string {
	// Only what tests write: printable text, quotes and backslashes.
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
