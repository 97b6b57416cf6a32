package providers

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkTool is a write of 1 KB and its answer of 1 KB, beside net/http
// doing the same.
func BenchmarkTool(b *testing.B) {
	answer := []byte(`{"id":"pay_1","note":"` + strings.Repeat("x", 1000) + `"}`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}))
	defer server.Close()
	call := toolCall("POST", `{"amount":1200,"note":"`+strings.Repeat("y", 1000)+`"}`)
	buf := make([]byte, 4<<10)

	b.Run("floor", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			ctx, cancel := context.WithCancel(b.Context())
			r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/payments", bytes.NewReader(call.Body))
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
		to := tool(b, server.URL)
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
