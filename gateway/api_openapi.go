package gateway

import (
	_ "embed"
	"net/http"
)

// openAPI describes what is under /api. It is written by hand, and a test holds
// the handlers to it.
//
//go:embed api_openapi.json
var openAPI []byte

// showOpenAPI answers GET /api/openapi.json.
func (g *Gateway) showOpenAPI(w http.ResponseWriter, r *http.Request) {
	if _, refused := readQuery(r); refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(openAPI)
}
