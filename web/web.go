// Package web is the dashboard: a page for the admin listener, embedded and
// made ready to serve at the start. It computes no figure: the page asks /api
// for all of them.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Page serves the dashboard. It has no secrets in it, and so may be given to
// those who have yet to show a token.
type Page struct {
	index  asset
	assets map[string]asset // by path
}

// asset is a file as it is sent.
type asset struct {
	kind   string // its Content-Type
	etag   string
	plain  []byte
	zipped []byte // by gzip
}

// routes are the page's own addresses: each gives the same file, which reads
// its address. Those that end in a slash stand for all below them.
var routes = []string{"/", "/requests", "/requests/", "/records/", "/tools", "/doubt", "/targets", "/ledger"}

// policy lets the page run its own files, and nothing that anyone wrote into
// them. Its icon is the one thing that stands in the page itself.
const policy = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'"

// Handler makes the page ready. An error is a file of the dashboard that can't
// be put into it, which a test holds from happening.
func Handler() (*Page, error) {
	script, err := script()
	if err != nil {
		return nil, err
	}
	style, err := style()
	if err != nil {
		return nil, err
	}
	index, err := files.ReadFile("index.html")
	if err != nil {
		return nil, err
	}
	p := &Page{assets: map[string]asset{}}
	for _, f := range []struct {
		name, kind string
		content    []byte
	}{
		{"app.js", "text/javascript; charset=utf-8", script},
		{"app.css", "text/css; charset=utf-8", style},
	} {
		a := newAsset(f.kind, f.content)
		base, ext, _ := strings.Cut(f.name, ".")
		at := "/assets/" + base + "-" + strings.Trim(a.etag, `"`) + "." + ext
		p.assets[at] = a
		if !bytes.Contains(index, []byte("/assets/"+f.name)) {
			return nil, fmt.Errorf("web: index.html does not load %s", f.name)
		}
		index = bytes.ReplaceAll(index, []byte("/assets/"+f.name), []byte(at))
	}
	p.index = newAsset("text/html; charset=utf-8", index)
	return p, nil
}

func newAsset(kind string, content []byte) asset {
	sum := sha256.Sum256(content)
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is one of its own
	z.Write(content)
	z.Close()
	return asset{kind: kind, etag: `"` + hex.EncodeToString(sum[:8]) + `"`, plain: content, zipped: zipped.Bytes()}
}

// Serves says whether the page answers at a path.
func (p *Page) Serves(at string) bool {
	_, ok := p.find(at)
	return ok
}

func (p *Page) find(at string) (asset, bool) {
	if a, ok := p.assets[at]; ok {
		return a, true
	}
	if path.Clean(at) != at && path.Clean(at)+"/" != at {
		return asset{}, false
	}
	ours := slices.ContainsFunc(routes, func(route string) bool {
		return at == route || route != "/" && strings.HasSuffix(route, "/") && strings.HasPrefix(at, route)
	})
	return p.index, ours
}

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, ok := p.find(r.URL.Path)
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page is read with GET", http.StatusMethodNotAllowed)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Vary", "Accept-Encoding")
	// An asset's name changes with its content; the page's does not.
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if strings.HasPrefix(a.kind, "text/html") {
		h.Set("Cache-Control", "no-cache")
	}
	zip := acceptsGzip(r.Header.Get("Accept-Encoding"))
	etag, content := a.etag, a.plain
	if zip { // another text of the same content
		etag, content = strings.TrimSuffix(etag, `"`)+`-gzip"`, a.zipped
	}
	h.Set("ETag", etag)
	if slices.Contains(strings.FieldsFunc(r.Header.Get("If-None-Match"), func(c rune) bool { return c == ',' || c == ' ' }), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if zip {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", a.kind)
	h.Set("Content-Length", strconv.Itoa(len(content)))
	if r.Method != http.MethodHead {
		w.Write(content)
	}
}

// acceptsGzip reads an Accept-Encoding, in which q=0 refuses.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, q, weighed := strings.Cut(weight, "q=")
		n, err := strconv.ParseFloat(strings.TrimSpace(q), 64)
		return !weighed || err == nil && n > 0
	}
	return false
}
