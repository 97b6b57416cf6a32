package gateway

import "testing"

func TestProbeRequest(t *testing.T) {
	body := map[string]string{"/ref": "order 7&x=1", "/id": "a/b?#%é", "/n": "12", "/empty": "", "/dots": "..", "/a~1b": "{/n}"}
	for _, c := range []struct{ get, path, query string }{
		{"/v1/payments?ref={/ref}", "/v1/payments", "ref=order%207%26x%3D1"},
		{"/v1/payments/{/id}", "/v1/payments/a%2Fb%3F%23%25%C3%A9", ""},
		{"/p/{/n}/by/{upstream_key}?a=b&n={/n}", "/p/12/by/key%2B1", "a=b&n=12"},
		{"/p?a=b?c={/n}", "/p", "a=b?c=12"},
		{"/p/{/a~1b}", "/p/%7B%2Fn%7D", ""}, // what a value holds is no placeholder
		{"/p/{/none}", "", ""},
		{"/p/{/n}?ref={/empty}", "", ""},
		{"/p/{/dots}", "", ""},
	} {
		p := Probe{Get: c.get}
		path, query, ok := p.request("key+1", func(pointer string) (string, bool) { v, ok := body[pointer]; return v, ok })
		if path != c.path || query != c.query || ok != (c.path != "") {
			t.Errorf("%s: %q %q %v", c.get, path, query, ok)
		}
	}
	p := Probe{Get: "/p/{upstream_key}"}
	if _, _, ok := p.request("", nil); ok {
		t.Error("a write without an upstream key is asked about by none")
	}
}
