package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/providers"
)

// failure makes the answer for a call that failed: the upstream's own where it
// can be passed on, else ours. cause is why the record's context ended, if it
// did.
func failure(s surface, res policy.Result, cause error) (*cache.Head, []byte) {
	var upstream *providers.Error
	if res.Failure != nil {
		errors.As(res.Failure.Err, &upstream)
	}
	status, code, message := verdict(&res, upstream, cause)
	if upstream == nil || upstream.Status != status { // ours, and so a failure, not its last word
		res.Reason = cmp.Or(res.Reason, policy.AttemptsExhausted)
	}
	h := make(http.Header, 6)
	head := &cache.Head{
		Status: status, Header: h, Attempts: res.Attempts,
		// Without a reason it is the upstream's own final word: executed.
		Failed: res.Reason != "", Reason: string(res.Reason),
	}
	if upstream != nil {
		var shared map[string][]string
		shared, head.Own = split(upstream.Header)
		maps.Copy(h, shared)
		delete(head.Own, "Location")
	}
	h["Content-Type"] = s.errorType()
	retryHeaders(h, status, res.ShouldRetry, res.RetryAfter)
	if upstream != nil && upstream.Status == status {
		if upstream.Object {
			return head, upstream.Body
		}
		if len(upstream.Body) > 0 {
			message += ": " + clip(upstream.Body, 1000)
		}
	}
	return head, errorBody(s, status, code, message, "")
}

// verdict says what a client is told of a failed call: the contract's error
// table, as far as it is about upstreams.
func verdict(res *policy.Result, upstream *providers.Error, cause error) (status int, code, message string) {
	f := res.Failure
	switch {
	case errors.Is(cause, errDrained) || res.Reason == reasonDraining:
		res.Reason, res.ShouldRetry = reasonDraining, true
		return 503, "draining", draining.message

	case res.Reason == policy.TargetHeld && res.Status == 429:
		return 429, "rate_limit_exceeded", "the upstream asked not to be called for a while: try again when Retry-After says"
	case f == nil && res.Reason == policy.CircuitOpen:
		return res.Status, "upstream_unavailable", "the upstream has failed too often of late and is left alone for a while: try again when Retry-After says"
	case f == nil && res.Reason == policy.Overloaded:
		return res.Status, "overloaded", "as many calls as the upstream bears are under way, and as many wait"
	case res.Reason == policy.TargetHeld:
		return res.Status, "upstream_unavailable", "the upstream asked not to be called for a while: try again when Retry-After says"

	case upstream != nil && upstream.Status >= 300 && upstream.Status < 400:
		return 502, "upstream_error", fmt.Sprintf("the upstream answered with a redirect (%d), which is never followed: its base_url leads elsewhere", upstream.Status)
	case upstream != nil && upstream.Status >= 400 && f.Phase >= policy.Answered:
		code, message = "upstream_error", fmt.Sprintf("the upstream answered %d", upstream.Status)
		if upstream.BadAnswer {
			message = "the upstream's answer was no answer: " + upstream.Error()
		}
		if upstream.Status == 429 {
			code = "rate_limit_exceeded"
		}
		return upstream.Status, code, message

	case f != nil && f.Timeout:
		return 504, "upstream_timeout", "the upstream did not answer in time"
	case f == nil && res.Reason == policy.Deadline || errors.Is(cause, errDeadline):
		return 504, "upstream_timeout", "the call's deadline passed before the upstream answered"
	case f != nil && f.Phase == policy.NotSent:
		return 502, "upstream_error", "the upstream can't be reached"
	}
	return 502, "upstream_error", "the upstream broke off"
}
