package gateway

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Data is the data listener's surface.
func (g *Gateway) Data() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	for i := range operations {
		op := &operations[i]
		e.Any("/v1"+op.path, g.handle(op))
	}
	e.Any("/v1/models", func(c echo.Context) error { g.listModels(c.Response().Writer, c.Request()); return nil })
	e.Any("/v1/models/*", func(c echo.Context) error {
		g.oneModel(c.Response().Writer, c.Request(), strings.TrimPrefix(c.Request().URL.Path, "/v1/models/"))
		return nil
	})
	e.Any("/tools/*", func(c echo.Context) error { g.serve(c.Response().Writer, c.Request(), &toolCalls); return nil })
	e.Any("/*", func(c echo.Context) error { g.elsewhere(c.Response().Writer, c.Request()); return nil })
	e.HTTPErrorHandler = func(_ error, c echo.Context) { g.elsewhere(c.Response().Writer, c.Request()) }
	return g.front(e)
}

func (g *Gateway) handle(op *operation) echo.HandlerFunc {
	return func(c echo.Context) error {
		w, r := c.Response().Writer, c.Request()
		if r.Method == http.MethodPost {
			g.serve(w, r, op)
		} else {
			g.wrongMethod(w, r, op)
		}
		return nil
	}
}

func (g *Gateway) wrongMethod(w http.ResponseWriter, r *http.Request, op *operation) {
	g.refuse(w, &operation{name: unknownPath.name, surface: op.surface}, methodNotAllowed(r.Method, http.MethodPost))
}

// elsewhere is any path that is no operation: the passthrough, or nothing.
func (g *Gateway) elsewhere(w http.ResponseWriter, r *http.Request) {
	for i := range operations { // by a method that echo has no word for
		if r.Method != http.MethodPost && r.URL.Path == "/v1"+operations[i].path {
			g.wrongMethod(w, r, &operations[i])
			return
		}
	}
	if strings.HasPrefix(r.URL.Path, "/tools/") { // likewise
		g.serve(w, r, &toolCalls)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/v1/") && g.routes.passthrough != nil {
		g.serve(w, r, &passthrough)
		return
	}
	if _, refused := g.principal(r); refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	message := "there is nothing at this path; an OpenAI client's base_url ends in /v1, an Anthropic client's does not"
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		message = "this gateway has no operation at this path; name a provider as passthrough in its configuration to have it forwarded"
	}
	g.refuse(w, &unknownPath, notFound(clip([]byte(r.URL.Path), 200)+": "+message))
}

// Admin is the admin listener's surface.
func (g *Gateway) Admin() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(g.opt.Registry, promhttp.HandlerOpts{})))
	e.GET("/api/report", func(c echo.Context) error { g.report(c.Response().Writer, c.Request()); return nil })
	e.GET("/api/targets", func(c echo.Context) error { g.listTargets(c.Response().Writer); return nil })
	only := func(method, path string, answer func(w http.ResponseWriter, r *http.Request, key string)) {
		e.Any(path, func(c echo.Context) error {
			w, r := c.Response().Writer, c.Request()
			if r.Method != method && !(r.Method == http.MethodHead && method == http.MethodGet) {
				g.refuse(w, &unknownPath, methodNotAllowed(r.Method, method))
				return nil
			}
			answer(w, r, c.Param("key"))
			return nil
		})
	}
	only(http.MethodGet, "/api/records", g.listRecords)
	only(http.MethodGet, "/api/records/:key", g.oneRecord)
	only(http.MethodPost, "/api/records/:key/resolve", g.resolveOne)
	only(http.MethodPost, "/api/records/resolve", g.resolveSeveral)
	only(http.MethodGet, "/api/audit", g.listAudit)
	for _, p := range []string{"/livez", "/healthz", "/readyz"} {
		e.Any(p, func(c echo.Context) error { g.probe(c.Response().Writer, c.Request()); return nil })
	}
	e.Any("/*", func(c echo.Context) error {
		if g.servesPage(c.Request()) {
			g.opt.Page.ServeHTTP(c.Response().Writer, c.Request())
			return nil
		}
		g.refuse(c.Response().Writer, &unknownPath, notFound("the admin listener has /api/report, /api/records, /api/audit, /api/targets, /metrics, /livez and /readyz"))
		return nil
	})
	return g.guard(e)
}
