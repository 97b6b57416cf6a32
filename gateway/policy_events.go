package gateway

import (
	"slices"

	"go.uber.org/zap"

	"oncegate/policy"
)

// onPolicy counts retries, by the target's own label: clients can name models,
// and so must not make labels. What changed at the target is one line of log.
func (r *run) onPolicy(ev policy.Event) {
	i := slices.Index(r.states, ev.Target)
	if i < 0 {
		return
	}
	if ev.Kind == policy.Retried {
		r.g.metrics.retries.WithLabelValues(r.targets[i].state.Name, ev.Cause).Inc()
		return
	}
	level := zap.InfoLevel
	if ev.Kind == policy.BreakerOpened {
		level = zap.WarnLevel
	}
	if e := r.g.log.Check(level, "target"); e != nil {
		fields := append(make([]zap.Field, 0, 5), zap.String("target", ev.Target.Name), zap.Stringer("change", ev.Kind))
		if ev.Cause != "" {
			fields = append(fields, zap.String("cause", ev.Cause))
		}
		if ev.Rule != "" {
			fields = append(fields, zap.String("rule", ev.Rule))
		}
		if ev.For > 0 {
			fields = append(fields, zap.Duration("for", ev.For))
		}
		e.Write(fields...)
	}
}
