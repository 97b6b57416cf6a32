package gateway

import (
	"slices"
	"time"

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
	r.trace.heldBack(ev)
	r.g.onPolicy(r.targets[i].state.Name, ev)
}

func (r *toolRun) onPolicy(ev policy.Event) {
	r.trace.heldBack(ev)
	r.g.onPolicy(r.t.Name, ev)
}

func (g *Gateway) onPolicy(label string, ev policy.Event) {
	if ev.Kind == policy.Retried {
		g.metrics.retries.WithLabelValues(label, ev.Cause).Inc()
		g.pulse.retried(time.Now())
		return
	}
	level := zap.InfoLevel
	if ev.Kind == policy.BreakerOpened {
		level = zap.WarnLevel
	}
	if e := g.log.Check(level, "target"); e != nil {
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
