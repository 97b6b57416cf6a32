package policy

import "time"

const (
	memoShort    = 2 * time.Second  // how long a failure answers repeats of its key
	memoLong     = 5 * time.Second  // the most it does where the upstream named a time
	comeBackMost = 24 * time.Hour   // the longest Retry-After that is passed on
	comeBackSoon = 59 * time.Second // the longest that clients sleep out by themselves
)

// result is how the call came out: with reason where that ended it from
// outside, else with what its most specific failure is called.
func (r *run) result(reason Reason) Result {
	if r.best == nil && r.held.wait > 0 && reason == r.held.reason {
		return r.refusal()
	}
	res := Result{Failure: r.best, Reason: reason, Attempts: r.total}
	if r.best == nil {
		return res
	}
	if reason != Deadline && reason != ClientGone {
		res.Reason = r.reason
	}
	if !r.back.IsZero() {
		res.RetryAfter = min(max(0, r.back.Sub(r.clock.Now())), comeBackMost)
	}
	res.Memo = memo(r.best, res.Reason, res.RetryAfter)
	return res
}

// refusal is the answer of a call that was not made, since its targets are on
// hold, or their breakers open. Up to 59 s the client is asked to come back, not in step with others.
func (r *run) refusal() Result {
	after := min(r.held.told, comeBackMost)
	soon := after <= comeBackSoon
	if soon && r.held.reason != Overloaded { // those who come back to that queue again
		after = max(after, time.Second+uniform(6*time.Second, r.rand()))
	}
	return Result{
		Reason: r.held.reason, Status: r.held.status, Attempts: r.total,
		ShouldRetry: soon && r.total == 0, // one owner of retries: not after ours
		RetryAfter:  after,
	}
}

// memo says how long a failure answers repeats of its key. It is for clients
// that know no x-should-retry and come back although attempts were used up;
// an upstream's own refusal may be asked anew, and so may what ended early
// since this call's clients, or its record, could not wait: others may.
func memo(f *Failure, reason Reason, after time.Duration) time.Duration {
	status := f.status()
	switch {
	case f.Cancelled, f.Committed,
		reason == ClientGone, reason == Deadline, reason == RetryAfterExceedsDeadline,
		reason == OutcomeUnknown, reason == ResponseLost: // those stay
		return 0
	case f.lost(), f.Phase == NotSent, status >= 500, status == 429, f.Throttle:
		if after > 0 {
			return min(after, memoLong)
		}
		return memoShort
	}
	return 0
}

// specific ranks failures by how much they tell the client of its own call.
func (f *Failure) specific() int {
	switch {
	case f.Cancelled:
		return 0
	case f.Committed: // it ends the call, so nothing may hide it
		return 7
	case f.Phase == NotSent:
		return 1
	case f.Phase == Sent:
		return 2
	case f.BadAnswer:
		return 4
	case !f.refused():
		return 3
	case f.Credential: // about the gateway's own key, not about the call
		return 5
	}
	return 6
}
