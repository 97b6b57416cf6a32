package policy

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"
)

// SpentQuota says that an error tells of money or a day's quota used up,
// which no retry within minutes mends. It goes by the exact values of named
// fields, never by words of the message: "quota" also stands in messages
// about limits a minute. status is that of the response, or the one inside
// for an error in a 200.
func SpentQuota(status int, body []byte) bool {
	if status == 402 {
		return true
	}
	if !validJSON(body) {
		return false
	}
	e := errorObject(body)
	if spentCode(e.Get("code").Str) || spentCode(e.Get("type").Str) {
		return true
	}
	details := e.Get("details")
	if details.IsObject() {
		return details.Get("error_code").Str == "enforced_spend_limit_reached"
	}
	// Google's reasons are also used for permissions, under other statuses.
	return (status == 429 || status < 300) && googleSpent(details)
}

func spentCode(s string) bool {
	switch s {
	case "insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached",
		"organization_usage_limit_exceeded", "organization_spend_limit_exceeded", "project_spend_limit_exceeded":
		return true
	}
	return false
}

// googleSpent reads the details of a google.rpc.Status.
func googleSpent(details gjson.Result) bool {
	for _, d := range details.Array() {
		if reason := d.Get("reason").Str; reason == "QUOTA_EXHAUSTED" || strings.HasPrefix(reason, "INSUFFICIENT_") {
			return true
		}
		for _, v := range append(d.Get("violations").Array(), d) {
			if id := v.Get("quotaId").Str; strings.Contains(id, "PerDay") || strings.Contains(id, "Daily") {
				return true
			}
		}
	}
	return false
}

// validJSON reports whether a body is one JSON value. gjson would follow what
// is nested by recursion, as deep as an upstream likes.
func validJSON(body []byte) bool {
	return jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// errorObject finds the object that tells of the error in a valid JSON body:
// under error, under response.error (an event of the Responses API), in the
// first element of Google's array, or the body itself.
func errorObject(body []byte) gjson.Result {
	root := gjson.ParseBytes(body)
	if root.IsArray() {
		root = root.Get("0")
	}
	for _, path := range [...]string{"error", "response.error"} {
		if e := root.Get(path); e.IsObject() {
			return e
		}
	}
	return root
}
