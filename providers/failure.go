package providers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"oncegate/policy"
)

// maxErrorBody is how much of an error's body is kept.
const maxErrorBody = 1 << 20

// cause is why an attempt failed, in words a client may read: no address and
// no credential. The error beneath, for the log, may hold addresses.
type cause struct {
	told string
	err  error
}

func (c *cause) Error() string { return c.told }
func (c *cause) Unwrap() error { return c.err }

// unanswered makes the failure of an attempt that got no response headers.
func (a *attempt) unanswered(err error) *Error {
	f := policy.Failure{Phase: policy.NotSent}
	if a.sent() {
		f.Phase = policy.Sent
	}
	a.blame(&f, err)
	a.finish(false)
	return &Error{Failure: f}
}

// blame says whose doing an error of the transport was.
func (a *attempt) blame(f *policy.Failure, err error) {
	name := a.to.name
	var dial *dialError
	switch why := a.why(); {
	case a.parent.Err() != nil:
		f.Cancelled = true
		f.Err = &cause{"the call was ended on this side", errors.Join(err, context.Cause(a.parent))}
	case why == errFirstByte:
		f.Timeout = true
		f.Err = &cause{fmt.Sprintf("%s sent no byte of its answer within %v", name, a.to.timeouts.FirstByte), errors.Join(why, err)}
	case why == errIdle:
		f.Timeout = true
		f.Err = &cause{fmt.Sprintf("%s sent nothing more for %v", name, a.to.timeouts.Idle), errors.Join(why, err)}
	case errors.As(err, &dial) && dial.timeout:
		f.Timeout = true
		f.Err = &cause{fmt.Sprintf("%s could not be reached within %v", name, a.to.timeouts.Connect), err}
	case f.Phase == policy.NotSent:
		f.Err = &cause{fmt.Sprintf("%s could not be reached: %s", name, inShort(err)), err}
	case f.Phase == policy.Sent:
		f.Err = &cause{fmt.Sprintf("%s broke off without an answer: %s", name, inShort(err)), err}
	default:
		f.Err = &cause{fmt.Sprintf("%s broke off its answer: %s", name, inShort(err)), err}
	}
}

// said is an error of our own making, whose text may be shown.
type said string

func (s said) Error() string { return string(s) }

// inShort names the usual errors of a connection without their addresses.
func inShort(err error) string {
	var dns *net.DNSError
	var own said
	switch {
	case errors.As(err, &own):
		return own.Error()
	case errors.As(err, &dns):
		return "its name could not be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "connection closed"
	case strings.Contains(err.Error(), "server closed idle connection"):
		return "connection closed"
	case strings.Contains(err.Error(), "certificate"), strings.Contains(err.Error(), "tls:"):
		return "TLS failed"
	default:
		return "connection failed"
	}
}

// broken makes the failure of an answer whose body did not come whole.
// Status stays 0: the 2xx it began with says nothing any more.
func (a *attempt) broken(err error) *Error {
	f := policy.Failure{Phase: policy.Broken}
	a.blame(&f, err)
	return &Error{Failure: f, Header: a.header}
}

// ended makes the failure of a stream that came to a clean end before its
// answer did.
func (a *attempt) endedEarly() *Error {
	f := policy.Failure{Phase: policy.Broken}
	f.Err = &cause{a.to.name + " ended its stream before the answer was complete", io.ErrUnexpectedEOF}
	return &Error{Failure: f, Header: a.header}
}

// unusable makes the failure of a 2xx that is empty or unreadable. body may
// be nil; it is shown to nobody as it is.
func (a *attempt) unusable(what string, body []byte) *Error {
	return &Error{
		Failure: policy.Failure{
			Phase: policy.Answered, Status: http.StatusBadGateway, BadAnswer: true,
			Err: &cause{a.to.name + " answered " + what, nil},
		},
		Header: a.header,
		Body:   a.to.secrets.clean(capped(body)),
	}
}

// errorInside makes the failure of an error that came with a 2xx: of a whole
// answer with phase Answered, of a stream with Broken. data is its JSON.
func (a *attempt) errorInside(phase policy.Phase, data []byte) *Error {
	t := readError(data)
	f := policy.Failure{
		Phase: phase, Status: t.status, BadAnswer: true,
		Throttle: t.status == 429 || t.status == 529, Quota: t.quota,
		Credential: t.status == 401 || t.status == 403, ContextLength: t.context,
		Err: &cause{fmt.Sprintf("%s answered 200 with an error in it", a.to.name), nil},
	}
	f.RetryAfter, f.HasRetryAfter = policy.RetryAfter(a.response.Header, data, f.Throttle, time.Now())
	body := a.to.secrets.clean(capped(data))
	return &Error{Failure: f, Header: a.header, Body: body, Object: isObject(body)}
}

// refused makes the failure of any status but 2xx, and reads its body.
func (a *attempt) refused() *Error {
	status := a.response.StatusCode
	body := a.errorBody()
	f := policy.Failure{
		Phase:      policy.Answered,
		Status:     status,
		Throttle:   throttles(status),
		Quota:      policy.SpentQuota(status, body),
		Credential: status == http.StatusUnauthorized || status == http.StatusForbidden,
	}
	if status >= 400 && status < 500 {
		f.ContextLength = tooLong(errorObject(body))
	}
	f.ShouldRetry = shouldRetry(a.header)
	f.RetryAfter, f.HasRetryAfter = policy.RetryAfter(a.header, body, f.Throttle, time.Now())
	f.Err = &cause{fmt.Sprintf("%s answered with status %d", a.to.name, status), nil}
	a.to.secrets.cleanHeader(a.header)
	body = a.to.secrets.clean(body)
	return &Error{Failure: f, Header: a.header, Body: body, Object: isObject(body)}
}

func throttles(status int) bool { return status == http.StatusTooManyRequests || status == 529 }

// shouldRetry reads the upstream's x-should-retry: see policy.Failure.
func shouldRetry(h http.Header) int8 {
	if v := h["X-Should-Retry"]; len(v) > 0 {
		switch strings.ToLower(strings.TrimSpace(v[0])) {
		case "true":
			return 1
		case "false":
			return -1
		}
	}
	return 0
}

// errorPatience bounds the reading of an error's body: its status is known,
// and what it says is worth no long wait.
const errorPatience = 5 * time.Second

// errorBody reads at most maxErrorBody of an error's body and lets the
// connection go.
func (a *attempt) errorBody() []byte {
	stop := time.AfterFunc(errorPatience, func() { a.cancel(nil) })
	defer stop.Stop()
	var body []byte
	if n := a.response.ContentLength; n > 0 {
		body = make([]byte, 0, min(n, maxErrorBody)+1)
	} else if n < 0 {
		body = make([]byte, 0, 2<<10)
	}
	for len(body) < maxErrorBody {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := a.read(body[len(body):min(cap(body), maxErrorBody)])
		body = body[:len(body)+n]
		if err != nil {
			break
		}
	}
	a.finish(true)
	return body
}

func capped(body []byte) []byte { return body[:min(len(body), maxErrorBody)] }
