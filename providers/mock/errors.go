package mock

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// onAnthropic says whether a request speaks Anthropic's API.
func onAnthropic(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/messages") || r.Header.Get("Anthropic-Version") != ""
}

// openaiError is the error shape of OpenAI's API.
type openaiError struct {
	Error openaiFault `json:"error"`
}

type openaiFault struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// anthropicError is the error shape of Anthropic's API.
type anthropicError struct {
	Type      string         `json:"type"`
	Error     anthropicFault `json:"error"`
	RequestID string         `json:"request_id,omitempty"`
}

type anthropicFault struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// errorBody is the error of a status in the shape of the surface asked.
func errorBody(r *http.Request, status int, f *Fault) []byte {
	var given Fault
	if f != nil {
		given = *f
	}
	if given.Message == "" {
		given.Message = fmt.Sprintf("The mock answers %d %s.", status, http.StatusText(status))
	}
	if onAnthropic(r) {
		if given.Type == "" {
			given.Type = anthropicType(status)
		}
		return encode(anthropicError{"error", anthropicFault{given.Type, given.Message}, newID("req_")})
	}
	kind, code := openaiType(status)
	if given.Type == "" {
		given.Type = kind
	}
	if given.Code == "" {
		given.Code = code
	}
	return encode(openaiError{openaiFault{given.Message, given.Type, orNull(given.Param), orNull(given.Code)}})
}

// inBandError is an error told inside a stream.
func inBandError(r *http.Request, op *operation, f *Fault) []byte {
	given := *f
	if given.Message == "" {
		given.Message = "The server had an error while processing your request."
	}
	switch {
	case onAnthropic(r):
		if given.Type == "" {
			given.Type = "overloaded_error"
		}
		return encode(anthropicError{Type: "error", Error: anthropicFault{given.Type, given.Message}})
	case op != nil && op.namedEvents: // the Responses API
		if given.Code == "" {
			given.Code = "server_error"
		}
		return encode(struct {
			Type           string  `json:"type"`
			Code           string  `json:"code"`
			Message        string  `json:"message"`
			Param          *string `json:"param"`
			SequenceNumber int     `json:"sequence_number"`
		}{"error", given.Code, given.Message, orNull(given.Param), 0})
	}
	if given.Type == "" {
		given.Type = "server_error"
	}
	return encode(openaiError{openaiFault{given.Message, given.Type, orNull(given.Param), orNull(given.Code)}})
}

func openaiType(status int) (kind, code string) {
	switch status {
	case 401:
		return "invalid_request_error", "invalid_api_key"
	case 404:
		return "invalid_request_error", "not_found"
	case 429:
		return "requests", "rate_limit_exceeded"
	}
	if status < 500 {
		return "invalid_request_error", ""
	}
	return "server_error", ""
}

func anthropicType(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 504:
		return "timeout_error"
	case 529:
		return "overloaded_error"
	}
	if status < 500 {
		return "invalid_request_error"
	}
	return "api_error"
}

// isError says whether a body is an error in either API's shape.
func isError(body []byte) bool {
	b := bytes.TrimSpace(body)
	return len(b) > 0 && b[0] == '{' && gjson.GetBytes(b, "error").Exists() && gjson.GetBytes(b, "error").Type != gjson.Null
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// invalid is what both APIs answer to a request they cannot use.
func invalid(param, format string, args ...any) *Fault {
	return &Fault{Message: fmt.Sprintf(format, args...), Type: "invalid_request_error", Param: param}
}

// object says what is wrong with a body that must be a JSON object naming a
// model.
func (a *ask) object() *Fault {
	switch {
	case !a.doc.IsObject():
		return invalid("", "We could not parse the JSON body of your request.")
	case a.doc.Get("model").Type.String() != "String" || a.model == "":
		return invalid("model", "you must provide a model parameter")
	}
	return nil
}
