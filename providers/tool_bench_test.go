package providers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// canned is a server that answers each request, which ends as the benchmark's
// does, with the same bytes, and allocates nothing.
func canned(b *testing.B, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf, said := make([]byte, 8<<10), []byte(answer)
				for n := 0; ; {
					m, err := c.Read(buf[n:])
					if err != nil {
						return
					}
					if n += m; bytes.HasSuffix(buf[:n], []byte(`y"}`)) {
						n = 0
						c.Write(said)
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// BenchmarkTool is a write of 1 KB and its answer of 1 KB, beside net/http
// doing the same.
func BenchmarkTool(b *testing.B) {
	body := `{"id":"pay_1","note":"` + strings.Repeat("x", 1000) + `"}`
	at := canned(b, fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	call := toolCall("POST", `{"amount":1200,"note":"`+strings.Repeat("y", 1000)+`"}`)
	buf := make([]byte, 4<<10)

	b.Run("floor", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			r, err := http.NewRequestWithContext(ctx, "POST", at+"/v1/payments", bytes.NewReader(call.Body))
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+toolSecret)
			r.Header.Set("Request-Key", ourKey)
			response, err := client.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			for err == nil {
				_, err = response.Body.Read(buf)
			}
			response.Body.Close()
			cancel()
		}
	})
	b.Run("tool", func(b *testing.B) {
		to := tool(b, at)
		defer to.Close()
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			a, failed := to.Try(ctx, call)
			if failed != nil {
				b.Fatal(failed)
			}
			var err error
			for err == nil {
				_, err = a.Read(buf)
			}
			if err != io.EOF {
				b.Fatal(err)
			}
			a.Close()
			cancel()
		}
	})
}
