package providers

import (
	"strings"
	"testing"
)

// B096, B100.
func TestJoin(t *testing.T) {
	for _, c := range []struct{ base, path, query, want string }{
		{"http://up", "/chat/completions", "", "http://up/v1/chat/completions"},
		{"http://up/", "/chat/completions", "", "http://up/v1/chat/completions"},
		{"http://up/v1", "/chat/completions", "", "http://up/v1/chat/completions"},
		{"http://up/v1/", "/chat/completions", "", "http://up/v1/chat/completions"},
		{"http://up/v1beta/openai/", "/chat/completions", "", "http://up/v1beta/openai/chat/completions"},
		{"http://up/av1", "/chat/completions", "", "http://up/av1/chat/completions"},
		{"http://up//", "/models", "", "http://up/v1/models"},
		{"https://up:8443/a%2Fb", "/files", "", "https://up:8443/a%2Fb/files"},
		{"http://up", "/files/a%2Fb%20c/content", "", "http://up/v1/files/a%2Fb%20c/content"},
		{"http://up", "/x", "api-version=2024-10-21&x=a%2Bb", "http://up/v1/x?api-version=2024-10-21&x=a%2Bb"},
		{"http://up?api-version=1", "/x", "", "http://up/v1/x?api-version=1"},
		{"http://up/v1?api-version=1", "/x", "api-version=2&x=a%2Bb", "http://up/v1/x?api-version=1&x=a%2Bb"},
		{"http://up/v1?api-version=1", "/x", "api%2Dversion=2&&y", "http://up/v1/x?api-version=1&y"},
		{"http://up/v1?k=a%2Fb&k=c", "/x", "k=d", "http://up/v1/x?k=a%2Fb&k=c"},
		{"http://up/odata(v4)", "/Users('a!*')[0]", "$filter=a eq 1", "http://up/odata(v4)/Users('a!*')[0]?$filter=a%20eq%201"},
		{"http://up", "/a|b%2Fc é", "q=|é#", "http://up/v1/a%7Cb%2Fc%20%C3%A9?q=|é#"},
		{"http://up/v1", "x", "", "http://up/v1/x"},
		{"http://up", "//x", "", "http://up/v1//x"},
	} {
		b, err := parseBase(c.base, "/v1")
		if err != nil {
			t.Fatal(c.base, err)
		}
		if got := b.join(c.path, c.query).String(); got != c.want {
			t.Errorf("%s + %s ? %s = %s, want %s", c.base, c.path, c.query, got, c.want)
		}
	}
}

func TestBaseURLsRefused(t *testing.T) {
	for _, s := range []string{"", "up", "up:80/v1", "ftp://up", "http://", "http://user:hunter2@up/v1", "http://up/#x", "http://up:port?key=hunter2", "/v1", "mailto:hunter2"} {
		_, err := parseBase(s, "/v1")
		if err == nil {
			t.Errorf("%q was taken", s)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error shows a secret: %v", s, err)
		}
	}
}

func TestAllFaultsOfOptions(t *testing.T) {
	_, err := New(Options{Kind: "gemini", BaseURL: "nowhere", APIKeys: []string{"fine", "hunter2\n", ""}, StreamUsage: "maybe"})
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"kind", "base_url", "api_keys[1]", "api_keys[2]", "stream_usage"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told of in %q", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("the error shows a key")
	}
}
