package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"oncegate/cache"
	"oncegate/policy"
)

// metrics are the gateway's counts. Label sets are bounded: no user, no key,
// and of models that are not configured only one name.
type metrics struct {
	requests  *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	retries   *prometheus.CounterVec
	saved     *prometheus.CounterVec
	tokens    *prometheus.CounterVec
	usd       *prometheus.CounterVec
	unpriced  *prometheus.CounterVec
	prevented *prometheus.CounterVec
	late      *prometheus.CounterVec
	gauges    map[*operation]gauges
	overhead  prometheus.Histogram
	upstream  prometheus.Histogram
	store     *prometheus.HistogramVec
}

// replays is a provider that can tell how often its transport sent a request
// a second time by itself: never, or it is a bug.
type replays interface{ TransportReplays() int64 }

// gauges are those of one operation.
type gauges struct{ running, following prometheus.Gauge }

func newMetrics(o Options, relaxed func() float64) *metrics {
	reg := o.Registry
	buckets := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_requests_total",
			Help: "Requests, each by the one outcome that it had."}, []string{"operation", "outcome"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_upstream_attempts_total",
			Help: "Attempts upstream, by how they came out and whether they were billed."}, []string{"target", "result", "billing"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_retries_total",
			Help: "Attempts beyond a call's first, by what made them necessary."}, []string{"target", "cause"}),
		saved: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_saved_requests_total",
			Help: "Requests answered without an upstream call of their own, by why the answer was shared."}, []string{"operation", "reason"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_saved_tokens_total",
			Help: "Tokens of the answers that were shared."}, []string{"model", "kind"}),
		usd: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_saved_usd_total",
			Help: "US dollars that the answers which were shared would have cost again."}, []string{"model"}),
		unpriced: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_unpriced_requests_total",
			Help: "Requests whose answer has tokens and no price."}, []string{"model"}),
		prevented: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_duplicate_writes_prevented_total",
			Help: "Keyed writes that were asked for again and did not run again."}, []string{"tool"}),
		late: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "oncegate_late_executions_total",
			Help: "Writes that their API says it executed after their key was given free, so that they may have run again."}, []string{"tool"}),
		overhead: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "oncegate_overhead_seconds",
			Help: "From a request's arrival to its call's first attempt.", Buckets: buckets}),
		upstream: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "oncegate_upstream_seconds",
			Help: "How long attempts upstream took, to the end of their answer.", Buckets: prometheus.ExponentialBuckets(.005, 2.5, 12)}),
		store: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "oncegate_store_seconds",
			Help: "How long steps at the store took, those too that it did not answer.", Buckets: buckets}, []string{"op"}),
		gauges: make(map[*operation]gauges, len(operations)+1),
	}
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "oncegate_inflight",
		Help: "Records that run now."}, []string{"operation"})
	following := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "oncegate_followers",
		Help: "Clients that follow a call that another one leads."}, []string{"operation"})
	for _, op := range counted() {
		m.gauges[op] = gauges{running.WithLabelValues(op.name), following.WithLabelValues(op.name)}
	}
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "oncegate_transport_replays_total",
		Help: "Requests that a transport sent a second time by itself. Always 0."}, func() (n float64) {
		for _, u := range o.Upstreams {
			if r, ok := u.Provider.(replays); ok {
				n += float64(r.TransportReplays())
			}
		}
		for _, t := range o.Tools {
			n += float64(t.Upstream.TransportReplays())
		}
		return n
	}))
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "oncegate_store_relaxed",
		Help: "1 where the store may lose in a crash what it acknowledged, else 0."}, relaxed))
	reg.MustRegister(m.requests, m.attempts, m.retries, m.saved, m.tokens, m.usd, m.unpriced, m.prevented, m.late, running, following, m.overhead, m.upstream, m.store)
	return m
}

// request counts a request that is over, from its line in the ledger.
func (m *metrics) request(ev *event, line *cache.Line) {
	m.requests.WithLabelValues(line.Operation, line.Outcome).Inc()
	if line.Unpriced > 0 {
		m.unpriced.WithLabelValues(ev.label).Inc()
	}
	if line.Prevented > 0 {
		m.prevented.WithLabelValues(line.Tool).Inc()
	}
	if line.SavedRequests == 0 {
		return
	}
	m.saved.WithLabelValues(line.Operation, line.Reason).Inc()
	if line.SavedInput+line.SavedOutput > 0 {
		m.tokens.WithLabelValues(ev.label, "input").Add(float64(line.SavedInput))
		m.tokens.WithLabelValues(ev.label, "output").Add(float64(line.SavedOutput))
	}
	if line.Saved != (cache.Money{}) {
		m.usd.WithLabelValues(ev.label).Add(line.Saved.Float())
	}
}

func (m *metrics) attempt(target, result string, b policy.Billing) {
	m.attempts.WithLabelValues(target, result, string(b)).Inc()
}

func (m *metrics) inflight(op *operation, d float64) { m.gauges[op].running.Add(d) }

func (m *metrics) followers(op *operation, d float64) { m.gauges[op].following.Add(d) }

// began counts what a call took before its first attempt.
func (g *Gateway) began(c *call, first time.Time) {
	overhead := first.Sub(c.arrived)
	g.metrics.overhead.Observe(overhead.Seconds())
	g.pulse.began(first, overhead)
}

// attempted counts an attempt that is over, and says how long it took.
func (g *Gateway) attempted(start time.Time, target, result string, b policy.Billing) time.Duration {
	now := time.Now()
	took := now.Sub(start)
	g.metrics.upstream.Observe(took.Seconds())
	g.metrics.attempt(target, result, b)
	g.pulse.attempt(now, took, result)
	return took
}
