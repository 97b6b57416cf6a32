package providers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"oncegate/policy"
)

// toolIdleFor is how long a connection to a tool may be idle and still carry a
// call: less than servers keep theirs (gunicorn 2 s, Node, uvicorn and Apache
// 5 s). A write on one that its server closes meanwhile is a write of unknown
// outcome.
const toolIdleFor = 1500 * time.Millisecond

// ToolOptions describe one configured HTTP API.
type ToolOptions struct {
	Name              string          // as the config names it
	BaseURL           string          // http or https; its path goes before every call's, its query with every call
	Header            http.Header     // sent with every call, over the client's own; may hold credentials
	UpstreamKeyHeader string          // by which the API knows a call again; "": by none
	Timeouts          policy.Timeouts // Connect and Idle; zero fields have the policy's defaults. There is no limit to the first byte
	NotExecuted       []int           // statuses (400 to 599) that this API only sends before it did anything
}

// Tool is an HTTP API that calls are forwarded to. It sends what it is given
// once a Try, over HTTP/1 and connections of its own, and follows no redirect.
// It is safe for use by many goroutines.
type Tool struct {
	endpoint
	host        string      // the Host header; "": base_url's
	header      http.Header // the tool's own, canonical
	keyHeader   string      // canonical; "": none
	notExecuted []int
}

// ToolCall is one call to a tool. Its fields are read only: attempts of one
// call may share it.
type ToolCall struct {
	Method string
	Path   string // escaped, with a leading slash; goes on as it is, after base_url's path
	Query  string // raw, without ?
	// Header is the client's: what is between it and us stays here. Its
	// Content-Type and Content-Encoding are Body's: who decodes Body takes the
	// latter out.
	Header      http.Header
	Body        []byte      // not to be changed before the answer is closed
	UpstreamKey string      // our key for the call; "": it has none
	Write       bool        // a second run may have a second effect
	May         func() bool // asked just before the first byte is sent: whether it still may be; nil: it may
}

// NewTool makes a way to a tool. It dials nothing. All faults of the options
// are told at once; none of them shows a credential.
func NewTool(o ToolOptions) (*Tool, error) {
	var faults []error
	b, err := parseBase(o.BaseURL, "")
	if err != nil {
		faults = append(faults, fmt.Errorf("base_url: %w", err))
	}
	t := &Tool{notExecuted: slices.Clone(o.NotExecuted)}
	faults = append(faults, t.setHeaders(&o)...)
	for _, status := range o.NotExecuted {
		if status < 400 || status > 599 {
			faults = append(faults, fmt.Errorf("not_executed: %d is no status of a failure, use some of 400 to 599", status))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	t.open(o.Name, b, append(b.secrets(), headerSecrets(t.header)...), o.Timeouts, toolIdleFor)
	return t, nil
}

// Try makes one attempt. An answer of any status, redirects and failures
// included, is the caller's to read and to close: see ToolAnswer.Failure. An
// error says that no answer began: with phase NotSent that not one byte of
// the request left, with Sent that the upstream may have it. Cancelling ctx
// ends the attempt and the reading of its answer.
func (t *Tool) Try(ctx context.Context, c *ToolCall) (*ToolAnswer, *Error) {
	a := &ToolAnswer{tool: t, head: c.Method == http.MethodHead}
	a.may = c.May
	a.begin(ctx, &t.endpoint)
	// CONNECT is no call, and TRACE has our credentials for an answer.
	if !isToken(c.Method) || c.Method == http.MethodConnect || c.Method == http.MethodTrace {
		return nil, a.unanswered(said("the method " + c.Method + " is not forwarded"))
	}
	u := t.base.join(c.Path, c.Query)
	host := t.host
	if host == "" {
		host = u.Host
	}
	if err := a.exchange(c.Method, u, host, t.requestHeader(c), c.Body); err != nil {
		return nil, err
	}
	if status := a.response.StatusCode; status < 200 {
		return nil, a.unanswered(said(fmt.Sprintf("the status %03d is no end of an answer", status)))
	}
	a.set(t.timeouts.Idle, errIdle)
	a.open(c.Write)
	return a, nil
}
