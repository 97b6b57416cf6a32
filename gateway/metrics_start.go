package gateway

import (
	"oncegate/cache"
	"oncegate/policy"
)

// begin shows at 0 what can be counted and is known by name before it is. To
// Prometheus the first value of a series is no increase: the first failure, or
// the first dollar saved, would be missing from every graph.
func (m *metrics) begin(o Options, r *routes) {
	for _, op := range counted() {
		for _, outcome := range []string{outcomeExecuted, outcomeCoalesced, outcomeReplayed, outcomeBypassed, outcomeRefused, outcomeFailed, outcomeInDoubt} {
			m.requests.WithLabelValues(op.name, outcome)
		}
		for _, reason := range []cache.Share{cache.ByKey, cache.RetryMarked, cache.ByDebt, cache.ByTwin, cache.WithinTTL} {
			m.saved.WithLabelValues(op.name, string(reason))
		}
	}
	for i := range o.Models {
		model := o.Models[i].Name
		m.tokens.WithLabelValues(model, "input")
		m.tokens.WithLabelValues(model, "output")
		m.usd.WithLabelValues(model)
		m.unpriced.WithLabelValues(model)
	}
	billed := func(target string) {
		m.attempts.WithLabelValues(target, (*policy.Failure)(nil).Result(), string(policy.Billed))
	}
	r.each(func(label string, _ *policy.Target) { billed(label) })
	for i := range o.Tools {
		billed(o.Tools[i].Name)
		m.prevented.WithLabelValues(o.Tools[i].Name)
		m.late.WithLabelValues(o.Tools[i].Name)
	}
}
