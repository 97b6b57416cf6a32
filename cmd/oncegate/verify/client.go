package verify

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// answer is what came back for one request, whatever it was.
type answer struct {
	status  string // a number, timedOut, broken or unsent
	header  http.Header
	body    string // as far as it came
	elapsed time.Duration
	err     error
}

// unsent is a status that nothing can expect: nobody listens there, or the
// request is none.
const unsent = "nothing sent"

// maxAnswer bounds what is kept of a body, in bytes.
const maxAnswer = 64 << 20

// send makes one request, on a connection of its own: what befalls one is no
// other's.
func (a *Ask) send(ctx context.Context, base string, words *strings.Replacer, extra http.Header) *answer {
	out := &answer{header: http.Header{}}
	r, err := http.NewRequestWithContext(ctx, a.Method, base+words.Replace(a.Path), strings.NewReader(words.Replace(a.Body)))
	if err != nil {
		out.status, out.err = unsent, err
		return out
	}
	r.GetBody = nil // the transport must not try again by itself
	r.Header.Set("Content-Type", "application/json")
	maps.Copy(r.Header, extra)
	for name, lines := range a.Headers {
		r.Header.Del(name)
		for _, l := range lines {
			r.Header.Add(name, words.Replace(l))
		}
	}
	if h := r.Header.Get("Host"); h != "" {
		r.Host = h
	}
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	var sent atomic.Bool
	limited = httptrace.WithClientTrace(limited, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	defer transport.CloseIdleConnections()
	got, err := transport.RoundTrip(r.WithContext(limited))
	if err == nil {
		out.header, out.status = got.Header, strconv.Itoa(got.StatusCode)
		var body []byte
		body, err = io.ReadAll(io.LimitReader(got.Body, maxAnswer))
		got.Body.Close()
		out.body = string(body)
	}
	out.elapsed = time.Since(begin)
	if err != nil {
		out.err = err
		switch {
		case limited.Err() != nil:
			out.status = timedOut
		case sent.Load():
			out.status = broken
		default:
			out.status = unsent
		}
	}
	return out
}

// attempts is what the gateway says it took; without a word none were made.
func (a *answer) attempts() int64 {
	n, _ := strconv.ParseInt(a.header.Get("Oncegate-Attempts"), 10, 64)
	return n
}

// told is what explains an answer that was not expected, in brackets.
func (a *answer) told() string {
	switch {
	case a.status == timedOut:
		return ""
	case a.err != nil:
		return " (" + short(a.err.Error()) + ")"
	case a.status >= "300" && a.body != "":
		return " (" + short(a.body) + ")"
	}
	return ""
}

// short is a text on one line, and not much of it.
func short(s string) string {
	const most = 160
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	if s == "" {
		return "nothing"
	}
	return s
}
