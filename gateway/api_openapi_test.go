package gateway_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"oncegate/cache"
	"oncegate/gateway"
	"oncegate/prices"
)

// spec is /api/openapi.json as a client gets it.
type spec struct {
	t   *testing.T
	doc map[string]any
	*jsonschema.Compiler
}

const specURL = "http://127.0.0.1/api/openapi.json"

func readSpec(t *testing.T, b *books) *spec {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(b.text("/api/openapi.json")))
	if err != nil {
		t.Fatal(err)
	}
	closed(doc)
	s := &spec{t, doc.(map[string]any), jsonschema.NewCompiler()}
	s.AssertFormat()
	if err := s.AddResource(specURL, doc); err != nil {
		t.Fatal(err)
	}
	return s
}

// closed lets no object have a member that is not described. The document
// itself leaves room for versions to come.
func closed(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, described := v["properties"].(map[string]any); described && v["type"] != nil {
			v["additionalProperties"] = false
		}
		for _, x := range v {
			closed(x)
		}
	case []any:
		for _, x := range v {
			closed(x)
		}
	}
}

// operations are all of the document, each as METHOD path, with its parameters
// in the query.
func (s *spec) operations() map[string][]string {
	all := map[string][]string{}
	for path, item := range s.doc["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			params := []string{}
			list, _ := op.(map[string]any)["parameters"].([]any)
			for _, p := range list {
				p := p.(map[string]any)
				if ref, ok := p["$ref"].(string); ok {
					p = at(s.doc, strings.ReplaceAll(strings.TrimPrefix(ref, "#/"), "/", ".")).(map[string]any)
				}
				if p["in"] == "query" {
					params = append(params, p["name"].(string))
				}
			}
			slices.Sort(params)
			all[strings.ToUpper(method)+" "+path] = params
		}
	}
	return all
}

// check holds an answer to the schema of an operation's.
func (s *spec) check(operation, path string, status int, kind string, body []byte) {
	s.t.Helper()
	method, route, _ := strings.Cut(operation, " ")
	which := "200"
	if status != 200 {
		which = "default"
	}
	way := "#/paths/" + strings.ReplaceAll(route, "/", "~1") + "/" + strings.ToLower(method) + "/responses/" + which + "/content/" + strings.ReplaceAll(kind, "/", "~1") + "/schema"
	schema, err := s.Compile(specURL + way)
	if err != nil {
		s.t.Errorf("%s is not described: %v", way, err)
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		s.t.Errorf("%s: %v", path, err)
		return
	}
	if err := schema.Validate(v); err != nil {
		s.t.Errorf("%s: %v\n%s", path, err, body[:min(len(body), 2000)])
	}
}

// What is registered is described, and what is described is registered; each
// with the parameters that its handler takes, and no others.
func TestOpenAPIHasEveryRouteAndParameter(t *testing.T) {
	b := newBooks(t, nil)
	described := readSpec(t, b).operations()
	named := regexp.MustCompile(`:(\w+)`)
	var registered []string
	for _, route := range b.g.AdminRoutes() {
		registered = append(registered, named.ReplaceAllString(route, "{$1}"))
	}
	slices.Sort(registered)
	if all := slices.Sorted(maps.Keys(described)); !slices.Equal(all, registered) {
		t.Fatalf("described are %v\nregistered %v", all, registered)
	}
	known := regexp.MustCompile(`^parameters here are (.+), not `)
	for _, route := range registered {
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{key}", strings.Repeat("a", 64), "{id}", "x").Replace(path)
		status, out := b.ask(method, path+"?no_such_parameter=1", "{}")
		_, param, message := fault(out)
		if status != 400 || param != "no_such_parameter" {
			t.Errorf("%s takes a parameter that there is not: %d %v", route, status, out)
			continue
		}
		params := []string{}
		if m := known.FindStringSubmatch(message); m != nil {
			params = strings.Split(m[1], ", ")
		}
		slices.Sort(params)
		if !slices.Equal(params, described[route]) {
			t.Errorf("%s takes %v; described are %v", route, params, described[route])
		}
	}
}

// What is answered is what is described: by a gateway that has everything to
// show, by one that has nothing, and of each an error.
func TestAnswersAreAsOpenAPIDescribes(t *testing.T) {
	full := newBooksOver(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ratelimit-Limit-Requests", "100")
		w.Header().Set("X-Ratelimit-Remaining-Requests", "99")
		chat(w, "1")
	}, func(o *gateway.Options) {
		addTool(t, o, "payments", "http://127.0.0.1:1") // nobody is there
		rate, _ := prices.ParseRate("0.42")
		o.Prices = prices.NewBook(map[string]prices.Own{"m": {Input: rate, Output: rate}})
		o.Upstreams[0].Prices, o.Upstreams[0].Mock = o.Prices.At("http://127.0.0.1"), true
		o.Config = []gateway.ConfigValue{{Path: "server.listen", Value: "127.0.0.1:8080", Source: "default"}}
	})
	record := full.post("/v1/chat/completions", hi, "Idempotency-Key", "k").header.Get("Oncegate-Key")
	id := full.post("/v1/chat/completions", hi, "Idempotency-Key", "k").header.Get("X-Request-Id")
	full.await(`oncegate_requests_total{operation="chat",outcome="replayed"} 1`)
	full.fill(1, time.Now())
	done, doubt, second := full.run("done", "payments", cache.Completed), full.run("doubt", "payments", cache.Unknown), full.run("second", "payments", cache.Unknown)
	empty := newBooks(t, nil)
	s := readSpec(t, full)
	lists := map[string][]string{
		"GET /api/summary": {"", "?since=7d&zone=Asia/Kathmandu", "?since=never"}, "GET /api/series": {"", "?by=model", "?by=user&since=30d", "?since=1h", "?by=day"},
		"GET /api/pulse": {"", "?since=1h", "?zone=x"}, "GET /api/report": {"", "?by=day", "?by=tool&monthly=1000000&retry_rate=0.1", "?format=xml"},
		"GET /api/requests": {"", "?q=k", "?limit=0"}, "GET /api/records": {"", "?limit=1", "?state=x"}, "GET /api/audit": {"", "?cursor=x"},
		"GET /api/tools": {"", "?tool=payments", "?limit=300"}, "GET /api/targets": {"", "?limit=x"}, "GET /api/prices": {"", "?q=claude", "?limit=300"},
		"GET /api/config": {"", "?x=1"}, "GET /api/openapi.json": {"", "?x=1"},
	}
	for operation, queries := range lists {
		path := strings.TrimPrefix(operation, "GET ")
		for _, query := range queries {
			for _, b := range []*books{full, empty} {
				w := httptest.NewRecorder()
				b.g.Admin().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1"+path+query, nil))
				s.check(operation, path+query, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
			}
		}
	}
	for _, c := range []struct{ operation, path, body string }{
		{"POST /api/records/{key}/probe", "/api/records/" + doubt + "/probe", "{}"}, {"POST /api/demo", "/api/demo", ""}, {"POST /api/demo", "/api/demo", `{"x":1}`},
		{"POST /api/records/{key}/resolve", "/api/records/" + doubt + "/resolve", `{"as":"executed","reason":"seen","status":201,"body":"{}"}`},
		{"POST /api/records/{key}/resolve", "/api/records/" + done + "/resolve", `{"as":"executed","reason":"seen"}`},
		{"POST /api/records/resolve", "/api/records/resolve", `{"resolve":[{"key":"` + second + `","as":"not-executed","reason":"seen"},{"key":"` + done + `","as":"executed","reason":"seen"},{"key":"x"}]}`},
		{"POST /api/records/{key}/forget", "/api/records/" + done + "/forget", `{"reason":"seen"}`},
		{"GET /api/requests/{id}", "/api/requests/" + id, ""}, {"GET /api/requests/{id}", "/api/requests/none", ""},
		{"GET /api/records/{key}", "/api/records/" + record, ""}, {"GET /api/records/{key}", "/api/records/" + done, ""}, {"GET /api/records/{key}", "/api/records/" + doubt, ""},
		{"GET /api/records/{key}", "/api/records/x", ""},
		{"POST /api/records/{key}/forget", "/api/records/" + record + "/forget", `{"reason":"seen"}`}, {"GET /api/records/{key}", "/api/records/" + record, ""},
		{"GET /api/audit", "/api/audit", ""},
	} {
		method, _, _ := strings.Cut(c.operation, " ")
		r := httptest.NewRequest(method, "http://127.0.0.1"+c.path, strings.NewReader(c.body))
		if method == "POST" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		full.g.Admin().ServeHTTP(w, r)
		s.check(c.operation, c.path, w.Code, w.Header().Get("Content-Type"), w.Body.Bytes())
	}
	// Events, as they come over a connection.
	page := full.watch(t, "")
	full.post("/v1/chat/completions", hi, "Oncegate-Dedupe", "off")
	for name, schema := range map[string]string{"summary": "Summary", "request": "RequestEvent"} {
		compiled, err := s.Compile(specURL + "#/components/schemas/" + schema)
		if err != nil {
			t.Fatal(err)
		}
		if e := page.until(name); compiled.Validate(e.data) != nil {
			t.Errorf("%s: %v", name, compiled.Validate(e.data))
		}
	}
}
