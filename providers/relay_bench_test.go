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

// BenchmarkRelay shows what an attempt costs beside net/http doing the same:
// the floor reads the answer and looks at nothing.
func BenchmarkRelay(b *testing.B) {
	whole := `{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("x", 700) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, whole)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := w.(http.Flusher)
		for range 50 {
			io.WriteString(w, text("some words"))
			flush.Flush()
		}
		io.WriteString(w, finish+done)
	}))
	defer server.Close()
	pad := strings.Repeat("y", 900)
	for name, c := range map[string]*Call{
		"whole":  call(Chat, strings.Replace(hi, `"hi"`, `"`+pad+`"`, 1)),
		"stream": call(Chat, strings.Replace(hiStream, `"hi"`, `"`+pad+`"`, 1)),
	} {
		b.Run(name+"/floor", func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
			buf := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				r, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/v1/chat/completions", bytes.NewReader(c.Body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer x")
				resp, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				for {
					if _, err := resp.Body.Read(buf); err != nil {
						break
					}
				}
				resp.Body.Close()
				cancel()
			}
		})
		b.Run(name+"/relay", func(b *testing.B) {
			r, err := New(Options{Name: "up", BaseURL: server.URL, APIKeys: []string{"sk-x"}})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				a, failed := r.Try(ctx, c, "", 0)
				if failed != nil {
					b.Fatal(failed)
				}
				for {
					p, err := a.Next()
					if err != nil {
						b.Fatal(err)
					}
					if p.Last {
						break
					}
				}
				a.Close()
				cancel()
			}
		})
	}
}

// BenchmarkEvents is the reading of a stream of 50 chunks, one a read, less
// the network.
func BenchmarkEvents(b *testing.B) {
	for name, chunk := range map[string]string{
		"alike": text("some words"),
		"apart": data(`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"content":"a \"quoted\" word"},"finish_reason":null}],"obfuscation":"abc"}`),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var parts [][]byte
			for range 50 {
				parts = append(parts, []byte(chunk))
			}
			parts = append(parts, []byte(finish+done))
			for b.Loop() {
				all, end, err := readCuts(b, Chat, parts...)
				if err != nil || !end.Whole || len(all) < 50*len(chunk) {
					b.Fatal(err)
				}
			}
		})
	}
}
