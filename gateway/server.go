package gateway

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// front is what every request on the data listener meets first: path hygiene,
// the page that a browser might send from, and the probes that need no key.
func (g *Gateway) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := cleanPath(r); refused != nil {
			g.refuse(w, unknown(r), refused)
			return
		}
		origin := r.Header.Get("Origin")
		allowed := origin != "" && g.allowedOrigin(origin)
		if allowed {
			corsHeaders(w.Header(), origin)
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				preflight(w, r)
				return
			}
		}
		switch strings.TrimSuffix(r.URL.Path, "/") {
		case "/livez", "/healthz", "/readyz":
			g.probe(w, r)
			return
		case "":
			if r.Method == http.MethodHead {
				return
			}
		}
		if len(g.clients) == 0 && !allowed && g.foreign(r) {
			g.refuse(w, unknown(r), crossOrigin)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// unknownPath stands for requests that name no operation; they are not counted.
var unknownPath = operation{name: "-"}

// unknown is unknownPath, whose errors have the shape that the path's have.
func unknown(r *http.Request) *operation {
	if strings.HasPrefix(r.URL.Path, "/tools/") {
		return &operation{name: unknownPath.name, surface: toolCalls.surface}
	}
	return &unknownPath
}

// cleanPath refuses dot segments and makes a trailing slash and a doubled /v1
// reach the same place.
func cleanPath(r *http.Request) *refusal {
	for segment := range strings.FieldsFuncSeq(r.URL.Path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if segment, _, _ = strings.Cut(segment, ";"); segment == "." || segment == ".." { // servlets take what follows away
			return badBody("the path has a dot segment", "")
		}
	}
	if p := r.URL.Path; strings.HasPrefix(p, "/v1") {
		for strings.HasPrefix(p, "/v1/v1/") {
			p = p[3:]
		}
		if len(p) > 1 {
			p = strings.TrimRight(p, "/")
		}
		if p != r.URL.Path && r.URL.RawPath != "" { // with %2F and the like: the same, as it came
			raw := r.URL.RawPath
			for strings.HasPrefix(raw, "/v1/v1/") {
				raw = raw[3:]
			}
			r.URL.RawPath = strings.TrimRight(raw, "/")
		}
		r.URL.Path = p
	}
	return nil
}

func (g *Gateway) allowedOrigin(origin string) bool {
	return slices.Contains(g.opt.Origins, origin) || slices.Contains(g.opt.Origins, "*")
}

// foreign says that a request to an open gateway comes from a web page that
// is not of this machine. Programs send no Origin.
func (g *Gateway) foreign(r *http.Request) bool {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		return true
	}
	if o := r.Header.Get("Origin"); o != "" {
		u, err := url.Parse(o)
		if err != nil || !loopbackHost(u.Host) {
			return true
		}
	}
	return !g.opt.AuthOpen && !loopbackHost(r.Host) // a name that was made to lead here
}

// loopbackHost says whether a Host header names this machine.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// exposed are our response headers that a page may read.
const exposed = "Oncegate-Outcome, Oncegate-Reason, Oncegate-Key, Oncegate-Attempts, Oncegate-Target, " +
	"Idempotent-Replayed, Age, X-Should-Retry, Retry-After, Retry-After-Ms, X-Request-Id, Request-Id"

func corsHeaders(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", exposed)
}

func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	methods := "GET, POST, OPTIONS"
	if strings.HasPrefix(r.URL.Path, "/tools/") {
		methods = "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE"
	}
	h.Set("Access-Control-Allow-Methods", methods)
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}

// probe answers the health checks. They call no upstream.
func (g *Gateway) probe(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		g.refuse(w, &unknownPath, methodNotAllowed(r.Method, "GET, HEAD"))
		return
	}
	status, text := http.StatusOK, "ok"
	away := g.storeAway()
	if strings.HasPrefix(r.URL.Path, "/readyz") {
		switch {
		case g.unready.Load():
			status, text = http.StatusServiceUnavailable, "draining"
		case away && g.opt.RefuseUnprotected:
			status, text = http.StatusServiceUnavailable, "the store is away"
		}
	}
	if r.URL.Query().Has("verbose") {
		text += "\n" + g.verbose(away)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write([]byte(text))
}

// verbose says what readiness comes from. Why the store is away or relaxed is
// in the log and for the operator: it names addresses.
func (g *Gateway) verbose(away bool) string {
	word, _, _ := strings.Cut(g.durability(), ":")
	lines := []string{"not draining", "the store can be asked", "durability: " + word}
	if g.unready.Load() {
		lines[0] = "stopping: new requests go elsewhere"
	}
	switch {
	case away && g.opt.RefuseUnprotected:
		lines[1] = "the store is away: calls are refused (store.on_outage)"
	case away:
		lines[1] = "the store is away: completions run unprotected"
	}
	return strings.Join(lines, "\n") + "\n"
}
