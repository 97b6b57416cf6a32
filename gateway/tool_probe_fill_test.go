package gateway

import "testing"

func TestFillProbe(t *testing.T) {
	const body = `{"ref":"order 7&x=1","id":"a/b?#%é+","n":12.50,"empty":"","dots":"..","true":true,"null":null,"a/b":"{/n}","key":"{upstream_key}","deep":[{"x":"y"}]}`
	for _, c := range []struct{ get, want string }{
		{"/v1/payments?ref={/ref}", "/v1/payments?ref=order%207%26x%3D1"},
		{"/v1/payments/{/id}", "/v1/payments/a%2Fb%3F%23%25%C3%A9%2B"},
		{"/p/{/n}/by/{upstream_key}?a=b&x={/deep/0/x}", "/p/12.50/by/{upstream_key}?a=b&x=y"},
		{"/p/{/a~1b}?key={/key}", "/p/%7B%2Fn%7D?key=%7Bupstream_key%7D"}, // what a value holds is no placeholder
		{"/p?ref={/none}", ""},
		{"/p?ref={/null}", ""},
		{"/p?ref={/true}", ""},
		{"/p?ref={/deep}", ""},
		{"/p?ref={/n}&id={/empty}", ""}, // would find any
		{"/p/{/dots}", ""},              // would find what stands above
	} {
		if got := fillProbe(c.get, []byte(body)); got != c.want {
			t.Errorf("%s: %s", c.get, got)
		}
	}
	for _, body := range []string{"", "ref=order", `"ref"`, `{"ref":`, `{"ref":"a","ref":"b"}`} {
		if got := fillProbe("/p?ref={/ref}", []byte(body)); got != "" {
			t.Errorf("of the body %s: %s", body, got)
		}
	}
}
