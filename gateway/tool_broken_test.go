package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A part of a refusal is no answer, to the first caller or to any other.
func TestABrokenRefusalIsNoAnswer(t *testing.T) {
	for name, text := range map[string]string{
		"cut":                  "HTTP/1.1 422 Unprocessable Entity\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"error\": 1",
		"in an unasked coding": "HTTP/1.1 400 Bad Request\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n\x0b\x00",
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				runs.Add(1)
				says(w, text)
			}, 0, nil)
			for range 2 {
				a := h.post("/tools/pay/x", `{}`, "Idempotency-Key", "k")
				if a.status != 502 || !strings.Contains(a.body, `"response_lost"`) || !strings.Contains(a.body, "refused") {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("it was sent %d times", n)
			}
		})
	}
}

// What nobody has seen whole has neither a size nor a sum.
func TestTheSizeOfALostAnswerIsNotKnown(t *testing.T) {
	h := withTool(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		says(w, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
	}, 0, nil)
	post := func() answer {
		return h.post("/tools/pay/x", `{}`, "Idempotency-Key", "k", "Oncegate-TTL", "1ms")
	}
	post()
	var a answer
	for end := time.Now().Add(10 * time.Second); a.status != 410 && time.Now().Before(end); {
		a = post()
	}
	if a.status != 410 || !strings.Contains(a.body, `"upstream_status":201`) || strings.Contains(a.body, "sha256") || strings.Contains(a.body, "size") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
