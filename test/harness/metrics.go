package harness

import (
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metrics are the samples of /metrics, by their names with labels as they are
// written there.
type Metrics map[string]float64

// Metrics asks the admin listener.
func (g *Gateway) Metrics() Metrics {
	g.t.Helper()
	res, err := g.client.Get("http://" + g.Admin + "/metrics")
	if err != nil {
		select {
		case <-g.ended:
			g.t.Fatalf("oncegate ended: %v", g.err)
		default:
			g.t.Errorf("metrics: %v", err)
		}
		return Metrics{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		g.t.Errorf("metrics: %d, %v", res.StatusCode, err)
		return Metrics{}
	}
	m := Metrics{}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		cut := strings.LastIndexByte(line, ' ')
		if line == "" || line[0] == '#' || cut < 0 {
			continue
		}
		if v, err := strconv.ParseFloat(line[cut+1:], 64); err == nil {
			m[line[:cut]] = v
		}
	}
	return m
}

// Sum adds the samples of that name that have all of these labels, each
// written name="value".
func (m Metrics) Sum(name string, labels ...string) float64 {
	var sum float64
next:
	for sample, v := range m {
		base, rest, _ := strings.Cut(sample, "{")
		if base != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains("{"+rest, "{"+l) && !strings.Contains(rest, ","+l) {
				continue next
			}
		}
		sum += v
	}
	return sum
}

// Has says that there is a sample of that name.
func (m Metrics) Has(name string) bool {
	for sample := range m {
		if base, _, _ := strings.Cut(sample, "{"); base == name {
			return true
		}
	}
	return false
}
