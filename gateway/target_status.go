package gateway

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"oncegate/policy"
)

// each visits the state of every target, and under which label it is counted:
// clients can name models, and so must not make labels.
func (r *routes) each(visit func(label string, t *policy.Target)) {
	seen := map[*policy.Target]bool{}
	of := func(rt *route) {
		if rt == nil {
			return
		}
		for _, t := range rt.targets {
			t.mu.Lock()
			named := slices.Collect(maps.Values(t.states))
			t.mu.Unlock()
			// Where each model has a state of its own, the one for all says nothing
			// until there are too many.
			if !seen[t.state] && (len(named) == 0 || len(named) >= maxNamedTargets) {
				seen[t.state] = true
				visit(t.state.Name, t.state)
			}
			for _, s := range named {
				visit(t.state.Name, s)
			}
		}
	}
	for _, name := range r.names {
		of(r.byName[name])
	}
	of(r.any)
	of(r.passthrough)
}

// targetStatus is a target as /api/targets shows it. Times are in seconds.
type targetStatus struct {
	Target  string        `json:"target"`
	Breaker breakerStatus `json:"breaker"`
	Budget  budgetStatus  `json:"budget"`
	Limit   limitStatus   `json:"limit"`
	Holds   []holdStatus  `json:"holds"`
	Rates   []rateStatus  `json:"rate_limits"` // as the upstream last told of them
}

type breakerStatus struct {
	State      string  `json:"state"`          // closed, half_open, open
	Rule       string  `json:"rule,omitempty"` // why it is open: consecutive, low_traffic, failure_rate, probe
	HalfOpenIn float64 `json:"half_open_in"`   // 0: it is not open
	Streak     int     `json:"streak"`         // failures in a row
	Probes     int     `json:"probes"`         // in flight, while half open
}

type budgetStatus struct {
	Remaining int `json:"remaining"` // retries that may go now
}

type limitStatus struct {
	Size     int `json:"size"`      // attempts that may be under way
	InFlight int `json:"in_flight"` // that are
	Queued   int `json:"queued"`    // that wait for their turn
}

type holdStatus struct {
	Credential int     `json:"credential"` // which of the provider's keys, from 0
	All        bool    `json:"all"`        // for all models of the provider: the key was refused, or its quota is spent
	EndsIn     float64 `json:"ends_in"`
	Told       float64 `json:"told"`   // what the upstream asked for; ends_in is capped
	Status     int     `json:"status"` // what calls are answered with
}

type rateStatus struct {
	Credential int     `json:"credential"`
	Name       string  `json:"name"`      // requests, tokens, input-tokens, output-tokens
	Limit      int64   `json:"limit"`     // -1: it did not say
	Remaining  int64   `json:"remaining"` // of limit
	Reset      float64 `json:"reset"`     // until it is whole again, from when it was told
	Seen       float64 `json:"seen"`      // how long ago that was
}

// listTargets answers GET /api/targets, by name: provider/model, and tools.
func (g *Gateway) listTargets(w http.ResponseWriter, r *http.Request) {
	q, refused := readList(r)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	var all []*policy.Target
	g.routes.each(func(_ string, t *policy.Target) { all = append(all, t) })
	for _, t := range g.tools {
		all = append(all, t.state)
	}
	// A model may be reached by its own name and by another's: two states of one name.
	slices.SortStableFunc(all, func(a, b *policy.Target) int { return strings.Compare(a.Name, b.Name) })
	places := make([]string, len(all))
	for i, t := range all {
		places[i] = t.Name + "\x00"
		if i > 0 && all[i-1].Name == t.Name {
			places[i] = places[i-1] + "\x00"
		}
	}
	page, next, err := pageOf(places, q, func(place string) string { return place })
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	list := struct {
		Targets []targetStatus `json:"targets"`
		Next    string         `json:"next"`
	}{make([]targetStatus, len(page)), next}
	now := time.Now()
	for i, place := range page {
		at, _ := slices.BinarySearch(places, place)
		list.Targets[i] = shownTarget(all[at].Status(now))
	}
	writeFresh(w, list)
}

func shownTarget(s policy.Status) targetStatus {
	out := targetStatus{
		Target: s.Target,
		Breaker: breakerStatus{
			State: s.Breaker.String(), Rule: s.Rule, HalfOpenIn: s.HalfOpenIn.Seconds(), Streak: s.Streak, Probes: s.Probes,
		},
		Budget: budgetStatus{Remaining: s.Budget},
		Limit:  limitStatus{Size: s.Limit, InFlight: s.InFlight, Queued: s.Queued},
		Holds:  []holdStatus{},
		Rates:  []rateStatus{},
	}
	for _, h := range s.Holds {
		out.Holds = append(out.Holds, holdStatus{
			Credential: h.Credential, All: h.All, EndsIn: h.For.Seconds(), Told: h.Told.Seconds(), Status: h.Status,
		})
	}
	for _, l := range s.RateLimits {
		out.Rates = append(out.Rates, rateStatus{
			Credential: l.Credential, Name: l.Name, Limit: l.Limit, Remaining: l.Remaining, Reset: l.Reset.Seconds(), Seen: l.Seen.Seconds(),
		})
	}
	return out
}

var (
	budgetRemaining = prometheus.NewDesc("oncegate_retry_budget_remaining",
		"Retries that may go to the target now; of the models of a * target the fewest.", []string{"target"}, nil)
	breakerState = prometheus.NewDesc("oncegate_breaker_state",
		"0 closed, 1 half-open, 2 open; of the models of a * target the worst.", []string{"target"}, nil)
)

// targetMetrics reads the targets' states when they are asked for.
type targetMetrics struct {
	routes *routes
	tools  map[string]*tool
}

func (m targetMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- budgetRemaining
	out <- breakerState
}

func (m targetMetrics) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	worst := map[string]policy.Status{}
	see := func(label string, t *policy.Target) {
		s := t.Status(now)
		if old, ok := worst[label]; ok {
			s.Budget, s.Breaker = min(s.Budget, old.Budget), max(s.Breaker, old.Breaker)
		}
		worst[label] = s
	}
	m.routes.each(see)
	for name, t := range m.tools {
		see(name, t.state)
	}
	for label, s := range worst {
		out <- prometheus.MustNewConstMetric(budgetRemaining, prometheus.GaugeValue, float64(s.Budget), label)
		out <- prometheus.MustNewConstMetric(breakerState, prometheus.GaugeValue, float64(s.Breaker), label)
	}
}
