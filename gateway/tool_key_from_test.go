package gateway

import (
	"testing"

	"oncegate/providers"
)

func TestKeyFromTheBody(t *testing.T) {
	for _, c := range []struct {
		body, key string
		source    keySource
		code      string // of the refusal
	}{
		{`{"a":"k1","b":"k2"}`, "k1", byBody, ""},
		{`{"a":null,"b":"k2"}`, "k2", byBody, ""},
		{`{"b":"\u006b2"}`, "k2", byBody, ""},
		{"\xef\xbb\xbf" + `{"a":"k1"}`, "k1", byBody, ""},
		{`{}`, "", unkeyed, ""},
		{`{"a":null}`, "", unkeyed, ""},
		{`a=k1`, "", unkeyed, ""},
		{``, "", unkeyed, ""},
		// What is there, and is no key, was meant to be one.
		{`{"a":7,"b":"k2"}`, "", unkeyed, "idempotency_key_invalid"},
		{`{"a":{"k":1}}`, "", unkeyed, "idempotency_key_invalid"},
		{`{"a":true}`, "", unkeyed, "idempotency_key_invalid"},
		{`{"a":""}`, "", unkeyed, "idempotency_key_invalid"},
		{`{"a":"k 1"}`, "", unkeyed, "idempotency_key_invalid"},
		{`{"a":"k1","a":"k2"}`, "", unkeyed, "invalid_request_error"},
		{`{"a":"k1"`, "", unkeyed, "invalid_request_error"},
	} {
		w := &call{tool: &toolCall{tool: &tool{Tool: &Tool{KeyFrom: []string{"/a", "/b"}}}, up: providers.ToolCall{Body: []byte(c.body)}}}
		refused := w.findKey()
		code := ""
		if refused != nil {
			code = refused.code
		}
		if w.ownKey != c.key || w.tool.keyed != c.source || code != c.code {
			t.Errorf("%s: %q %d %q", c.body, w.ownKey, w.tool.keyed, code)
		}
	}
}
