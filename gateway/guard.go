package gateway

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// cutPanic ends the connection of a request whose handling panicked: of what was
// sent, nobody can say that it is whole.
func (g *Gateway) cutPanic() {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		g.tellPanic(p)
	}
	panic(http.ErrAbortHandler)
}

// guard keeps the admin listener to those who may: with a token they must
// show it, without one they must name this machine, so that no page in a
// browser reaches it by a name that was made to lead here. Changes are
// refused to pages of another origin: a browser sends theirs without asking.
func (g *Gateway) guard(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer g.cutPanic()
		switch r.URL.Path {
		case "/livez", "/healthz", "/readyz": // no secrets there
			next.ServeHTTP(w, r)
			return
		}
		// The page has no secrets in it either, and asks for the token itself.
		if want := g.opt.AdminToken; want != "" && !g.servesPage(r) {
			got, _ := credential(r.Header)
			if subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
				g.refuse(w, &unknownPath, &refusal{status: 401, code: "invalid_api_key", reason: reasonUnauthorized,
					message: "the admin listener needs auth.admin_token as Authorization: Bearer"})
				return
			}
		} else if want == "" && !loopbackHost(r.Host) {
			g.refuse(w, &unknownPath, &refusal{status: 403, code: "not_allowed", reason: reasonCrossOrigin,
				message: "the admin listener answers to loopback names only, not to " + clip([]byte(strings.TrimSpace(r.Host)), 100)})
			return
		}
		if origins.Check(r) != nil {
			g.refuse(w, &unknownPath, &refusal{status: 403, code: "not_allowed", reason: reasonCrossOrigin,
				message: "changes are taken from this listener's own page and from programs, not from a page of another origin"})
			return
		}
		next.ServeHTTP(w, r)
	})
}
