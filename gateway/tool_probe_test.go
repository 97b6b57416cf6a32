package gateway

import "testing"

func TestFillProbe(t *testing.T) {
	body := []byte(`{"ref":"order 7&x=1","id":"a/b?#%é","n":12,"empty":"","dots":"..","a/b":"{/n}","key":"{upstream_key}","o":{"x":1},"no":null}`)
	for get, want := range map[string]string{
		"/v1/payments?ref={/ref}":              "/v1/payments?ref=order%207%26x%3D1",
		"/v1/payments/{/id}":                   "/v1/payments/a%2Fb%3F%23%25%C3%A9",
		"/p/{/n}/by/{upstream_key}?a=b&n={/n}": "/p/12/by/{upstream_key}?a=b&n=12",
		"/p/{/a~1b}":                           "/p/%7B%2Fn%7D", // what a value holds is no placeholder
		"/p/{/key}":                            "/p/%7Bupstream_key%7D",
		"/p/{/o/x}":                            "/p/1",
		"/p/{/none}":                           "",
		"/p/{/o}":                              "",
		"/p/{/no}":                             "",
		"/p/{/n}?ref={/empty}":                 "",
		"/p/{/dots}":                           "",
	} {
		if got := fillProbe(get, body); got != want {
			t.Errorf("%s: %q, want %q", get, got, want)
		}
	}
	if got := fillProbe("/p/{/n}", []byte(`{"n":1,"n":2}`)); got != "" {
		t.Errorf("a body that can be read in two ways: %q", got)
	}
}
