// Package policy decides how a call to an upstream is tried again: which
// failures are worth another attempt, how long to wait, which target and
// credential come next, and when to stop. Decisions are pure functions with
// no clock and no I/O; one small loop around them, Engine.Do, sleeps.
//
// It knows nothing of HTTP frameworks, of records, or of what a completion is.
package policy

import "time"

// Config is the retry policy of one target. The zero value of a field means
// its default; Defaults gives them all.
type Config struct {
	Attempts      int           // attempts a target, the first included; default 3
	TotalAttempts int           // attempts over all targets of a call; default 5
	Backoff       Backoff       // full jitter
	RetryAfterCap time.Duration // a longer Retry-After is not slept out; default 60 s
	Budget        Budget
	Breaker       Breaker
	Concurrency   Concurrency
	Timeouts      Timeouts
}

// Backoff is full jitter: the n-th retry waits uniform[0, min(Cap, base*2^(n-1))).
type Backoff struct {
	Base         time.Duration // default 500 ms
	ThrottleBase time.Duration // the base after 429, 529 and their in-band kin; default 1 s
	Cap          time.Duration // default 30 s
}

// Budget bounds the retries that go to a target by the originals, the first
// attempts that calls make there: to Ratio of those of ten seconds, and in any
// one second to a fifth of that. Less than Floor a second, on average over ten,
// and twice that in any one, are always allowed.
type Budget struct {
	Ratio     float64 // default 0.1
	Floor     float64 // retries a second; default 10
	OneSecond Switch  // Off: any one second may use up all ten; only to show what that does
}

// Breaker stops calls to a target that fails. It opens on Consecutive failures
// in a row, on LowTraffic's, or once FailureRate of at least MinCalls outcomes
// within Window are failures. It stays open for Cooldown, doubled up to
// CooldownCap each time a probe fails, and times uniform(0.8, 1.2); then Probes
// may be in flight at once, and as many successes close it.
type Breaker struct {
	Switch      Switch // Off: it never opens
	Consecutive int    // default 20
	LowTraffic  LowTraffic
	FailureRate float64       // default 0.5
	MinCalls    int           // default 20
	Window      time.Duration // default 10 s
	Cooldown    time.Duration // default 1 s
	CooldownCap time.Duration // default 15 s
	Probes      int           // default 3
}

// LowTraffic is a streak of failures that is shorter, and takes longer.
type LowTraffic struct {
	Consecutive int           // default 5
	Over        time.Duration // from the first of them to the last; default 2 s
}

// Concurrency bounds the attempts that are under way on a target: Start at
// first, shrunk by a tenth at most once a second when the upstream answers 429,
// 503 or 529, or not in time, and regrown by a tenth a second while half of it is
// used. As many wait for their turn as the limit is.
type Concurrency struct {
	Start int // default 4096
	Min   int // default 16
	Max   int // default 4096; the others are never more
}

// Switch turns something on or off. The zero value leaves that to the
// defaults, which is on.
type Switch uint8

const (
	ByDefault Switch = iota
	On
	Off
)

// Timeouts bound one attempt, but for Total, which bounds the record.
type Timeouts struct {
	Connect   time.Duration // DNS, dial and TLS; default 5 s
	FirstByte time.Duration // from the request written to the first byte of a stream; default 120 s
	Idle      time.Duration // between bytes of an answer; default 5 min
	Total     time.Duration // the record's deadline; default 10 min
}

// Kind says what a second run of the call would cost.
type Kind uint8

const (
	Read         Kind = iota // free of effects and of cost
	Completion               // pure, but billed
	DedupWrite               // a write with a client's key, that the upstream deduplicates by a key of ours
	Write                    // any other write with a client's key: a second run may be a second effect
	UnkeyedWrite             // a write without a client's key
)

// Phase says how far an attempt came.
type Phase uint8

const (
	NotSent  Phase = iota // P0: provably not one byte of the request left
	Sent                  // P1: sent, wholly or in part; no response headers
	Answered              // P2: a status was received, and the body as far as it matters
	Broken                // P3: the body broke after the headers
)

// Failure is why an attempt did not succeed. Who makes it fills in what the
// wire said; what follows from it is decided here.
type Failure struct {
	Phase  Phase
	Status int // the upstream's status; of an error inside a 200, the status inside, 502 when it names none; 0 when there was none

	Timeout       bool // the attempt's own limit passed (connect, first byte, idle)
	Cancelled     bool // our own side ended it: nobody reads any more, or the record's deadline
	BadAnswer     bool // a 2xx that was empty, unreadable, or held an error
	Throttle      bool // 429, 529, and in-band errors of those types
	Quota         bool // a spent quota, by the exact field values of the body, or 402: final for this credential
	Credential    bool // 401 or 403: the credential is refused
	ContextLength bool // the input is too long for this model
	Committed     bool // content had already reached a client: never tried again
	NotExecuted   bool // of a write: a status that its tool sends only before it did anything

	ShouldRetry   int8          // the upstream's x-should-retry: -1 false, 0 absent, +1 true
	RetryAfter    time.Duration // how long it asked to wait, when HasRetryAfter; zero or less: it named the past
	HasRetryAfter bool

	Err error // the cause, with what the client is to be told
}

// Reason says in one word why a call failed. The same word is the log field,
// the metric label and the Oncegate-Reason header.
type Reason string

const (
	TargetHeld                Reason = "target_held"
	CircuitOpen               Reason = "circuit_open"
	BudgetExhausted           Reason = "budget_exhausted"
	Overloaded                Reason = "overloaded" // too many wait for the target
	AttemptsExhausted         Reason = "attempts_exhausted"
	RetryAfterExceedsCap      Reason = "retry_after_exceeds_cap"
	RetryAfterExceedsDeadline Reason = "retry_after_exceeds_deadline"
	QuotaSpent                Reason = "quota_spent"
	Deadline                  Reason = "deadline"
	UpstreamCredential        Reason = "upstream_credential"
	Unreachable               Reason = "unreachable"
	StreamBroken              Reason = "stream_broken"
	OutcomeUnknown            Reason = "ambiguous"     // a write that may or may not have happened
	ResponseLost              Reason = "response_lost" // a write that happened, and whose answer was lost
	ClientGone                Reason = "client_gone"
)

// Billing says what an attempt cost, as far as anyone on this side can know.
type Billing string

const (
	Billed    Billing = "billed"    // a usable 2xx, read to its end
	Unbilled  Billing = "unbilled"  // nothing sent, or a status that means refused
	Ambiguous Billing = "ambiguous" // sent, and no whole answer came back
)
