//go:build linux

package main

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A nonce stands in each request and is echoed in its answer.
const (
	nonceMark = "nonce-"
	nonceSize = len(nonceMark) + 16
)

// chunks is how many pieces of content a stream has.
const chunks = 50

// upstream is a provider that does next to nothing, written on the
// connection: it shares its core with the load generator, and what it costs
// must not be what is measured.
type upstream struct {
	net.Listener
	calls atomic.Int64
	// gate, when set, holds answers back until it is closed: those that do
	// not stream before the first byte, streams after their first chunk.
	gate  atomic.Pointer[chan struct{}]
	delay atomic.Int64 // before an answer's first byte, in ns
	pace  atomic.Int64 // between two events of a stream, in ns
}

func startUpstream() (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{Listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go u.serve(c)
		}
	}()
	return u, nil
}

// hold makes answers wait until the returned function is called.
func (u *upstream) hold() (release func()) {
	gate := make(chan struct{})
	u.gate.Store(&gate)
	return func() {
		u.gate.Store(nil)
		close(gate)
	}
}

func (u *upstream) wait() {
	if d := u.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	if g := u.gate.Load(); g != nil {
		<-*g
	}
}

func (u *upstream) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 4<<10)
	var body, out []byte
	for {
		length, ok := readRequestHead(r)
		if !ok {
			return
		}
		if cap(body) < length {
			body = make([]byte, length)
		}
		body = body[:length]
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		u.calls.Add(1)
		nonce := findNonce(body)
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			u.wait()
			out = appendPlain(append(out[:0], plainHead...), nonce)
			if _, err := c.Write(out); err != nil {
				return
			}
			continue
		}
		asked := bytes.Contains(body, []byte(`"include_usage":true`))
		if !u.stream(c, nonce, asked) {
			return
		}
	}
}

// stream sends each event in a write of its own, as a provider does.
func (u *upstream) stream(c net.Conn, nonce string, usage bool) bool {
	var out []byte
	for i := range streamEvents(usage) {
		ev := eventAt(nonce, i, usage)
		if i == 0 {
			out = append(out, streamHead...)
		}
		out = strconv.AppendInt(out, int64(len(ev)), 16)
		out = append(append(append(out, "\r\n"...), ev...), "\r\n"...)
		if _, err := c.Write(out); err != nil {
			return false
		}
		out = out[:0]
		if i == 0 {
			u.wait()
			if pace := u.pace.Load(); pace > 0 { // not all in step
				time.Sleep(rand.N(time.Duration(pace)))
			}
		} else if pace := u.pace.Load(); pace > 0 {
			time.Sleep(time.Duration(pace))
		}
	}
	_, err := io.WriteString(c, "0\r\n\r\n")
	return err == nil
}

// readRequestHead reads to the end of a request's headers.
func readRequestHead(r *bufio.Reader) (length int, ok bool) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, false
		}
		if len(line) <= 2 {
			return length, true
		}
		if v, ok := cutHeader(line, "content-length:"); ok {
			if length, err = strconv.Atoi(v); err != nil {
				return 0, false
			}
		}
	}
}

// cutHeader gives the value of a header line if it is the one named.
func cutHeader(line []byte, name string) (string, bool) {
	if len(line) < len(name) || !strings.EqualFold(string(line[:len(name)]), name) {
		return "", false
	}
	return string(bytes.TrimSpace(line[len(name):])), true
}

func findNonce(b []byte) string {
	if i := bytes.Index(b, []byte(nonceMark)); i >= 0 && i+nonceSize <= len(b) {
		return string(b[i : i+nonceSize])
	}
	return nonceMark + "is missing here"
}

// The answers. A plain one is about 1 KB; they differ by their nonce alone.
const (
	plainBefore = `{"id":"chatcmpl-bench","object":"chat.completion","created":1735689600,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":"`
	eventBefore = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1735689600,"model":"bench","system_fingerprint":"fp_bench","choices":[{"index":0,"delta":{"content":"`
	eventAfter  = "\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
	eventFinish = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1735689600,"model":"bench","system_fingerprint":"fp_bench","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n"
	eventUsage  = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1735689600,"model":"bench","system_fingerprint":"fp_bench","choices":[],"usage":{"prompt_tokens":180,"completion_tokens":50,"total_tokens":230}}` + "\n\n"
	eventDone   = "data: [DONE]\n\n"
	streamHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
)

var (
	plainAfter = strings.Repeat(" lorem ipsum dolor sit amet", 23) +
		`","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":180,"completion_tokens":120,"total_tokens":300},"system_fingerprint":"fp_bench"}`
	plainHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(plainBefore)+nonceSize+len(plainAfter)) + "\r\n\r\n"
)

func appendPlain(b []byte, nonce string) []byte {
	return append(append(append(b, plainBefore...), nonce...), plainAfter...)
}

// streamEvents is how many events a stream has: its chunks, the finish, the
// usage if asked for, and the end.
func streamEvents(usage bool) int {
	if usage {
		return chunks + 3
	}
	return chunks + 2
}

func eventAt(nonce string, i int, usage bool) string {
	switch {
	case i == 0:
		return eventBefore + nonce + eventAfter
	case i < chunks:
		return eventWord
	case i == chunks:
		return eventFinish
	case usage && i == chunks+1:
		return eventUsage
	}
	return eventDone
}

const eventWord = eventBefore + " word" + eventAfter

// appendStream is what a client that did not ask for usage must get.
func appendStream(b []byte, nonce string) []byte {
	for i := range streamEvents(false) {
		b = append(b, eventAt(nonce, i, false)...)
	}
	return b
}
