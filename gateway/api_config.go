package gateway

import "net/http"

// ConfigValue is a value of the configuration that counts, as text, and where
// it is from: default, FILE:LINE, env NAME or flag NAME. Secrets are masked.
type ConfigValue struct {
	Path   string `json:"path"` // server.listen, models[0].name
	Value  string `json:"value"`
	Source string `json:"source"`
}

// showConfig answers GET /api/config.
func (g *Gateway) showConfig(w http.ResponseWriter, r *http.Request) {
	if _, refused := readQuery(r); refused != nil {
		g.refuse(w, &unknownPath, refused)
		return
	}
	writeFresh(w, struct {
		Values []ConfigValue `json:"values"`
	}{append([]ConfigValue{}, g.opt.Config...)})
}
