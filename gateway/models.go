package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// modelObject is a model in OpenAI's shape.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func (g *Gateway) model(name string, rt *route) modelObject {
	return modelObject{ID: name, Object: "model", Created: g.started.Unix(), OwnedBy: rt.targets[0].up.Provider.Name()}
}

// listModels gives the configured models that the principal may use.
func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) {
	who, ok := g.reader(w, r)
	if !ok {
		return
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{Object: "list", Data: []modelObject{}}
	for _, name := range g.routes.names {
		if who.may(name) {
			list.Data = append(list.Data, g.model(name, g.routes.byName[name]))
		}
	}
	writeJSON(w, list)
}

func (g *Gateway) oneModel(w http.ResponseWriter, r *http.Request, name string) {
	who, ok := g.reader(w, r)
	if !ok {
		return
	}
	rt := g.routes.byName[name]
	if rt == nil {
		rt = g.routes.any
	}
	switch {
	case rt == nil:
		g.refuse(w, &unknownPath, modelNotFound("the model "+strconv.Quote(clip([]byte(name), 100))+" is not configured here"))
	case !who.may(name):
		g.refuse(w, &unknownPath, notAllowed(name))
	default:
		writeJSON(w, g.model(name, rt))
	}
}

// reader lets a GET or HEAD of a known principal through.
func (g *Gateway) reader(w http.ResponseWriter, r *http.Request) (principal, bool) {
	who, refused := g.principal(r)
	if refused == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		refused = methodNotAllowed(r.Method, "GET, HEAD")
	}
	if refused != nil {
		g.refuse(w, &unknownPath, refused)
		return who, false
	}
	return who, true
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	newEvent(&unknownPath).markID(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Write(b)
}
