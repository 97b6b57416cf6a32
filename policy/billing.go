package policy

// Billing says what an attempt that came out as f cost. A nil f is an attempt
// that succeeded: a usable 2xx, read to its end.
func (f *Failure) Billing() Billing {
	switch {
	case f == nil:
		return Billed
	case f.Phase == NotSent:
		return Unbilled
	case !f.refused():
		return Ambiguous
	}
	switch f.Status {
	case 408, 504, 524: // the upstream gave up waiting, perhaps for itself
		return Ambiguous
	case 501, 503, 505, 511, 529: // refused before any work
		return Unbilled
	}
	if f.Status >= 500 {
		return Ambiguous
	}
	return Unbilled
}

// Result names in one word how an attempt came out, from a closed list: it is
// a metric's label. A nil f is "ok".
func (f *Failure) Result() string {
	switch {
	case f == nil:
		return "ok"
	case f.Cancelled:
		return "cancelled"
	case f.Timeout:
		return "timeout"
	case f.BadAnswer:
		return "bad_answer"
	case f.Phase == NotSent:
		return "unreachable"
	case f.Phase == Sent:
		return "reset"
	case !f.refused():
		return "cut"
	}
	return statusWord(f.Status)
}

// statusWord bounds what an upstream's statuses can be as labels: it may send
// any number.
func statusWord(status int) string {
	switch status {
	case 400:
		return "400"
	case 401:
		return "401"
	case 402:
		return "402"
	case 403:
		return "403"
	case 404:
		return "404"
	case 408:
		return "408"
	case 409:
		return "409"
	case 413:
		return "413"
	case 422:
		return "422"
	case 425:
		return "425"
	case 429:
		return "429"
	case 500:
		return "500"
	case 501:
		return "501"
	case 502:
		return "502"
	case 503:
		return "503"
	case 504:
		return "504"
	case 524:
		return "524"
	case 529:
		return "529"
	}
	switch {
	case status < 400:
		return "3xx"
	case status < 500:
		return "4xx"
	}
	return "5xx"
}
