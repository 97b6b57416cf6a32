//go:build sdk

package sdk

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

var tools = regexp.MustCompile("^/tools/[^/]+")

// startPlain puts a plain proxy in the gateway's place: the right upstream and
// its credential, and nothing else. With SDK_PLAIN set, each check that needs a
// gateway has to fail; one that passes is about doing no harm, or can't fail.
func startPlain(t *testing.T, suite string, u *upstream) gateway {
	var requests atomic.Int64
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		body, err := io.ReadAll(r.In.Body)
		if err != nil {
			return // the client left before it had asked
		}
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		r.Out.URL.Path = tools.ReplaceAllString(r.In.URL.Path, "")
		req, _ := parse(r.In.Header.Get("Content-Type"), body) // what is no request goes as it is
		to := u.URL
		if _, err := strconv.Atoi(strings.TrimPrefix(req.Model, suite+"-")); err == nil {
			to = journal(u).URL
		}
		target, err := url.Parse(to)
		if err != nil {
			panic(err)
		}
		r.SetURL(target)
		r.Out.Header.Set("Authorization", "Bearer "+upstreamKey)
		r.Out.Header.Del("x-api-key")
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "oncegate_requests_total{} %d\n", requests.Load())
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		proxy.ServeHTTP(w, r)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.CloseClientConnections)
	return gateway{URL: s.URL, Admin: s.URL}
}
