package gateway

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// unknownOutcomes counts the writes of which nobody knows whether they happened
// when it is asked for.
type unknownOutcomes struct{ g *Gateway }

var unknownDesc = prometheus.NewDesc("oncegate_unknown_outcomes",
	"Writes of which nobody knows whether they happened, and that wait for somebody to say so.", []string{"tool"}, nil)

func (u unknownOutcomes) Describe(out chan<- *prometheus.Desc) { out <- unknownDesc }

func (u unknownOutcomes) Collect(out chan<- prometheus.Metric) {
	if len(u.g.tools) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	doubts, err := u.g.opt.Store.Doubts(ctx)
	if err != nil { // no figure rather than a wrong one
		return
	}
	var others int64 // of tools that are not configured any more
	for name, n := range doubts {
		if u.g.tools[name] == nil {
			others += n
		}
	}
	for name := range u.g.tools {
		out <- prometheus.MustNewConstMetric(unknownDesc, prometheus.GaugeValue, float64(doubts[name]), name)
	}
	if others > 0 {
		out <- prometheus.MustNewConstMetric(unknownDesc, prometheus.GaugeValue, float64(others), "-")
	}
}
