package gateway

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"oncegate/cache"
	"oncegate/policy"
	"oncegate/providers"
)

// routes says where each model leads.
type routes struct {
	byName      map[string]*route
	any         *route // of the model *; nil: other names are unknown
	passthrough *route
	names       []string // in the configured order, without *
}

// route is where one model leads.
type route struct {
	label   string // the model as it is configured; clients can name others
	mode    *cache.Mode
	targets []*target
	total   time.Duration // the longest that a record of it may run
}

// target is one model at one upstream.
type target struct {
	up     *Upstream
	model  string // as the upstream calls it; empty: as the client does
	weight int
	state  *policy.Target
	creds  []*policy.Credential

	// Of the model *: a state of its own for each name that is used.
	mu     sync.Mutex
	states map[string]*policy.Target
}

// maxNamedTargets bounds the states that clients can make by naming models.
// Beyond it the names of one target share one.
const maxNamedTargets = 512

func newRoutes(o Options) (*routes, error) {
	ups := make(map[string]*Upstream, len(o.Upstreams))
	creds := make(map[string][]*policy.Credential, len(o.Upstreams))
	for i := range o.Upstreams {
		u := &o.Upstreams[i]
		ups[u.Provider.Name()] = u
		for range max(1, u.Credentials) {
			creds[u.Provider.Name()] = append(creds[u.Provider.Name()], new(policy.Credential))
		}
	}
	r := &routes{byName: make(map[string]*route, len(o.Models))}
	states := map[string]*policy.Target{}
	for _, m := range o.Models {
		rt := &route{label: m.Name, mode: m.Mode}
		for _, mt := range m.Targets {
			u := ups[mt.Upstream]
			if u == nil {
				return nil, fmt.Errorf("gateway: model %q names the provider %q, which is not configured", m.Name, mt.Upstream)
			}
			t := &target{up: u, model: mt.Model, weight: mt.Weight, creds: creds[mt.Upstream]}
			name := mt.Upstream + "/*"
			if m.Name != "*" || mt.Model != "" {
				name = mt.Upstream + "/" + cmp.Or(mt.Model, m.Name)
			} else {
				t.states = map[string]*policy.Target{}
			}
			if t.state = states[name]; t.state == nil {
				t.state = &policy.Target{Name: name, Config: u.Policy, Credentials: t.creds}
				states[name] = t.state
			}
			t.state.Context = max(t.state.Context, mt.Context)
			rt.targets = append(rt.targets, t)
			rt.total = max(rt.total, u.Policy.Timeouts.Total)
		}
		if m.Name == "*" {
			r.any = rt
			continue
		}
		r.byName[m.Name] = rt
		r.names = append(r.names, m.Name)
	}
	if o.Passthrough != "" {
		u := ups[o.Passthrough]
		if u == nil {
			return nil, fmt.Errorf("gateway: passthrough names the provider %q, which is not configured", o.Passthrough)
		}
		once := u.Policy
		once.Attempts, once.TotalAttempts = 1, 1
		r.passthrough = &route{label: "-", targets: []*target{{
			up: u, state: &policy.Target{Name: o.Passthrough + "/-", Config: once, Credentials: creds[o.Passthrough]}}}}
	}
	return r, nil
}

// find gives the route of a model for an operation.
func (r *routes) find(model string, op *operation) (*route, *refusal) {
	rt := r.byName[model]
	if rt == nil {
		rt = r.any
	}
	if rt == nil {
		if model == "" {
			return nil, badBody("you must provide a model parameter", "model")
		}
		return nil, modelNotFound(fmt.Sprintf("the model %.100q is not configured here; GET /v1/models lists those that are", model))
	}
	for _, t := range rt.targets {
		if t.up.Provider.Serves(op.wire) {
			return rt, nil
		}
	}
	return nil, modelNotFound(fmt.Sprintf("no provider of the model %.100q serves /v1%s", model, op.path))
}

// order gives the targets that speak w in the order they are to be tried: one
// by weight, then the others as configured.
func (rt *route) order(w providers.Wire) []*target {
	if len(rt.targets) == 1 {
		return rt.targets
	}
	out := make([]*target, 0, len(rt.targets))
	total := 0
	for _, t := range rt.targets {
		if t.up.Provider.Serves(w) {
			out = append(out, t)
			total += max(0, t.weight)
		}
	}
	if total == 0 {
		return out
	}
	n := rand.IntN(total)
	for i, t := range out {
		if n -= max(0, t.weight); n < 0 {
			copy(out[1:i+1], out[:i])
			out[0] = t
			break
		}
	}
	return out
}

// named gives the state for a model that the client named.
func (t *target) named(model string) *policy.Target {
	if t.states == nil || model == "" {
		return t.state
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.states[model]
	switch {
	case s != nil:
	case len(t.states) >= maxNamedTargets:
		s = t.state
	default:
		s = &policy.Target{Name: t.up.Provider.Name() + "/" + model, Config: t.up.Policy, Credentials: t.creds, Context: t.state.Context}
		t.states[model] = s
	}
	return s
}
