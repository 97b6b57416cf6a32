package gateway

// demoModel is a model that the built-in mock upstream alone answers, so that
// asking it costs nothing; empty: there is none.
func (g *Gateway) demoModel() string {
	for _, name := range g.routes.names {
		if g.routes.byName[name].mocked() {
			return name
		}
	}
	if g.routes.any != nil && g.routes.any.mocked() {
		return "mock"
	}
	return ""
}

func (rt *route) mocked() bool {
	for _, t := range rt.targets {
		if !t.up.Mock {
			return false
		}
	}
	return len(rt.targets) > 0
}
