package policy

import "time"

// Verdict is what may follow a failure, attempts and deadlines permitting.
// None of Same, Another and Fallback: the failure is final.
type Verdict struct {
	Same     bool   // the target may be tried again, after a wait
	Another  bool   // another credential of the target may be tried at once
	Fallback bool   // another target may be tried
	Larger   bool   // only one with a larger window
	AtOnce   bool   // a fallback is better than one more try here
	Reason   Reason // what the failure is called if nothing follows; "" for an upstream's own final answer
}

// Classify judges a failure by its phase, its status and what the upstream
// said of retries. lost counts the call's earlier attempts whose answer got
// lost: a completion may have been billed each time, so it is run again on the
// same target for such a loss only once.
func Classify(k Kind, f *Failure, lost int) Verdict {
	switch {
	case f.Committed:
		return Verdict{Reason: StreamBroken}
	case f.Cancelled:
		return Verdict{}
	case k >= DedupWrite:
		return classifyWrite(k, f)
	case f.Quota:
		return Verdict{Another: true, Fallback: true, AtOnce: true, Reason: QuotaSpent}
	case f.Credential:
		return Verdict{Another: true, Fallback: true, AtOnce: true, Reason: UpstreamCredential}
	}
	v := Verdict{Reason: f.finalReason()}
	switch {
	case f.Phase == NotSent:
		v.Same, v.Fallback = true, true
	case f.lost():
		v.Same, v.Fallback = k == Read || lost == 0, true
	case f.ContextLength: // the same input is as long the next time
		v.Fallback, v.Larger = true, true
	case f.BadAnswer && k == Read, transient(f.status()), f.Throttle:
		v.Same, v.Fallback = true, true
	}
	if v.Fallback {
		overloaded := f.Status == 529
		v.AtOnce = overloaded || v.Larger
		v.Another = !v.AtOnce && (f.throttled() || f.told() > 0)
	}
	switch {
	case f.ShouldRetry < 0: // about this upstream: another one may still be asked
		v.Same, v.Another = false, false
	case f.ShouldRetry > 0:
		v.Same = true
	}
	return v
}

// lost says that the request was sent and that its answer may have been made,
// and billed, without reaching us.
func (f *Failure) lost() bool {
	switch f.Phase {
	case NotSent:
		return false
	case Sent:
		return true
	case Broken:
		if !f.refused() && !f.BadAnswer {
			return true
		}
	}
	return f.Status == 504 || f.Status == 524
}

// refused says that the upstream answered with an error status, so that it
// does not matter whether the body came whole.
func (f *Failure) refused() bool {
	return f.Phase >= Answered && !f.BadAnswer && f.Status >= 300
}

// status is the status that a failure is judged by: a bad answer that names
// none counts as 502.
func (f *Failure) status() int {
	if f.BadAnswer && f.Status < 300 {
		return 502
	}
	return f.Status
}

// throttled says that the upstream limits us, which takes longer to pass than
// a fault.
func (f *Failure) throttled() bool {
	return f.Throttle || f.Status == 429 || f.Status == 529
}

// told is how long the upstream asked to wait; zero when it did not, or named
// the past.
func (f *Failure) told() time.Duration {
	if !f.HasRetryAfter {
		return 0
	}
	return max(0, f.RetryAfter)
}

// transient says that a status may pass by itself.
func transient(status int) bool {
	switch status {
	case 408, 425, 429:
		return true
	case 501, 505, 511: // the next time would be no different
		return false
	}
	return status >= 500
}

func (f *Failure) finalReason() Reason {
	switch {
	case f.Phase == NotSent:
		return Unreachable
	case f.lost(), f.status() >= 500, transient(f.status()), f.Throttle:
		return AttemptsExhausted
	}
	return ""
}
