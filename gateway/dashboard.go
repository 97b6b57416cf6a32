package gateway

import "net/http"

// Page is the dashboard: files that anyone may read who reaches the admin
// listener. All that it shows, it asks /api for.
type Page interface {
	http.Handler
	Serves(path string) bool // no path of /api, of /metrics or of the probes
}

func (g *Gateway) servesPage(r *http.Request) bool {
	return g.opt.Page != nil && g.opt.Page.Serves(r.URL.Path)
}
