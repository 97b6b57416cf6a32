package gateway

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"oncegate/cache/report"
	"oncegate/policy"
)

// shownTool is a tool as /api/tools shows it: how it is configured, and what
// the report has of it. Durations are milliseconds.
type shownTool struct {
	Name       string       `json:"name"`
	Configured bool         `json:"configured"` // false: it was, and the ledger still knows it
	BaseURL    string       `json:"base_url"`   // without what may be a credential
	Key        string       `json:"key"`        // optional, required
	KeyFrom    []string     `json:"key_from"`
	KeyFields  []string     `json:"key_fields"`
	Window     float64      `json:"window_ms"`              // of key_fields; 0: for as long as the record is kept
	Upstream   float64      `json:"upstream_key_window_ms"` // 0: the upstream knows no keys
	Wait       float64      `json:"wait_ms"`
	Probe      bool         `json:"probe"` // it can be asked what became of a write
	Reads      []string     `json:"reads"`
	Policy     *shownPolicy `json:"policy"` // null: it is not configured

	Calls     int64 `json:"calls"`
	Executed  int64 `json:"executed"`  // runs that it answered
	Prevented int64 `json:"prevented"` // duplicate writes
	Unknown   int64 `json:"unknown"`   // requests answered that nobody knows
	Open      int64 `json:"open"`      // writes whose outcome is unknown now, whenever they were sent
}

// shownPolicy is a retry policy, as it counts.
type shownPolicy struct {
	Attempts      int              `json:"attempts"`
	TotalAttempts int              `json:"total_attempts"`
	Backoff       shownBackoff     `json:"backoff"`
	RetryAfterCap float64          `json:"retry_after_cap_ms"`
	Budget        shownBudget      `json:"budget"`
	Breaker       shownBreaker     `json:"breaker"`
	Concurrency   shownConcurrency `json:"concurrency"`
	Timeouts      shownTimeouts    `json:"timeouts"`
}

type shownBackoff struct {
	Base         float64 `json:"base_ms"`
	ThrottleBase float64 `json:"throttle_base_ms"`
	Cap          float64 `json:"cap_ms"`
}

type shownBudget struct {
	Ratio float64 `json:"ratio"`
	Floor float64 `json:"floor"` // retries a second
}

type shownBreaker struct {
	Enabled     bool    `json:"enabled"`
	Consecutive int     `json:"consecutive"`
	FailureRate float64 `json:"failure_rate"`
	MinCalls    int     `json:"min_calls"`
	Window      float64 `json:"window_ms"`
	Cooldown    float64 `json:"cooldown_ms"`
	CooldownCap float64 `json:"cooldown_cap_ms"`
	Probes      int     `json:"probes"`
}

type shownConcurrency struct {
	Start int `json:"start"`
	Min   int `json:"min"`
	Max   int `json:"max"`
}

type shownTimeouts struct {
	Connect   float64 `json:"connect_ms"`
	FirstByte float64 `json:"first_byte_ms"`
	Idle      float64 `json:"idle_ms"`
	Total     float64 `json:"total_ms"`
}

func showPolicy(c *policy.Config) *shownPolicy {
	b, t := &c.Breaker, &c.Timeouts
	return &shownPolicy{
		Attempts: c.Attempts, TotalAttempts: c.TotalAttempts,
		Backoff:       shownBackoff{milliseconds(c.Backoff.Base), milliseconds(c.Backoff.ThrottleBase), milliseconds(c.Backoff.Cap)},
		RetryAfterCap: milliseconds(c.RetryAfterCap),
		Budget:        shownBudget{float64(c.Budget.Ratio), float64(c.Budget.Floor)},
		Breaker: shownBreaker{
			Enabled: b.Switch != policy.Off, Consecutive: b.Consecutive, FailureRate: b.FailureRate, MinCalls: b.MinCalls,
			Window: milliseconds(b.Window), Cooldown: milliseconds(b.Cooldown), CooldownCap: milliseconds(b.CooldownCap), Probes: b.Probes,
		},
		Concurrency: shownConcurrency{c.Concurrency.Start, c.Concurrency.Min, c.Concurrency.Max},
		Timeouts:    shownTimeouts{milliseconds(t.Connect), milliseconds(t.FirstByte), milliseconds(t.Idle), milliseconds(t.Total)},
	}
}

// listTools answers GET /api/tools: those that are configured, and others that
// the ledger has of the time that is asked for, so that the figures are all of
// the report's.
func (g *Gateway) listTools(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	ask, refused := readQuery(r, append([]string{"limit", "cursor"}, ledgerParams...)...)
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	q, refused := g.readLedger(ask, now)
	var page listQuery
	if refused == nil {
		page, refused = readPage(ask)
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	q.By = report.Tool
	sums, err := report.Make(r.Context(), g.opt.Store, q, now)
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	open, err := g.opt.Store.Doubts(r.Context())
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	all := make(map[string]*shownTool, len(g.tools))
	for name, t := range g.tools {
		all[name] = t.shown()
	}
	tool := func(name string) *shownTool {
		if all[name] == nil {
			all[name] = &shownTool{Name: name, KeyFrom: []string{}, KeyFields: []string{}, Reads: []string{}}
		}
		return all[name]
	}
	for i := range sums.Groups {
		s := &sums.Groups[i]
		if s.Name == "-" { // no tool: completions
			continue
		}
		t := tool(s.Name)
		t.Calls, t.Executed, t.Prevented, t.Unknown = s.Requests, s.Attempts.Billed, s.DuplicateWritesPrevented, s.Outcomes.Unknown
	}
	for name, n := range open {
		tool(name).Open = n
	}
	list := struct {
		Since time.Time    `json:"since"`
		Until time.Time    `json:"until"`
		Zone  string       `json:"zone"`
		Tools []*shownTool `json:"tools"`
		Next  string       `json:"next"`
	}{Since: sums.Since, Until: sums.Until, Zone: sums.Zone}
	names := slices.Sorted(maps.Keys(all))
	if q.Only[report.Tool] != "" {
		names = slices.DeleteFunc(names, func(name string) bool { return name != q.Only[report.Tool] })
	}
	names, list.Next, err = pageOf(names, page, func(name string) string { return name })
	if err != nil {
		g.refuse(w, &unknownPath, unread(err))
		return
	}
	list.Tools = make([]*shownTool, len(names))
	for i, name := range names {
		list.Tools[i] = all[name]
	}
	writeFresh(w, list)
}

func (t *tool) shown() *shownTool {
	out := &shownTool{
		Name: t.Name, Configured: true, BaseURL: t.Upstream.BaseURL(), Key: "optional",
		KeyFrom: append([]string{}, t.KeyFrom...), KeyFields: append([]string{}, t.KeyFields...), Window: milliseconds(t.Window),
		Upstream: milliseconds(t.UpstreamKeyWindow), Wait: milliseconds(t.Wait), Probe: t.Probe != nil, Reads: []string{}, Policy: showPolicy(&t.Policy),
	}
	if t.KeyRequired {
		out.Key = "required"
	}
	for _, r := range t.Reads {
		out.Reads = append(out.Reads, r.Method+" "+r.Path)
	}
	return out
}
