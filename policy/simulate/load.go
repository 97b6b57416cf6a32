package simulate

import "time"

// Bin is what happened in a short time.
type Bin struct {
	Calls    int `json:"calls"`    // that began in it
	Offered  int `json:"offered"`  // attempts that reached the upstream in it
	Answered int `json:"answered"` // of Calls, those that had their answer in the end
}

// meter counts by bins.
type meter struct {
	width time.Duration
	bins  []Bin
}

func (m *meter) now(w *world) *Bin { return m.at(w.now) }

// at is the bin of a moment.
func (m *meter) at(t time.Duration) *Bin {
	n := int(t / m.width)
	for len(m.bins) <= n {
		m.bins = append(m.bins, Bin{})
	}
	return &m.bins[n]
}
