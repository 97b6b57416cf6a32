package mock

import (
	"net/http"
	"strings"
)

// remaining is a step and how many requests it still serves.
type remaining struct {
	step    Step
	left    int
	forever bool
}

// take gives the request its step: the first one left that fits, else the
// default answer.
func (m *Mock) take(r *http.Request, a *ask) Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.steps {
		if m.steps[i].step.Match.fits(r, a) {
			return m.use(i)
		}
	}
	return m.unlimited
}

// takeEarly gives the request a step that acts before the body is read, if
// such a step is the next for it. What it asks of the body cannot be known
// then, so a step that asks is left for take.
func (m *Mock) takeEarly(r *http.Request) (Step, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.steps {
		s := &m.steps[i].step
		if s.Match.needsBody() || !s.Match.fits(r, nil) {
			if s.Match.needsBody() && s.Match.mayFit(r) {
				return Step{}, false // it may be its turn: only the body tells
			}
			continue
		}
		if !s.breaksEarly() {
			return Step{}, false
		}
		return m.use(i), true
	}
	return Step{}, false
}

// accept gives a new connection a step that breaks it at once, if that is
// the very next one.
func (m *Mock) accept() (Step, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Accepts++
	if len(m.steps) == 0 {
		return Step{}, false
	}
	s := &m.steps[0].step
	if s.Match != (Match{}) || !at(s.Reset, AtAccept) && !at(s.Close, AtAccept) {
		return Step{}, false
	}
	return m.use(0), true
}

// use counts a step as served once, and drops it when that was the last time.
func (m *Mock) use(i int) Step {
	s := m.steps[i].step
	if m.steps[i].forever {
		return s
	}
	if m.steps[i].left--; m.steps[i].left == 0 {
		if i == 0 { // long scripts are mostly taken from the front
			m.steps = m.steps[1:]
			return s
		}
		m.steps = append(m.steps[:i], m.steps[i+1:]...)
	}
	return s
}

func (s *Step) breaksEarly() bool {
	for _, p := range []*Point{s.Reset, s.Close, s.Hang} {
		if at(p, AtAccept) || at(p, AtRequest) {
			return true
		}
	}
	return false
}

func at(p *Point, place Place) bool {
	if p == nil {
		return false
	}
	return p.At == place || p.At == "" && place == AtHeaders
}

func (t *Match) needsBody() bool { return t.Model != "" || t.Body != "" || t.Stream != nil }

// mayFit looks only at what is known before the body.
func (t *Match) mayFit(r *http.Request) bool {
	known := Match{Method: t.Method, Path: t.Path, Header: t.Header}
	return known.fits(r, nil)
}

// fits says whether a request is one of those meant; a is nil while its body
// is not read.
func (t *Match) fits(r *http.Request, a *ask) bool {
	if t.Path == "" && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/models") {
		return false
	}
	if t.Method != "" && r.Method != t.Method || !strings.Contains(r.URL.Path, t.Path) {
		return false
	}
	if t.Header != "" && !headerHas(r.Header, t.Header) {
		return false
	}
	if a == nil {
		return !t.needsBody()
	}
	return (t.Model == "" || a.model == t.Model) &&
		(t.Body == "" || strings.Contains(string(a.raw), t.Body)) &&
		(t.Stream == nil || *t.Stream == a.stream)
}

func headerHas(h http.Header, part string) bool {
	for name, lines := range h {
		for _, v := range lines {
			if strings.Contains(name+": "+v, part) {
				return true
			}
		}
	}
	return false
}
