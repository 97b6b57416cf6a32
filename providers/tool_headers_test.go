package providers

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"oncegate/policy"
)

// What goes to a tool: the client's headers less what is between it and us,
// the tool's own over them, and our key alone.
func TestToolRequestHeaders(t *testing.T) {
	u := serve(t, json200(`{}`))
	to := tool(t, u.url, func(o *ToolOptions) {
		o.Header = http.Header{"authorization": {"Bearer " + toolSecret}, "x-tenant": {"t1"}, "host": {"pay.internal"}, "X-Many": {"a", "b"}}
		o.UpstreamKeyHeader = "x-request-key"
	})
	c := toolCall("POST", payment)
	c.Header = http.Header{
		"Content-Type": {"application/vnd.acme+json; charset=utf-8"}, "Content-Encoding": {"aws-chunked"}, "X-Custom": {"a", "b"}, "Accept": {"*/*"},
		"If-Match": {`"e"`}, "Range": {"bytes=0-1"}, "User-Agent": {"agent/1"}, "Traceparent": {"00-1-2-01"}, "Origin": {"http://o"},
		// The tool's own, which a client can neither set nor take away.
		"X-Tenant": {"t2"}, "X-Request-Key": {"client-key"}, "Connection": {"keep-alive, X-Hop, Authorization, X-Tenant, X-Request-Key"},
		// What stays here.
		"Authorization": {"Bearer ogk_client"}, "X-Api-Key": {"ogk_client"}, "Api-Key": {"ogk_client"}, "Cookie": {"a=b"},
		"Idempotency-Key": {"client-key"}, "X-Idempotency-Key": {"client-key"}, "Prefer": {"wait=0"}, "Accept-Encoding": {"br"},
		"Forwarded": {"for=1"}, "X-Forwarded-For": {"1"}, "X-Forwarded-Host": {"h"}, "Oncegate-User": {"u"}, "Oncegate-Retry-Unknown": {"1"},
		"X-Stainless-Retry-Count": {"1"}, "Openai-Organization": {"o"}, "Openai-Project": {"p"},
		"X-Hop": {"1"}, "Keep-Alive": {"1"}, "Te": {"trailers"}, "Trailer": {"X"}, "Transfer-Encoding": {"chunked"}, "Upgrade": {"h2c"},
		"Proxy-Authorization": {"p"}, "Proxy-Connection": {"p"}, "Expect": {"100-continue"}, "Content-Length": {"9"}, "Host": {"h"},
	}
	before := fmt.Sprint(c.Header)
	if got := use(t, to, c); got.err != nil {
		t.Fatal(got.err)
	}
	r, body := u.last()
	want := http.Header{
		"Content-Type": {"application/vnd.acme+json; charset=utf-8"}, "Content-Encoding": {"aws-chunked"}, "X-Custom": {"a", "b"}, "Accept": {"*/*"},
		"If-Match": {`"e"`}, "Range": {"bytes=0-1"}, "User-Agent": {"agent/1"}, "Traceparent": {"00-1-2-01"}, "Origin": {"http://o"},
		"X-Tenant": {"t1"}, "X-Many": {"a", "b"}, "Authorization": {"Bearer " + toolSecret}, "X-Request-Key": {ourKey},
		"Accept-Encoding": {"identity"}, "Content-Length": {fmt.Sprint(len(payment))},
	}
	if fmt.Sprint(r.Header) != fmt.Sprint(want) || r.Host != "pay.internal" || body != payment {
		t.Errorf("host %s, body %s, header\n%v\nwant\n%v", r.Host, body, r.Header, want)
	}
	if fmt.Sprint(c.Header) != before {
		t.Error("the call's own headers were changed")
	}

	// Without a key of ours the upstream gets none, least of all the client's.
	c.UpstreamKey = ""
	delete(c.Header, "Connection")
	if got := use(t, to, c); got.err != nil {
		t.Fatal(got.err)
	}
	if r, _ := u.last(); r.Header["X-Request-Key"] != nil {
		t.Error(r.Header)
	}
	c = &ToolCall{Method: "GET", Path: "/", UpstreamKey: ourKey}
	if got := use(t, tool(t, u.url, func(o *ToolOptions) { o.Header, o.UpstreamKeyHeader = nil, "" }), c); got.err != nil {
		t.Fatal(got.err)
	}
	if r, _ := u.last(); len(r.Header) != 2 || r.Header.Get("User-Agent") != "oncegate" || "http://"+r.Host != u.url {
		t.Errorf("%s %v", r.Host, r.Header)
	}
}

// Paths, queries and bodies go on byte for byte.
func TestToolRequestAsItCame(t *testing.T) {
	for _, c := range []struct{ base, path, query, want string }{
		{"", "/", "", "/"},
		{"/", "/a/b/", "", "/a/b/"},
		{"", "/a//b", "", "/a//b"},
		{"", "//b", "", "//b"},
		{"/api/v2/", "/a%2Fb%20c/%E2%82%AC", "x=a%2Bb+c&y", "/api/v2/a%2Fb%20c/%E2%82%AC?x=a%2Bb+c&y"},
		{"/api", "/Users('x')!*[0];v=1,2:3@4", "$filter=a%20eq%20'b'&q[]=1", "/api/Users('x')!*[0];v=1,2:3@4?$filter=a%20eq%20'b'&q[]=1"},
		{"/api?tenant=7", "/x", "tenant=8&a=1", "/api/x?tenant=7&a=1"},
		{"/api", "", "", "/api"},
		{"", "", "", "/"},
	} {
		u := serve(t, json200(`{}`))
		call := toolCall("POST", payment)
		call.Path, call.Query = c.path, c.query
		if got := use(t, tool(t, u.url+c.base), call); got.err != nil {
			t.Fatal(got.err)
		}
		if r, _ := u.last(); r.RequestURI != c.want {
			t.Errorf("%s + %s ? %s = %s, want %s", c.base, c.path, c.query, r.RequestURI, c.want)
		}
	}
	for media, body := range map[string]string{
		"application/json":                            "{\"b\": 1,\n \"a\":9007199254740993}",
		"application/x-www-form-urlencoded":           "a=1&a=2&b=%20+",
		"multipart/form-data; boundary=\"b\"":         "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n\x00\xff\r\n--b--\r\n",
		"application/octet-stream":                    strings.Repeat("\x00\xff\r\n", 1<<18),
		"text/plain; charset=utf-16":                  "\xff\xfea\x00",
		"application/vnd.acme.v3+json; profile=\"x\"": "null",
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "GET", "QUERY", "MKCOL"} {
			u := serve(t, json200(`{}`))
			c := toolCall(method, body)
			c.Header["Content-Type"] = []string{media}
			if got := use(t, tool(t, u.url), c); got.err != nil {
				t.Fatal(got.err)
			}
			if r, came := u.last(); r.Method != method || came != body || r.Header.Get("Content-Type") != media || r.ContentLength != int64(len(body)) {
				t.Errorf("%s %s: %s %d bytes of %d, %s", method, media, r.Method, len(came), len(body), r.Header.Get("Content-Type"))
			}
		}
	}
}

func TestToolFaults(t *testing.T) {
	_, err := NewTool(ToolOptions{
		BaseURL: "http://user:hunter2@up",
		Header: http.Header{
			"X Y": {"v"}, "Content-Length": {"1"}, "X-Empty": {""}, "X-Line": {"hunter2\r\nX: 1"},
			"X-Twice": {"a"}, "x-twice": {"b"}, "Idempotency-Key": {"k"},
		},
		UpstreamKeyHeader: "idempotency-key",
		NotExecuted:       []int{200, 503, 600},
	})
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"base_url", `"X Y"`, "Content-Length", "X-Empty", "X-Line", "X-Twice", "upstream_key_header: Idempotency-Key", "200", "600"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not told of in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"Authorization", "host", "transfer-encoding", "a b", "Cookie"} {
		if _, err := NewTool(ToolOptions{BaseURL: "http://up", UpstreamKeyHeader: name}); err == nil {
			t.Errorf("the key may go into %s", name)
		}
	}
}

// The API's credentials are kept out of what clients are told of failures.
func TestToolSecrets(t *testing.T) {
	hidden := []string{toolSecret, "YWxpY2U6aHVudGVyMg==", "hunter2", "q-4f5e6d7c8b9a", "c-4f5e6d7c8b9a", "k-4f5e6d7c8b9a"}
	header := http.Header{
		"Authorization": {"Bearer " + toolSecret}, "X-Forward-To": {"Basic YWxpY2U6aHVudGVyMg=="}, "Cookie": {"lang=english; sid=c-4f5e6d7c8b9a"},
		"X-Api-Key": {"k-4f5e6d7c8b9a"}, "Api-Version": {"2024-01-01"}, "X-Key-Space": {"prod"},
	}
	said := strings.Join(hidden, " ") + " acme-liv*******cdef 2024-01-01 prod"
	for _, status := range []int{400, 401, 403, 500} {
		pads := []int{0, maxErrorBody - 30, maxErrorBody - strings.Index(said, "q-4f") - 7, maxErrorBody + 11}
		if status != 500 {
			pads = pads[:1]
		}
		for _, pad := range pads {
			body := strings.Repeat("x", pad) + said + strings.Repeat("y", pad)
			u := serve(t, func(c net.Conn) { answer(status, "text/plain", body, "X-Said: "+said)(c) })
			got := use(t, tool(t, u.url+"?api_key=q-4f5e6d7c8b9a", func(o *ToolOptions) { o.Header = header }), toolCall("POST", payment))
			if got.err != nil {
				t.Fatal(got.err)
			}
			for _, s := range hidden {
				if strings.Contains(got.body, s) || strings.Contains(fmt.Sprint(got.header), s) || strings.Contains(got.failure.Err.Error(), s) {
					t.Errorf("%d, %d bytes: shows %s", status, len(body), s)
				}
			}
			if !strings.HasPrefix(got.body, strings.Repeat("x", pad)) || !strings.HasSuffix(got.body, " 2024-01-01 prod"+strings.Repeat("y", pad)) {
				t.Errorf("%d: what is no secret was changed: %d bytes of %d", status, len(got.body), len(body))
			}
		}
	}
	// An answer is the client's as it is.
	u := serve(t, answer(200, "text/plain", said))
	if got := use(t, tool(t, u.url, func(o *ToolOptions) { o.Header = header }), toolCall("POST", payment)); got.body != said {
		t.Errorf("%q", got.body)
	}
	// Nor do they show where no answer came.
	u = serve(t, func(c net.Conn) { io.WriteString(c, said+"\r\n\r\n"); c.Close() })
	got := use(t, tool(t, u.url, func(o *ToolOptions) { o.Header = header }), toolCall("POST", payment))
	failed(t, got.err, policy.Sent, 0)
	if s := got.err.Error() + string(got.err.Body) + fmt.Sprint(got.err.Header); strings.Contains(s, "acme") || strings.Contains(s, "hunter2") {
		t.Error(s)
	}
}
