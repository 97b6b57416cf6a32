package gateway

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"oncegate/cache/report"
)

var pulseStart = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func pulseGateway() *Gateway {
	g := &Gateway{started: pulseStart}
	setDefaults(&g.opt)
	return g
}

// What a quantile says is off by a sixteenth at most, whatever the durations.
func TestHistogramQuantiles(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var h histogram
		all := make([]time.Duration, 1+rnd.IntN(500))
		for i := range all {
			all[i] = time.Duration(2000 + rnd.ExpFloat64()*float64(time.Duration(1)<<(12+rnd.IntN(25))))
			h.observe(all[i])
		}
		slices.Sort(all)
		for _, q := range []float64{.01, .5, .99, 1} {
			rank := max(0, int(float64(len(all))*q+.9999999)-1)
			got, ok := h.quantile(q)
			if want := all[rank]; !ok || got < want-want/16-1 || got > want+want/16+1 {
				t.Fatalf("of %d the quantile %v is %v, want about %v", len(all), q, got, want)
			}
		}
	}
	var h histogram
	if _, ok := h.quantile(.5); ok {
		t.Error("nothing has a median")
	}
	for _, d := range []time.Duration{-1, 0, 1, time.Hour, 1 << 62} {
		h.observe(d)
	}
	if d, _ := h.quantile(1); d < time.Hour {
		t.Errorf("the longest is %v", d)
	}
}

// Minutes are kept apart for 48 hours, and no longer; steps sum them up.
func TestPulseKeepsTwoDays(t *testing.T) {
	g := pulseGateway()
	const minutes = pulseMinutes + 90
	for i := range minutes {
		at := pulseStart.Add(time.Duration(i) * time.Minute)
		g.pulse.began(at, time.Millisecond)
		g.pulse.attempt(at, time.Second, "ok")
		if i%10 == 0 {
			g.pulse.attempt(at, 2*time.Second, "503")
			g.pulse.retried(at)
		}
	}
	now := pulseStart.Add((minutes - 1) * time.Minute)
	out := g.pulseOf(&report.Query{Since: pulseStart.AddDate(0, 0, -1), Until: now.Add(time.Minute), Zone: time.UTC}, now)
	var ok, failed, retries int64
	for _, p := range out.Points {
		ok, failed, retries = ok+p.Attempts.OK, failed+p.Attempts.Failed, retries+p.Retries
		if p.Overhead.P50 == nil || *p.Overhead.P50 < .9 || *p.Overhead.P50 > 1.1 || *p.Upstream.P99 < 900 || *p.Upstream.P99 > 2200 {
			t.Fatalf("at %v: %+v", p.At, p)
		}
	}
	if ok != pulseMinutes || failed != pulseMinutes/10 || retries != failed {
		t.Errorf("%d went well, %d failed, %d retries, in %d minutes", ok, failed, retries, pulseMinutes)
	}
	if out.Step != report.ByQuarter || !out.Points[0].At.Equal(now.Add(-(pulseMinutes-1)*time.Minute).Truncate(15*time.Minute)) {
		t.Errorf("by %s from %v", out.Step, out.Points[0].At)
	}
}

// Nothing, and none: before the node's start there are no points, and a minute
// in which nothing happened has no times.
func TestPulseTellsNothingFromZero(t *testing.T) {
	g := pulseGateway()
	g.pulse.attempt(pulseStart.Add(3*time.Minute), 20*time.Millisecond, "timeout")
	now := pulseStart.Add(5*time.Minute + time.Second)
	out := g.pulseOf(&report.Query{Since: now.Add(-time.Hour), Until: now, Zone: time.UTC}, now)
	if len(out.Points) != 6 || !out.Points[0].At.Equal(pulseStart) || out.Step != report.ByMinute {
		t.Fatalf("%d points by %s: %+v", len(out.Points), out.Step, out.Points)
	}
	for i, p := range out.Points {
		if (p.Upstream.P50 != nil) != (i == 3) || p.Overhead.P50 != nil || (p.Attempts.Timeout == 1) != (i == 3) {
			t.Errorf("minute %d: %+v", i, p)
		}
	}
	// A clock that is set back counts on.
	g.pulse.retried(pulseStart)
	if out = g.pulseOf(&report.Query{Since: now.Add(-time.Hour), Until: now, Zone: time.UTC}, now); out.Points[3].Retries != 1 {
		t.Errorf("%+v", out.Points)
	}
}

// What a request with one attempt costs.
func BenchmarkPulse(b *testing.B) {
	var p pulse
	now := time.Now()
	for i := 0; b.Loop(); i++ {
		at := now.Add(time.Duration(i) * time.Microsecond)
		p.began(at, 80*time.Microsecond)
		p.attempt(at, 40*time.Millisecond, "ok")
	}
}
