package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"oncegate/cache"
	"oncegate/policy"
)

// The reasons of the contract that arise here; policy has those of a call
// that failed upstream, cache those for which an answer was shared.
const (
	reasonFailureMemo  policy.Reason = "failure_memo"
	reasonStoreAway    policy.Reason = "store_away"
	reasonDraining     policy.Reason = "draining"
	reasonOverloaded                 = policy.Overloaded
	reasonClientGone                 = policy.ClientGone
	reasonKeyReused    policy.Reason = "key_reused"
	reasonKeyInvalid   policy.Reason = "key_invalid"
	reasonInFlight     policy.Reason = "in_flight"
	reasonNotAllowed   policy.Reason = "not_allowed"
	reasonNotFound     policy.Reason = "not_found"
	reasonBadRequest   policy.Reason = "bad_request"
	reasonTooLarge     policy.Reason = "too_large"
	reasonCrossOrigin  policy.Reason = "cross_origin"
	reasonUnauthorized policy.Reason = "unauthorized"
	reasonMethod       policy.Reason = "method_not_allowed"
	reasonEncoding     policy.Reason = "unsupported_encoding"
	reasonInternal     policy.Reason = "internal"

	// Of tools.
	reasonUnkeyed     policy.Reason = "unkeyed"
	reasonKeyRequired policy.Reason = "key_required"
	reasonResultGone  policy.Reason = "result_gone"
	reasonKeyExpired  policy.Reason = "key_expired"
)

// statusClientGone is what is logged for a client that left before it was
// answered; nobody receives it.
const statusClientGone = 499

// refusal is an answer of our own, made without an upstream call.
type refusal struct {
	status  int
	code    string // of the contract's error table
	reason  policy.Reason
	message string // says what to do about it
	param   string // which field or header is at fault
	retry   bool   // x-should-retry
	allow   string // 405: the methods that work
	outcome string // empty: refused
	more    *facts // of a write, what is known of it
}

var (
	unauthorized = &refusal{status: 401, code: "invalid_api_key", reason: reasonUnauthorized,
		message: "no gateway key, or an unknown one: send one of auth.keys as Authorization: Bearer, x-api-key or api-key"}
	conflictingCredentials = &refusal{status: 401, code: "invalid_api_key", reason: reasonUnauthorized,
		message: "the request carries two different credentials; send one"}
	crossOrigin = &refusal{status: 403, code: "not_allowed", reason: reasonCrossOrigin,
		message: "this gateway is open to local programs only: a web page may not call it. Configure auth.keys, or server.cors.origins"}
	keyReused = &refusal{status: 422, code: "idempotency_key_reused", reason: reasonKeyReused, param: "Idempotency-Key",
		message: "this Idempotency-Key was used with other parameters; use a new key for a new call"}
	overloaded = &refusal{status: 503, code: "overloaded", reason: reasonOverloaded, retry: true,
		message: "the gateway holds as many request bodies as it may (server.max_buffered); try again"}
	draining = &refusal{status: 503, code: "draining", reason: reasonDraining, retry: true,
		message: "the gateway is stopping; try again"}
	storeUnavailable = &refusal{status: 503, code: "store_unavailable", reason: reasonStoreAway, retry: true,
		message: "the store is away, and this gateway runs no call without it (store.on_outage); try again"}
	inFlight = &refusal{status: 409, code: "idempotency_in_flight", reason: reasonInFlight, retry: true,
		message: "the same call is still running; try again to join it"}
	stillRuns = &refusal{status: 504, code: "upstream_timeout", reason: policy.Deadline, retry: true,
		message: "the time this client gave it is over and the call still runs; try again to join it"}
	runsAlone = &refusal{status: 504, code: "upstream_timeout", reason: policy.Deadline,
		message: "the time this client gave it is over; the call could not be shared, so another try would be another call"}
	clientGone = &refusal{status: statusClientGone, code: "client_closed_request", reason: reasonClientGone,
		message: "the client left"}
	internal = &refusal{status: 500, code: "internal_error", reason: reasonInternal,
		message: "a fault inside the gateway; its log has the cause under this request id"}
)

func badBody(message, param string) *refusal {
	return &refusal{status: 400, code: "invalid_request_error", reason: reasonBadRequest, message: message, param: param}
}

func malformed(offset int64, err error) *refusal {
	return badBody(fmt.Sprintf("the body is not valid JSON: at byte %d: %v", offset, err), "")
}

func badHeader(name, want string) *refusal {
	return badBody(fmt.Sprintf("the header %s must be %s", name, want), name)
}

func badKey(why string) *refusal {
	return &refusal{status: 400, code: "idempotency_key_invalid", reason: reasonKeyInvalid, message: why, param: "Idempotency-Key"}
}

var passthroughNotAllowed = &refusal{status: 403, code: "not_allowed", reason: reasonNotAllowed,
	message: "this key is limited to some models, and the passthrough can't tell which one a request is for"}

func notAllowed(model string) *refusal {
	return &refusal{status: 403, code: "not_allowed", reason: reasonNotAllowed, param: "model",
		message: fmt.Sprintf("this key may not use the model %.100q", model)}
}

func modelNotFound(message string) *refusal {
	return &refusal{status: 404, code: "model_not_found", reason: reasonNotFound, param: "model", message: message}
}

func notFound(message string) *refusal {
	return &refusal{status: 404, code: "not_found", reason: reasonNotFound, message: message}
}

func methodNotAllowed(method, allow string) *refusal {
	return &refusal{status: 405, code: "method_not_allowed", reason: reasonMethod, allow: allow,
		message: fmt.Sprintf("%.20q does not work here; use %s", method, allow)}
}

func tooLarge(limit int64) *refusal {
	return &refusal{status: 413, code: "request_too_large", reason: reasonTooLarge,
		message: fmt.Sprintf("the body is larger than %d bytes (server.max_body)", limit)}
}

func unsupportedEncoding(encoding string) *refusal {
	return &refusal{status: 415, code: "unsupported_encoding", reason: reasonEncoding, param: "Content-Encoding",
		message: fmt.Sprintf("Content-Encoding %.40q is not supported; send gzip, zstd or none", encoding)}
}

// retryHeaders sets what an SDK is to make of an error. known is what is
// known of when to come back; without it retries spread over 1 to 7 s.
func retryHeaders(h http.Header, status int, retry bool, known time.Duration) {
	h.Set("X-Should-Retry", strconv.FormatBool(retry))
	switch {
	case status == http.StatusGatewayTimeout && retry && known == 0:
		known = time.Second
	case status != 429 && status != 503 && !(status == 409 && retry) && known == 0:
		return
	}
	if known <= 0 {
		known = time.Second + time.Duration(rand.Float64()*float64(6*time.Second))
	}
	limit := 86400 * time.Second
	if retry {
		limit = 59 * time.Second
	}
	known = min(known, limit)
	seconds := max(1, int64((known+time.Second-1)/time.Second))
	h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	h.Set("Retry-After-Ms", strconv.FormatInt(seconds*1000, 10))
}

// clip gives at most n bytes of what others said, as text.
func clip(b []byte, n int) string {
	if len(b) > n {
		b = b[:n]
	}
	return strings.ToValidUTF8(string(b), "?")
}

// errorType is OpenAI's or Anthropic's word for a status.
func errorType(s surface, status int) string {
	if s == anthropic {
		switch {
		case status == 401:
			return "authentication_error"
		case status == 403:
			return "permission_error"
		case status == 404:
			return "not_found_error"
		case status == 413:
			return "request_too_large"
		case status == 429:
			return "rate_limit_error"
		case status == 503 || status == 529:
			return "overloaded_error"
		case status < 500:
			return "invalid_request_error"
		}
		return "api_error"
	}
	switch {
	case status == 401:
		return "authentication_error"
	case status == 429:
		return "rate_limit_error"
	case status < 500:
		return "invalid_request_error"
	}
	return "server_error"
}

// openAIError has all four members: clients read param and code as null or text,
// and go-openai's own struct would leave an empty one out.
type openAIError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	} `json:"error"`
}

// problem is an error of ours on /tools: RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	Param  string `json:"param,omitempty"`
	*facts
}

// facts are what is known of a write that was asked for again.
type facts struct {
	Record   string `json:"record,omitempty"`          // its name, for oncegate records show
	Upstream int    `json:"upstream_status,omitempty"` // what the API answered; 0: nothing
	Size     *int64 `json:"size,omitempty"`            // of the answer that is gone, in bytes
	Sum      string `json:"sha256,omitempty"`          // likewise, hex
}

type anthropicError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    string `json:"code,omitempty"`
		Param   string `json:"param,omitempty"`
	} `json:"error"`
}

// errorBody is an error of ours in the surface's shape.
func errorBody(s surface, status int, code, message, param string) []byte {
	if s == problemJSON {
		return problemBody(status, code, message, param, nil)
	}
	if s == anthropic {
		e := anthropicError{Type: "error"}
		e.Error.Type, e.Error.Message = errorType(s, status), message
		e.Error.Code, e.Error.Param = code, param
		b, _ := json.Marshal(e)
		return b
	}
	var e openAIError
	e.Error.Message, e.Error.Type, e.Error.Code = message, errorType(s, status), code
	if param != "" {
		e.Error.Param = &param
	}
	b, _ := json.Marshal(e)
	return b
}

func problemBody(status int, code, message, param string, more *facts) []byte {
	b, _ := json.Marshal(problem{
		Type: "urn:oncegate:" + code, Title: http.StatusText(status), Status: status,
		Detail: message, Code: code, Param: param, facts: more,
	})
	return b
}

// errorType is what an error of ours says that it is.
func (s surface) errorType() []string {
	if s == problemJSON {
		return []string{"application/problem+json"}
	}
	return []string{"application/json"}
}

// errorEvent tells an error inside a stream. On OpenAI's surface an event
// line would break go-openai; Anthropic's SDKs need it.
func errorEvent(s surface, body []byte) []byte {
	v := jsontext.Value(append([]byte(nil), body...))
	if v.Compact() != nil {
		v = errorBody(s, 502, "upstream_error", "the upstream broke off", "")
	}
	if s == anthropic {
		return append(append([]byte("event: error\ndata: "), v...), "\n\n"...)
	}
	return append(append([]byte("data: "), v...), "\n\n"...)
}

// answer is the refusal as an answer in a record.
func (p *refusal) answer(s surface) (*cache.Head, []byte) {
	h := http.Header{"Content-Type": s.errorType()}
	retryHeaders(h, p.status, p.retry, 0)
	head := &cache.Head{Status: p.status, Failed: true, Reason: string(p.reason), Header: h}
	if p.more != nil {
		return head, problemBody(p.status, p.code, p.message, p.param, p.more)
	}
	return head, errorBody(s, p.status, p.code, p.message, p.param)
}

// refuse answers a request that no upstream will see, or not in time.
func refuse(w http.ResponseWriter, ev *event, p *refusal) {
	h := w.Header()
	ev.status, ev.reason, ev.outcome = p.status, string(p.reason), outcomeRefused
	switch {
	case p.outcome != "":
		ev.outcome = p.outcome
	case p.reason == policy.Deadline:
		ev.outcome = outcomeFailed
	}
	head, body := p.answer(ev.op.surface)
	maps.Copy(h, head.Header)
	ev.mark(h)
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="oncegate"`)
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.status)
	w.Write(body)
}
