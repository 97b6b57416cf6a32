package gateway

import "net/http"

// adminRoute is one thing that the admin listener's API can be asked. GET has
// HEAD with it.
type adminRoute struct {
	method, path string // parts of the path after a colon are parameters
	answer       func(w http.ResponseWriter, r *http.Request, key string)
}

// adminRoutes are all of them, as api_openapi.json describes them.
func (g *Gateway) adminRoutes() []adminRoute {
	plain := func(answer http.HandlerFunc) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, r *http.Request, _ string) { answer(w, r) }
	}
	return []adminRoute{
		{http.MethodGet, "/api/openapi.json", plain(g.showOpenAPI)},
		{http.MethodGet, "/api/summary", plain(g.showSummary)},
		{http.MethodGet, "/api/series", plain(g.showSeries)},
		{http.MethodGet, "/api/pulse", plain(g.showPulse)},
		{http.MethodGet, "/api/report", plain(g.report)},
		{http.MethodGet, "/api/prices", plain(g.listPrices)},
		{http.MethodGet, "/api/config", plain(g.showConfig)},
		{http.MethodGet, "/api/events", plain(g.stream)},
		{http.MethodPost, "/api/demo", plain(g.playDemo)},
		{http.MethodGet, "/api/tools", plain(g.listTools)},
		{http.MethodGet, "/api/targets", plain(g.listTargets)},
		{http.MethodGet, "/api/requests", plain(g.listRequests)},
		{http.MethodGet, "/api/requests/:id", plain(g.oneRequest)},
		{http.MethodGet, "/api/records", g.listRecords},
		{http.MethodGet, "/api/records/:key", g.oneRecord},
		{http.MethodPost, "/api/records/:key/resolve", g.resolveOne},
		{http.MethodPost, "/api/records/:key/forget", g.forgetOne},
		{http.MethodPost, "/api/records/:key/probe", g.probeOne},
		{http.MethodPost, "/api/records/resolve", g.resolveSeveral},
		{http.MethodGet, "/api/audit", g.listAudit},
	}
}
