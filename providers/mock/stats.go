package mock

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Stats is what the mock was asked since the start or the last Reset.
type Stats struct {
	Requests     int64         `json:"requests"`      // whose body arrived whole
	Partial      int64         `json:"partial"`       // whose body did not
	Billed       int64         `json:"billed"`        // requests a provider would have charged for: see docs/mock.md
	InputTokens  int64         `json:"input_tokens"`  // of the billed ones
	OutputTokens int64         `json:"output_tokens"` // of the billed ones, as far as they were sent
	Aborts       int64         `json:"aborts"`        // requests whose client left before the end of the answer
	Inflight     int64         `json:"inflight"`      // being answered now
	Accepts      int64         `json:"accepts"`       // connections; 0 where the mock does not own the listener
	StepsLeft    int           `json:"steps_left"`    // of the script
	Statuses     map[int]int64 `json:"statuses"`
	By           []Count       `json:"by"` // in order of path and model

	// Of the write API.
	Executions int64               `json:"executions"` // writes that had their effect
	Replays    int64               `json:"replays"`    // answers remembered by their key
	Resources  int64               `json:"resources"`  // payments and refunds made
	ByKey      map[string]KeyCount `json:"by_key"`     // writes, by idempotency key, honoured or not
	ByRef      map[string]int64    `json:"by_ref"`     // executions, by the payment's ref
	Payments   []Payment           `json:"payments"`   // in the order in which they were made; the last 100,000

	Arrivals []Arrival `json:"arrivals"` // in order; the last 10,000
}

// Count is Stats of one path and model.
type Count struct {
	Path         string `json:"path"`
	Model        string `json:"model"`
	Requests     int64  `json:"requests"`
	Billed       int64  `json:"billed"`
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	Aborts       int64  `json:"aborts"`
	Executions   int64  `json:"executions"`
}

// Arrival is one request whose body arrived whole.
type Arrival struct {
	N       int64     `json:"n"` // from 1
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Query   string    `json:"query,omitempty"` // as it came
	Model   string    `json:"model"`
	Stream  bool      `json:"stream"`
	SHA256  string    `json:"sha256"`           // of the body
	Status  int       `json:"status,omitempty"` // 0: none was sent yet, or ever
	Chunks  int       `json:"chunks,omitempty"` // written
	Billed  bool      `json:"billed"`
	Aborted bool      `json:"aborted"` // the client left before the end
	Broken  string    `json:"broken,omitempty"`
	Done    bool      `json:"done"` // nothing more will be sent

	Key      string `json:"key,omitempty"`      // the idempotency key of a request to the write API
	Executed bool   `json:"executed,omitempty"` // it had an effect
	Replayed bool   `json:"replayed,omitempty"` // its key's first answer was found

	Header http.Header `json:"header,omitempty"` // with record only, Host included
	Body   string      `json:"body,omitempty"`   // with record only
}

// maxArrivals and maxKept bound what is kept of the arrivals.
const (
	maxArrivals = 10_000
	maxKept     = 256 << 20 // bytes of bodies; older ones are dropped
)

type counters struct {
	Stats
	by   map[[2]string]*Count
	list []*Arrival
	kept int // bytes of bodies in list
}

func (c *counters) reset() {
	*c = counters{Stats: Stats{Inflight: c.Inflight}}
}

func (c *counters) of(a *Arrival) *Count {
	key := [2]string{a.Path, a.Model}
	if c.by[key] == nil {
		if c.by == nil {
			c.by = map[[2]string]*Count{}
		}
		c.by[key] = &Count{Path: a.Path, Model: a.Model}
	}
	return c.by[key]
}

// Stats is a copy: the caller may keep it.
func (m *Mock) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats.Stats
	s.Statuses = maps.Clone(s.Statuses)
	if s.Statuses == nil {
		s.Statuses = map[int]int64{}
	}
	for _, r := range m.steps {
		if !r.forever {
			s.StepsLeft += r.left
		}
	}
	s.By = []Count{}
	for _, c := range m.stats.by {
		s.By = append(s.By, *c)
	}
	slices.SortFunc(s.By, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Model, b.Model))
	})
	s.Arrivals = make([]Arrival, len(m.stats.list))
	for i, a := range m.stats.list {
		s.Arrivals[i] = *a
	}
	m.payments.count(&s)
	return s
}

// count fills in what the stats tell of the write API.
func (p *payments) count(s *Stats) {
	s.Executions, s.Replays, s.Resources = p.executions, p.replays, p.resources
	s.ByKey, s.ByRef = map[string]KeyCount{}, map[string]int64{}
	maps.Copy(s.ByKey, p.byKey.entries)
	maps.Copy(s.ByRef, p.byRef.entries)
	s.Payments = make([]Payment, len(p.byID.order))
	for i, id := range p.byID.order {
		s.Payments[i] = *p.byID.get(id)
	}
}

// count changes the counts.
func (m *Mock) count(change func(*counters)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.stats)
}

func (m *Mock) track(d int64) {
	m.count(func(c *counters) { c.Inflight += d })
}

func (m *Mock) copyOf(a *Arrival) Arrival {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *a
}

// arrive books a request whose body is here.
func (m *Mock) arrive(r *http.Request, ask *ask) *Arrival {
	a := &Arrival{
		At: time.Now(), Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery,
		Model: ask.model, Stream: ask.stream, SHA256: ask.sha,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.stats
	c.Requests++
	a.N = c.Requests
	c.of(a).Requests++
	if ask.op == paymentsOperation {
		a.Key = r.Header.Get(m.script.Keys.header())
	}
	if m.script.Record {
		a.Header, a.Body = r.Header.Clone(), string(ask.raw)
		a.Header.Set("Host", r.Host)
		c.kept += len(a.Body)
		for i := 0; c.kept > maxKept && i < len(c.list); i++ {
			c.kept -= len(c.list[i].Body)
			c.list[i].Body = ""
		}
	}
	c.list = append(c.list, a)
	if len(c.list) > maxArrivals {
		c.kept -= len(c.list[0].Body)
		c.list = append(c.list[:0:0], c.list[1:]...)
	}
	return a
}
