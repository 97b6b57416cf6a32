package gateway

import (
	"encoding/hex"
	"fmt"

	"oncegate/cache"
	"oncegate/policy"
)

var (
	keyExpired = &refusal{status: 412, code: "key_expired", reason: reasonKeyExpired, param: "Idempotency-Key",
		message: "this key was made longer ago than used keys are remembered (dedupe.ttl.tombstone), so nobody can tell whether it ran: make sure that it did not, then use a new key"}
	writesRefused = &refusal{status: 503, code: "store_unavailable", reason: reasonStoreAway, retry: true,
		message: "the store is away, and without it a write could run twice: nothing was sent; try again"}
)

func toolNotFound(name string) *refusal {
	return &refusal{status: 404, code: "tool_not_found", reason: reasonNotFound,
		message: fmt.Sprintf("no tool %.100q is configured here (tools); the path is /tools/NAME/...", name)}
}

func toolNotAllowed(name string) *refusal {
	return &refusal{status: 403, code: "not_allowed", reason: reasonNotAllowed,
		message: fmt.Sprintf("this key may not use the tool %.100q (auth.keys[].tools)", name)}
}

func keyRequired(t *tool) *refusal {
	message := "a write of the tool " + t.Name + " needs an Idempotency-Key header: one key for each operation, the same when it is tried again; a tool_call_id will do"
	if len(t.KeyFrom) > 0 {
		message += fmt.Sprintf("; or a key at %s of the body", t.KeyFrom[0])
	}
	return &refusal{status: 400, code: "idempotency_key_required", reason: reasonKeyRequired, param: "Idempotency-Key", message: message}
}

func unreadableKey(pointer string, err error) *refusal {
	return badBody(fmt.Sprintf("the body is looked into for a key at %.100s, and can't be read: %v", pointer, err), pointer)
}

// outcomeUnknown says that a write may or may not have happened. It is the same
// to the first caller and to every later one.
func outcomeUnknown(k cache.Key, upstream int) *refusal {
	return &refusal{status: 424, code: "idempotency_outcome_unknown", reason: policy.OutcomeUnknown, outcome: outcomeInDoubt,
		message: "the request was sent, and nobody knows whether it happened: it is not sent again. Find out at the API, then say so (oncegate records resolve), or send Oncegate-Retry-Unknown: 1 to run it again knowingly",
		more:    &facts{Record: keyText(k), Upstream: upstream}}
}

// resultGone says that a write ran, and that its answer is not there.
func resultGone(k cache.Key, r *cache.Result) *refusal {
	p := &refusal{status: 410, code: "result_gone", reason: reasonResultGone,
		message: "this write was executed, and its answer is no longer kept, or was too large to be: it is not run again",
		more:    &facts{Record: keyText(k)}}
	if r != nil {
		p.more.Upstream = r.Status
		if r.Sum != ([32]byte{}) { // else nobody has seen it whole
			size := r.Size
			p.more.Size, p.more.Sum = &size, hex.EncodeToString(r.Sum[:])
		}
	}
	return p
}

// responseLost says that a write ran or was judged, and that the answer broke off.
func responseLost(k cache.Key, upstream int) *refusal {
	did := "executed"
	if upstream >= 400 {
		did = "refused"
	}
	return &refusal{status: 502, code: "response_lost", reason: policy.ResponseLost,
		message: "the API " + did + " this write, and its answer broke off: it is not run again",
		more:    &facts{Record: keyText(k), Upstream: upstream}}
}
