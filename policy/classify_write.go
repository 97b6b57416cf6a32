package policy

// classifyWrite judges a failed write. What was not sent, or what the upstream
// says it only answers before it did anything, may go again. Of the rest
// nobody knows whether it happened: it goes again only where the upstream
// tells a second one from the first by its key. A write never changes its
// target, and one without a client's key goes again only if nothing was sent:
// its client has no way to say that a second one is the same.
func classifyWrite(k Kind, f *Failure) Verdict {
	status := f.status()
	v := Verdict{Reason: f.finalReason()}
	switch {
	case f.Phase == NotSent:
		return Verdict{Same: true, Reason: Unreachable}
	case f.Phase == Sent:
		v = Verdict{Same: k == DedupWrite, Reason: OutcomeUnknown}
	case !f.refused(): // a 2xx that broke off, or is no answer
		v = Verdict{Same: k == DedupWrite, Reason: ResponseLost}
	case f.Quota:
		return Verdict{Reason: QuotaSpent}
	case f.Credential:
		return Verdict{Reason: UpstreamCredential}
	case f.NotExecuted, status == 425, status == 429:
		v.Same = k != UnkeyedWrite
	case status == 409:
		v.Same = k == DedupWrite // the first of the two still runs
	case status == 501, status == 505, status == 511: // refused, whatever the write
	case status == 408, status >= 500:
		v = Verdict{Same: k == DedupWrite, Reason: OutcomeUnknown}
	}
	switch {
	case f.ShouldRetry < 0:
		v.Same = false
	case f.ShouldRetry > 0 && k == DedupWrite:
		v.Same = true
	}
	return v
}
