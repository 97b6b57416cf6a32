package providers

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"oncegate/policy"
)

// told is what an error object says, beyond its text.
type told struct {
	status  int // 400..599
	quota   bool
	context bool // the input is too long for the model
}

// errorIn reports whether a JSON document that came with a 2xx is an error,
// whatever else is in it.
func errorIn(doc gjson.Result) bool {
	is := false
	doc.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "error":
			is = says(v)
		case "object":
			is = v.Str == "error" // FastChat, older vLLM
		}
		return !is
	})
	return is
}

// readError reads an error that came inside a 200. The number it names is
// the status; else its code, its type or its status by name; else 502.
func readError(data []byte) told {
	object := errorObject(data)
	t := told{context: tooLong(object)}
	for _, name := range [...]string{"status", "code", "status_code", "http_status", "type"} {
		if t.status = statusOf(object.Get(name)); t.status != 0 {
			break
		}
	}
	if t.context && t.status == 0 {
		t.status = 400
	}
	if t.status == 0 {
		t.status = 502
	}
	if policy.SpentQuota(t.status, data) {
		t.quota = true
		if t.status != 402 {
			t.status = 429
		}
	}
	return t
}

func statusOf(v gjson.Result) int {
	switch v.Type {
	case gjson.Number:
		if n := v.Int(); n >= 400 && n <= 599 && float64(n) == v.Num {
			return int(n)
		}
	case gjson.String:
		s := v.Str
		if len(s) == 3 {
			if n := gjson.Parse(s); n.Type == gjson.Number {
				return statusOf(n)
			}
		}
		return statusOfName(s)
	}
	return 0
}

// statusOfName knows the names that OpenAI, Anthropic, Google and the servers
// compatible with them give their errors.
func statusOfName(name string) int {
	name = strings.ToLower(name)
	switch {
	case name == "":
		return 0
	case strings.Contains(name, "overloaded"):
		return 529
	case strings.HasPrefix(name, "rate_limit"), strings.HasPrefix(name, "ratelimit"), strings.HasPrefix(name, "too_many_requests"),
		name == "toomanyrequests", name == "resource_exhausted", name == "insufficient_quota",
		strings.HasPrefix(name, "throttl"), name == "requests", name == "tokens":
		return 429
	}
	switch name {
	case "server_error", "internal_server_error", "internal_error", "api_error", "internal", "internalservererror":
		return 500
	case "service_unavailable", "service_unavailable_error", "unavailable", "serviceunavailable":
		return 503
	case "timeout", "timeout_error", "gateway_timeout", "deadline_exceeded":
		return 504
	case "invalid_request_error", "context_length_exceeded", "invalid_request", "invalid_argument", "bad_request", "badrequesterror",
		"invalid_prompt", "invalid_image", "content_filter", "content_policy_violation", "string_above_max_length":
		return 400
	case "authentication_error", "invalid_api_key", "unauthenticated":
		return 401
	case "billing_error":
		return 402
	case "permission_error", "permission_denied":
		return 403
	case "not_found_error", "model_not_found", "not_found":
		return 404
	case "request_too_large":
		return 413
	}
	return 0
}

// tooLong reports whether an error object says that the input exceeds the
// model's window.
func tooLong(object gjson.Result) bool {
	if object.Get("code").Str == "context_length_exceeded" || object.Get("type").Str == "context_length_exceeded" {
		return true
	}
	// Anthropic has no code for it, only these two texts.
	message := object.Get("message").Str
	return object.Get("type").Str == "invalid_request_error" &&
		(strings.HasPrefix(message, "prompt is too long") || strings.HasPrefix(message, "input length and `max_tokens` exceed context limit"))
}

// errorObject finds what tells of the error in a JSON document, whatever it
// came with: under error, under response.error (an event of the Responses
// API), in the first element of Google's array, or the document itself, as
// where error is only a text.
func errorObject(body []byte) gjson.Result {
	doc := peek(body)
	if doc.IsArray() {
		doc = doc.Get("0")
	}
	for _, path := range [...]string{"error", "response.error"} {
		if e := doc.Get(path); e.IsObject() && says(e) {
			return e
		}
	}
	return doc
}

// asObject makes a JSON object of an in-band error's data, which may be text.
func asObject(data []byte) []byte {
	if isObject(data) {
		return data
	}
	text, _ := json.Marshal(string(data))
	return []byte(`{"error":{"message":` + string(text) + `}}`)
}
