package gateway

import "testing"

func TestToolReads(t *testing.T) {
	for _, c := range []struct {
		pattern, method, path string
		want                  bool
	}{
		{"/search", "POST", "/search", true},
		{"/search", "PUT", "/search", false},
		{"/search", "post", "/search", false},
		{"/search", "POST", "/search/", false},
		{"/search", "POST", "/Search", false},
		{"/search", "POST", "/se%61rch", false}, // in doubt it is a write
		{"/search", "POST", "//search", false},
		{"/search/", "POST", "/search/", true},
		{"/v1/{kind}/query", "POST", "/v1/notes/query", true},
		{"/v1/{kind}/query", "POST", "/v1/a%20b/query", true},
		{"/v1/{kind}/query", "POST", "/v1//query", false},
		{"/v1/{kind}/query", "POST", "/v1/a/b/query", false},
		{"/v1/{kind}/query", "POST", "/v1/a%2Fb/query", false}, // to the upstream it may be two
		{"/v1/{kind}/query", "POST", "/v1/a%5cb/query", false},
		{"/v1/{kind}/query", "POST", "/v1/notes", false},
		{"/v1/{kind}", "POST", "/v1/notes/7", false},
		{"/query/*", "POST", "/query/a", true},
		{"/query/*", "POST", "/query/a/b", true},
		{"/query/*", "POST", "/query/", false},
		{"/query/*", "POST", "/query", false},
		{"/query/*", "POST", "/query-and-delete", false},
		{"/query/*", "POST", "/query/..%2fdelete", false},
		{"/*", "POST", "/anything/at/all", true},
		{"/*", "POST", "/", false},
		{"/", "POST", "/", true},
		{"/", "POST", "/x", false},
	} {
		if got := (ToolRead{"POST", c.pattern}).matches(c.method, c.path); got != c.want {
			t.Errorf("POST %s, %s %s: %v", c.pattern, c.method, c.path, got)
		}
	}
}

func TestKeysTools(t *testing.T) {
	for _, c := range []struct {
		tools []string
		want  bool
	}{
		{nil, true}, {[]string{}, false}, {[]string{"*"}, true}, {[]string{"mail", "payments"}, true},
		{[]string{"pay*"}, true}, {[]string{"payment"}, false}, {[]string{"payments2"}, false}, {[]string{""}, false},
	} {
		p := principal{key: &ClientKey{Tools: c.tools}}
		if got := p.mayUse("payments"); got != c.want {
			t.Errorf("%q: %v", c.tools, got)
		}
	}
	if !(principal{}).mayUse("payments") {
		t.Error("an open gateway refuses a tool")
	}
}
