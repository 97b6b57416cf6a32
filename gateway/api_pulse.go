package gateway

import (
	"net/http"
	"time"

	"oncegate/cache/report"
)

// shownPulse is what /api/pulse answers with: this node alone, since its start.
type shownPulse struct {
	NodeSince time.Time    `json:"node_since"`
	Since     time.Time    `json:"since"`
	Until     time.Time    `json:"until"`
	Zone      string       `json:"zone"`
	Step      report.Step  `json:"step"`
	Points    []pulsePoint `json:"points"` // from the node's start on, without gaps
}

// pulsePoint is one step. Times are in milliseconds, null where nothing was
// measured.
type pulsePoint struct {
	At       time.Time     `json:"at"`
	Overhead quantiles     `json:"overhead_ms"`
	Upstream quantiles     `json:"upstream_ms"`
	Attempts pulseAttempts `json:"attempts"`
	Retries  int64         `json:"retries"`
}

type quantiles struct {
	P50 *float64 `json:"p50"`
	P99 *float64 `json:"p99"`
}

type pulseAttempts struct {
	OK          int64 `json:"ok"`
	Throttled   int64 `json:"429"`
	Failed      int64 `json:"5xx"`
	Timeout     int64 `json:"timeout"`
	Unreachable int64 `json:"unreachable"`
	Other       int64 `json:"other"`
}

// showPulse answers GET /api/pulse. Its steps are those of a series of the same
// range, so that charts have one axis.
func (g *Gateway) showPulse(w http.ResponseWriter, r *http.Request) {
	ask, refused := readQuery(r, "since", "until", "zone")
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	now := time.Now()
	q, refused := g.readRange(ask, now)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	writeFresh(w, g.pulseOf(&q, now))
}

func (g *Gateway) pulseOf(q *report.Query, now time.Time) *shownPulse {
	step := report.StepOf(q.Since, q.Until, now)
	out := &shownPulse{
		NodeSince: shownTime(g.started), Since: q.Since.Truncate(time.Millisecond).In(q.Zone), Until: q.Until.Truncate(time.Millisecond).In(q.Zone), Zone: q.Zone.String(), Step: step, Points: []pulsePoint{},
	}
	from := q.Since
	for _, t := range []time.Time{g.started, now.Add(-(pulseMinutes - 1) * time.Minute)} {
		if from.Before(t) {
			from = t
		}
	}
	// One after the other, so that there is one pair of histograms.
	var (
		at     time.Time
		sum    pulseMinute
		byStep = map[int64][]*pulsePast{}
	)
	g.pulse.each(from.Truncate(time.Minute), q.Until, func(m *pulsePast) {
		begin := step.Begin(time.Unix(60*m.minute, 0), q.Zone).Unix()
		byStep[begin] = append(byStep[begin], m)
	})
	for at = step.Begin(from, q.Zone); at.Before(q.Until) && !at.After(now); at = step.Next(at, q.Zone) {
		p := pulsePoint{At: at}
		if minutes := byStep[at.Unix()]; minutes != nil {
			sum = pulseMinute{}
			for _, m := range minutes {
				sum.overhead.add(m.overhead)
				sum.upstream.add(m.upstream)
				sum.add(&m.pulseCounts)
			}
			a := &sum.attempts
			p.Overhead, p.Upstream, p.Retries = sum.overhead.shown(), sum.upstream.shown(), sum.retries
			p.Attempts = pulseAttempts{a[pulseOK], a[pulse429], a[pulse5xx], a[pulseTimeout], a[pulseUnreachable], a[pulseOther]}
		}
		out.Points = append(out.Points, p)
	}
	return out
}

func (h *histogram) shown() quantiles {
	of := func(q float64) *float64 {
		d, ok := h.quantile(q)
		if !ok {
			return nil
		}
		ms := milliseconds(d)
		return &ms
	}
	return quantiles{of(.5), of(.99)}
}

// milliseconds is a duration as the admin listener shows it, to a microsecond.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}
