package web

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func page(t *testing.T) *Page {
	t.Helper()
	p, err := Handler()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func get(p *Page, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		from = z
	}
	b, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var loaded = regexp.MustCompile(`(?:href|src)="(/[^"]*)"`)

// A page load is the page and what it names, and all of it is light.
func TestWeight(t *testing.T) {
	p := page(t)
	index := body(t, get(p, "GET", "/"))
	paths := []string{"/"}
	for _, m := range loaded.FindAllStringSubmatch(index, -1) {
		paths = append(paths, m[1])
	}
	if len(paths) != 3 {
		t.Errorf("a page load is %d requests, not 3: %v", len(paths), paths)
	}
	sum := 0
	for _, path := range paths {
		r := get(p, "GET", path, "Accept-Encoding", "gzip, deflate, br, zstd")
		if r.StatusCode != 200 || r.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %d, encoded %q", path, r.StatusCode, r.Header.Get("Content-Encoding"))
		}
		sum += int(r.ContentLength)
		if plain := get(p, "GET", path, "Accept-Encoding", "gzip;q=0"); body(t, plain) != body(t, r) {
			t.Errorf("%s: compressed it is another text", path)
		}
	}
	t.Logf("%d bytes compressed", sum)
	if sum > 60_000 {
		t.Errorf("the page's files are %d bytes compressed, over 60 KB", sum)
	}
}

func TestHeaders(t *testing.T) {
	p := page(t)
	index := body(t, get(p, "GET", "/"))
	script := regexp.MustCompile(`/assets/app-\w+\.js`).FindString(index)
	style := regexp.MustCompile(`/assets/app-\w+\.css`).FindString(index)
	for path, want := range map[string]struct{ kind, cache string }{
		"/":             {"text/html; charset=utf-8", "no-cache"},
		"/requests":     {"text/html; charset=utf-8", "no-cache"},
		"/records/ab12": {"text/html; charset=utf-8", "no-cache"},
		script:          {"text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
		style:           {"text/css; charset=utf-8", "public, max-age=31536000, immutable"},
	} {
		r := get(p, "GET", path)
		for name, value := range map[string]string{
			"Content-Type": want.kind, "Cache-Control": want.cache, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy": policy, "Vary": "Accept-Encoding", "Content-Encoding": "",
		} {
			if got := r.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, not %q", path, name, got, value)
			}
		}
		etag := r.Header.Get("ETag")
		if again := get(p, "GET", path, "If-None-Match", `"other", `+etag); again.StatusCode != 304 || body(t, again) != "" {
			t.Errorf("%s is not 304 for one who has it: %d", path, again.StatusCode)
		}
		if zipped := get(p, "GET", path, "If-None-Match", etag, "Accept-Encoding", "gzip"); zipped.StatusCode != 200 || zipped.Header.Get("ETag") == etag {
			t.Errorf("%s compressed has the ETag of the plain one", path)
		}
		if head := get(p, "HEAD", path); head.StatusCode != 200 || body(t, head) != "" || head.Header.Get("Content-Length") == "0" {
			t.Errorf("HEAD %s: %d", path, head.StatusCode)
		}
		if post := get(p, "POST", path); post.StatusCode != 405 || post.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d", path, post.StatusCode)
		}
	}
}

// What others typed can't run, for nothing that stands in a page can.
func TestPolicy(t *testing.T) {
	if !strings.Contains(policy, "default-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	p := page(t)
	index := body(t, get(p, "GET", "/"))
	for _, never := range []string{"<style", " style=", "<script>", "onload=", "onclick="} {
		if strings.Contains(index, never) {
			t.Errorf("the page has %s in it", never)
		}
	}
	for path := range p.assets {
		text := body(t, get(p, "GET", path))
		for _, never := range []string{"eval(", "new Function", "document.write", "insertAdjacentHTML", "http://fonts", "@import"} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %s in it", path, never)
			}
		}
	}
	for _, module := range modules {
		text, err := files.ReadFile("app/" + module + ".js")
		if err != nil {
			t.Fatal(err)
		}
		for _, never := range []string{"innerHTML", "outerHTML", "parseFloat("} {
			if strings.Contains(string(text), never) {
				t.Errorf("app/%s.js has %s in it", module, never)
			}
		}
	}
}

func TestServes(t *testing.T) {
	p := page(t)
	for path, want := range map[string]bool{
		"/": true, "/requests": true, "/requests/req_1": true, "/records/ab": true, "/tools": true, "/doubt": true, "/targets": true, "/ledger": true,
		"/api/report": false, "/api": false, "/metrics": false, "/livez": false, "/readyz": false, "/records": false, "/toolsy": false, "/assets/app.js": false, "/index.html": false,
		"/requests/../api/report": false, "/requests//api": false, "//": false, "/vendor/preact.mjs": false, "": false,
	} {
		if got := p.Serves(path); got != want {
			t.Errorf("Serves(%q) is %t", path, got)
		}
		if r := httptest.NewRequest("GET", "/", nil); path != "" {
			r.URL.Path = path
			w := httptest.NewRecorder()
			if p.ServeHTTP(w, r); (w.Code == 200) != want {
				t.Errorf("GET %s is %d", path, w.Code)
			}
		}
	}
}

// The libraries are those that their packages have, with their licences.
func TestVendored(t *testing.T) {
	sums, err := files.ReadFile("vendor/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := files.ReadFile("vendor/README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	entries, err := files.ReadDir("vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".mjs") {
			continue
		}
		text, err := files.ReadFile("vendor/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if hex.EncodeToString(sum[:]) != want[e.Name()] {
			t.Errorf("vendor/%s is not the file of its sum", e.Name())
		}
		delete(want, e.Name())
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(e.Name()) + ` \| \S+ \| \d+\.\d+\.\d+ \| \S+ \| (?:MIT|Apache-2\.0), (LICENSE\.\w+) \|$`).FindSubmatch(readme)
		if row == nil {
			t.Errorf("vendor/README.md has no line for %s", e.Name())
		} else if _, err := files.ReadFile("vendor/" + string(row[1])); err != nil {
			t.Error(err)
		}
	}
	for name := range want {
		t.Errorf("vendor/%s has a sum and is not there", name)
	}
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0": false, "gzip;q=x": false, "gzipped": false, "identity": false, "deflate, gzip ": true,
	} {
		if got := acceptsGzip(header); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}

func TestEnclose(t *testing.T) {
	got, err := enclose(`import{a as b,c}from"x";const d=b(c);export{d as e,c};//# sourceMappingURL=y` + "\n")
	if want := "const{a:b,c}=libraries[\"x\"];const d=b(c);\n\nreturn{e:d,c:c}"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := enclose("const a=1;export const b=2;"); err == nil {
		t.Error("a module that exports in another way is taken for one that exports nothing")
	}
}
