package providers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"oncegate/policy"
)

// Whatever path and query a call has, they stay below base_url's path and
// within one line, and what is escaped well goes on as it is.
func FuzzToolTarget(f *testing.F) {
	for _, path := range []string{"/", "", "x", "//x", "/a%2Fb", "/a|b%2Fc", "/%zz", "/Users('x')", "/é", "/a b\r\nX: 1", "/*"} {
		f.Add(path, "a=b&q=1 2\r\n&key=x")
	}
	b, err := parseBase("http://up/api(1)/a%2Fb?key=s", "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path, query string) {
		got := b.join(path, query).RequestURI()
		at, rest, _ := strings.Cut(got, "?")
		if strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			t.Fatalf("%q breaks the line", got)
		}
		if !strings.HasPrefix(rest, "key=s") || strings.Count("&"+rest, "&key=") > 1 {
			t.Fatalf("%q: base_url's own query is not what goes out", got)
		}
		plain, err := url.PathUnescape(path)
		if err != nil {
			return // no server takes such a path
		}
		want := "/api(1)/a%2Fb"
		if path != "" && path[0] != '/' {
			want += "/"
		}
		if !strings.HasPrefix(at, want) {
			t.Fatalf("%q is not below %s", got, want)
		}
		after := at[len(want):]
		if came, err := url.PathUnescape(after); err != nil || came != plain {
			t.Fatalf("%q means %q, not %q", after, came, plain)
		}
		if !slices.ContainsFunc([]byte(path), func(c byte) bool { return !inPath(c) }) && after != path {
			t.Fatalf("%q became %q", path, after)
		}
	})
}

// Whatever an upstream writes, an attempt ends, once, in an answer or in an
// error that does not say that nothing was sent.
func FuzzToolAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"HTTP/1.1 101 X\r\n\r\n", "HTTP/1.1 099 X\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\nto the end", "",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
		"HTTP/1.1 401 No\r\nContent-Length: 24\r\nX-Key: acme-live-0123456789abcdef\r\n\r\nacme-live-0123456789abcdef",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 29\r\n\r\n" + gzipped(payment),
		"HTTP/1.1 503 X\r\nRetry-After: 9\r\nContent-Encoding: zstd\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\x28\xb5\x2f\xfd\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n",
	} {
		f.Add([]byte(s), "POST", true)
		f.Add([]byte(s), "HEAD", false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, method string, write bool) {
		to := tool(t, "http://up")
		requests := 0
		served := make(chan struct{})
		to.conns.dial = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer close(served)
				defer there.Close()
				if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
					io.Copy(io.Discard, r.Body)
					requests++
					there.Write(raw)
				}
			}()
			return &markedConn{Conn: here}, nil
		}
		c := toolCall(method, payment)
		c.Write = write
		a, failed := to.Try(t.Context(), c)
		if failed != nil {
			if failed.Phase != policy.Sent && isToken(method) && method != "CONNECT" && method != "TRACE" || failed.Failure.Err == nil {
				t.Fatalf("%+v", failed)
			}
			if failed.Phase == policy.Sent {
				<-served
			}
			return
		}
		body, err := io.ReadAll(io.LimitReader(a, 1<<20))
		if broke := (*Error)(nil); err != nil && (!errors.As(err, &broke) || broke.Phase != policy.Broken) {
			t.Fatalf("%v", err)
		}
		if (a.Failure() != nil) != (a.Status() >= 400) || a.Status() < 200 || method == "HEAD" && len(body) > 0 {
			t.Fatalf("status %d, %+v, %d bytes", a.Status(), a.Failure(), len(body))
		}
		if a.Status() >= 400 && bytes.Contains(body, []byte(toolSecret)) {
			t.Fatalf("%q", body)
		}
		a.Close()
		settleTool(to)
		to.Close()
		<-served
		if requests != 1 {
			t.Fatalf("%d requests", requests)
		}
	})
}
