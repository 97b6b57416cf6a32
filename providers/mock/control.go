package mock

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// maxScript bounds a script sent over HTTP, in bytes.
const maxScript = 64 << 20

// control answers /_mock/: POST script, GET stats, POST reset, and the images
// that the mock named in its answers.
func (m *Mock) control(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/_mock/")
	method := http.MethodGet
	if name == "script" || name == "reset" {
		method = http.MethodPost
	}
	if r.Method != method {
		w.Header().Set("Allow", method)
		http.Error(w, "use "+method, http.StatusMethodNotAllowed)
		return
	}
	switch {
	case name == "script":
		src, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxScript))
		if err != nil {
			http.Error(w, "the script could not be read: "+err.Error(), http.StatusBadRequest)
			return
		}
		s, err := ParseScript(src)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.Load(s)
		w.WriteHeader(http.StatusNoContent)
	case name == "reset":
		m.Reset()
		w.WriteHeader(http.StatusNoContent)
	case name == "stats":
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.Encode(m.Stats())
	case strings.HasPrefix(name, "image/"):
		seed, err := hex.DecodeString(strings.TrimSuffix(strings.TrimPrefix(name, "image/"), ".png"))
		if err != nil || len(seed) != 4 {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "image/png")
		w.Write(paint(seed))
	default:
		http.NotFound(w, r)
	}
}
