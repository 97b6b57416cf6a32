package test

import (
	"fmt"
	"strings"
	"testing"

	"oncegate/test/harness"
	"oncegate/test/up"
)

// The path and the query go on as they came, below the tool's own address.
func TestToolsPathGoesOnAsItCame(t *testing.T) {
	t.Parallel()
	api := up.New(t)
	b := openBankAt(t, api, nil, harness.Config{"tools": []any{
		harness.Tool("pay", api.URL(), nil), harness.Tool("deep", api.URL()+"/api/v2/", nil), harness.Tool("deeper", api.URL()+"/api/v2", nil),
	}})
	n := 0
	for target, want := range map[string]string{
		"/tools/pay/v1/payments":                   "/v1/payments",
		"/tools/pay/v1/payments/":                  "/v1/payments/",
		"/tools/pay/":                              "/",
		"/tools/pay/a%2Fb%20c%3F/%C3%A9?q=%2f&&r+": "/a%2Fb%20c%3F/%C3%A9?q=%2f&&r+",
		"/tools/pay/a//b":                          "/a//b",
		"/tools/pay//b":                            "//b",
		"/tools/pay/a;v=1/b,c:d@e?x=1;y=2":         "/a;v=1/b,c:d@e?x=1;y=2",
		"/tools/pay/%252e%252e/x":                  "/%252e%252e/x", // decoded once it is no dot segment
		"/tools/pay/a..b/..c/d../...":              "/a..b/..c/d../...",
		"/tools/pay/.well-known/x":                 "/.well-known/x",
		"/tools/pay/x?path=../y":                   "/x?path=../y",
		"/tools/pay/v1/v1/x":                       "/v1/v1/x",
		"/tools/deep/x?a=1":                        "/api/v2/x?a=1",
		"/tools/deeper/x%2Fy":                      "/api/v2/x%2Fy",
	} {
		for _, method := range []string{"POST", "GET"} {
			n++
			raw := b.Dial()
			raw.Send(b.Request(method, target, map[bool]string{true: order}[method == "POST"], fmt.Sprint("Idempotency-Key: k", n)))
			if a := raw.Response(harness.Patience); a.Err != nil || a.Status != 201 {
				t.Errorf("%s %s: %d %s %v", method, target, a.Status, a.Body, a.Err)
				n--
				continue
			}
			if got := api.Call(n); got.Target != want || got.Method != method || got.Get("Host") != strings.TrimPrefix(api.URL(), "http://") {
				t.Errorf("%s %s went on as %s %s to %q", method, target, got.Method, got.Target, got.Get("Host"))
			}
		}
	}
}

// A dot segment, however it is written, could reach what the tool's address
// does not mean.
func TestToolsDotSegmentsAreRefused(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	for _, path := range []string{
		"/tools/pay/../pay/x", "/tools/pay/a/../b", "/tools/pay/a/..", "/tools/pay/./a", "/tools/pay/a/.", "/tools/pay/%2e%2e/x", "/tools/pay/%2E./x",
		"/tools/pay/a/.%2e", "/tools/pay/a/%2e/b", "/tools/pay/a%2f..%2fb", "/tools/pay/a%2F%2e%2e%2Fb", "/tools/../tools/pay/x", "/tools/%2e%2e/v1/models",
		`/tools/pay/a\..\b`, "/tools/pay/a%5c..%5cb", "/tools/pay/..;/b", "/tools/pay/a/%2e%2e;v=1/b", "/tools/pay/a/..%3Bv/b",
	} {
		for _, method := range []string{"POST", "GET"} {
			raw := b.Dial()
			raw.Send(b.Request(method, path, map[bool]string{true: order}[method == "POST"], "Idempotency-Key: k"))
			if a := raw.Response(harness.Patience); a.Err != nil || a.Status != 400 {
				t.Errorf("%s %s: %d %v %s", method, path, a.Status, a.Err, a.Body)
			}
		}
	}
	wantUnseen(t, b.api, 0)
	raw := b.Dial()
	raw.Send(b.Request("POST", "/tools/pay/a/../b", order))
	problem{400, "invalid_request_error", "false", "refused", "bad_request", ""}.wantTool(t, raw.Response(harness.Patience))
}

// B022: whatever is in a body, the API gets its bytes.
func TestB022ToolBodiesGoOnAsTheyCame(t *testing.T) {
	t.Parallel()
	b := openBank(t, nil)
	n := 0
	for body, typ := range map[string]string{
		`{"id":9007199254740993,"big":18446744073709551615,"a":1.0,"b":1e-7,"c":0.30000000000000004,"d":-0}`: "application/json",
		"{ \"z\":1,\n \"a\":\"\\u00e9 < & \u2028\", \"a\":2 }\r\n":                                           "application/json",
		`{"broken":`:              "application/json",
		"a=1&b=%20&a=2":           "application/x-www-form-urlencoded",
		"\x00\x01\xfe\xff":        "application/octet-stream",
		"--b\r\n\r\nx\r\n--b--":   "multipart/form-data; boundary=b",
		"--b\r\n\r\nx\r\n--wrong": "multipart/form-data; boundary=b",
	} {
		for _, key := range []string{"k", ""} {
			if key != "" {
				key = fmt.Sprint(key, n)
			}
			n++
			if a := b.pay(key, body, "Content-Type: "+typ); a.Status != 201 {
				t.Errorf("%q: %d %s", body, a.Status, a.Body)
			}
			c := b.api.Call(n)
			if string(c.Body) != body || c.Get("Content-Type") != typ {
				t.Errorf("%q as %s went on as %q as %s", body, typ, c.Body, c.Get("Content-Type"))
			}
		}
	}
	for _, pair := range [][2]string{{"9007199254740993", "9007199254740992"}, {"1.0", "1"}, {"0.30000000000000004", "0.3"}} {
		key := "Idempotency-Key: " + pair[0]
		n++
		wantReceipt(t, b.Post(pay, `{"order":`+pair[0]+`}`, key), n, "executed", "")
		reused.wantTool(t, b.Post(pay, `{"order":`+pair[1]+`}`, key))
	}
}
