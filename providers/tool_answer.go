package providers

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"oncegate/policy"
)

// ToolAnswer is a tool's answer, of any status, being read by one goroutine.
type ToolAnswer struct {
	attempt
	tool   *Tool
	head   bool
	clean  io.Reader // of a failure: the body without our credentials; nil: it is read as it comes
	failed *Error    // why it could not be read to its end
}

// open looks at the answer's head. Of a body in an encoding that is not known
// here nothing can be made; one of a read is given on with its
// Content-Encoding: it is neither kept nor shown to others.
func (t *ToolAnswer) open(write bool) {
	response := t.response
	length, encoding := response.Header["Content-Length"], response.Header["Content-Encoding"]
	known := response.Body == http.NoBody || t.decode() || !encodes(encoding)
	t.header = kept(response.Header)
	switch {
	case t.head && length != nil && encoding == nil:
		t.header["Content-Length"] = length // what a HEAD asks for
	case !known && write:
		t.failed = t.unreadable(strings.Join(encoding, ", "))
	case !known:
		t.header["Content-Encoding"] = encoding
	}
	t.ended = response.Body == http.NoBody
	if response.StatusCode >= 300 {
		t.to.secrets.cleanHeader(t.header)
	}
	if response.StatusCode >= 400 && len(t.to.secrets) > 0 {
		t.clean = &cleaned{from: readerFunc(t.read), secrets: t.to.secrets}
	}
}

// Header is the upstream's, without hop-by-hop headers, Set-Cookie,
// Content-Length and Content-Encoding: but a HEAD's Content-Length stays, and
// so does the Content-Encoding of a read that we can't decode. It must not be
// changed.
func (t *ToolAnswer) Header() http.Header { return t.header }

// Events says that the answer is text/event-stream: what Read gives is to go
// on at once. A failure is none, whatever it is called.
func (t *ToolAnswer) Events() bool {
	return t.response.StatusCode < 400 && mediaType(t.header) == "text/event-stream"
}

// Read reads the body, decoded, as it comes. Any error but io.EOF is an
// *Error of phase Broken: the body did not come whole, or nothing could be
// made of it, and what was read of it is no answer.
func (t *ToolAnswer) Read(p []byte) (int, error) {
	switch {
	case t.failed != nil:
		return 0, t.failed
	case t.closed:
		return 0, http.ErrBodyReadAfterClose
	}
	read := t.read
	if t.clean != nil {
		read = t.clean.Read
	}
	n, err := read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	t.failed = t.broken(err)
	if n > 0 {
		return n, nil
	}
	return 0, t.failed
}

// Failure is what policy is told of a status of 400 and above; nil for any
// other. It needs no body. Whose credential or quota was refused, or whether
// the call was too much, is not said: of an API that may be anything that is
// about one call, and no reason to hold back others.
func (t *ToolAnswer) Failure() *policy.Failure {
	status := t.response.StatusCode
	if status < 400 {
		return nil
	}
	f := &policy.Failure{
		Phase:       policy.Answered,
		Status:      status,
		Throttle:    throttles(status),
		ShouldRetry: shouldRetry(t.header),
		NotExecuted: slices.Contains(t.tool.notExecuted, status),
		Err:         &cause{fmt.Sprintf("%s answered with status %d", t.to.name, status), nil},
	}
	f.RetryAfter, f.HasRetryAfter = policy.RetryAfter(t.header, nil, f.Throttle, time.Now())
	return f
}

// Close lets the upstream go. What little may be left of an answer is read in
// the background, so that its connection can serve others; a stream is cut.
func (t *ToolAnswer) Close() { t.finish(t.failed == nil && !t.Events()) }

// encodes reports whether a Content-Encoding names a coding (IANA, HTTP Content
// Coding Registry). Some servers write a charset there, or "none".
func encodes(lines []string) bool {
	for coding := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "aes128gcm", "br", "compress", "dcb", "dcz", "deflate", "exi", "gzip", "pack200-gzip", "x-compress", "x-gzip", "zstd":
			return true
		}
	}
	return false
}

// unreadable makes the failure of a body in an encoding that is not known here.
func (t *ToolAnswer) unreadable(encoding string) *Error {
	return &Error{
		Failure: policy.Failure{
			Phase: policy.Broken, BadAnswer: true,
			Err: &cause{t.to.name + " answered in the encoding " + encoding + ", which was not asked for", nil},
		},
		Header: t.header,
	}
}
