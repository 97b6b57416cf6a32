//go:build sdk

package sdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// upstreamKey is the only credential that the upstream takes: a gateway that
// passed on a client's own key, or none, gets a 401.
const upstreamKey = "sk-sdk-7Qm2vT9xLr4KdWc8ZpYb"

// An upstream plays a provider, OpenAI's and Anthropic's surfaces at once. It
// shares no code with the product. A call is answered by the script of the
// model that it names, a payment by that of its ref, so that checks that run
// side by side don't meet:
//
//	PUT /script/{model}  a JSON list of steps; forgets what the model was asked
//	GET /script/{model}  the calls since, a JSON list in order of arrival
//
// The n-th call takes the n-th step, and the last step repeats.
type upstream struct {
	*httptest.Server

	mu      sync.Mutex
	scripts map[string]*script // by model
}

type script struct {
	steps []step
	calls []*call
}

// A step says what happens to one call. The zero step answers it.
type step struct {
	Status int               `json:"status"` // an error with this status, 0 for none
	Header map[string]string `json:"header"` // sent with the status
	Delay  int               `json:"delay"`  // milliseconds before anything is sent
	Tool   string            `json:"tool"`   // chat and responses call it, with {"amount":5}
	// Break is where the call breaks:
	//	"connection" a reset before the status
	//	"headers"    200 and its headers, then a reset
	//	"reset"      a reset after Events events, or half of the body
	//	"end"        a clean end after Events events, without a finish
	Break  string `json:"break"`
	Events int    `json:"events"`
}

// A call is what the upstream saw of one request.
type call struct {
	Path   string      `json:"path"` // with its query
	Header http.Header `json:"header"`
	Body   string      `json:"body"`
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{scripts: map[string]*script{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /script/{model}", u.putScript)
	mux.HandleFunc("GET /script/{model}", u.getCalls)
	for path, answer := range operations {
		mux.HandleFunc("POST /v1"+path, func(w http.ResponseWriter, r *http.Request) { u.answer(w, r, answer) })
	}
	mux.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) { u.answer(w, r, payments) })
	u.Server = httptest.NewServer(mux)
	t.Cleanup(u.Server.CloseClientConnections)
	return u
}

func (u *upstream) putScript(w http.ResponseWriter, r *http.Request) {
	var steps []step
	if err := json.NewDecoder(r.Body).Decode(&steps); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	u.set(r.PathValue("model"), steps...)
}

func (u *upstream) getCalls(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(u.calls(r.PathValue("model")))
}

// set gives model its script and forgets its calls.
func (u *upstream) set(model string, steps ...step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.scripts[model] = &script{steps: steps}
}

// calls are those of model since its script was set.
func (u *upstream) calls(model string) []*call {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s := u.scripts[model]; s != nil {
		return append([]*call{}, s.calls...)
	}
	return []*call{}
}

// take books a call and gives its step and its number, from 1.
func (u *upstream) take(model string, c *call) (step, int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.scripts[model]
	if s == nil {
		s = &script{}
		u.scripts[model] = s
	}
	s.calls = append(s.calls, c)
	n := len(s.calls)
	if len(s.steps) == 0 {
		return step{}, n
	}
	return s.steps[min(n, len(s.steps))-1], n
}

// answer plays one call by its step.
func (u *upstream) answer(w http.ResponseWriter, r *http.Request, op func(request) answer) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left before it had asked
	}
	req, err := parse(r.Header.Get("Content-Type"), body)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	s, n := u.take(cmp.Or(req.Model, req.Ref), &call{Path: r.URL.RequestURI(), Header: r.Header, Body: string(body)})
	req.n, req.id, req.tool = n, fmt.Sprintf("%s-%d", req.Model, n), s.Tool

	w.Header().Set("x-request-id", "req-"+req.id)
	w.Header().Set("request-id", "req-"+req.id)
	if key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); key != upstreamKey && r.Header.Get("x-api-key") != upstreamKey {
		writeError(w, http.StatusUnauthorized, "not the upstream's key")
		return
	}
	select {
	case <-time.After(time.Duration(s.Delay) * time.Millisecond):
	case <-r.Context().Done():
		return
	}
	if s.Break == "connection" {
		reset(w)
		return
	}
	for name, value := range s.Header {
		w.Header().Set(name, value)
	}
	if s.Status != 0 {
		writeError(w, s.Status, fmt.Sprintf("scripted %d, call %d", s.Status, n))
		return
	}
	play(w, op(req), s)
}

// play sends an answer up to where s breaks it.
func play(w http.ResponseWriter, a answer, s step) {
	w.Header().Set("Content-Type", a.contentType)
	pieces := a.pieces
	if len(pieces) == 1 {
		w.Header().Set("Content-Length", strconv.Itoa(len(pieces[0])))
		if s.Break == "reset" {
			pieces = [][]byte{pieces[0][:len(pieces[0])/2]}
		}
	} else if s.Break == "reset" || s.Break == "end" {
		pieces = pieces[:s.Events]
	}
	w.WriteHeader(http.StatusOK)
	flush(w)
	if s.Break == "headers" {
		reset(w)
		return
	}
	for _, p := range pieces {
		if _, err := w.Write(p); err != nil {
			return
		}
		flush(w)
	}
	if s.Break == "reset" {
		reset(w)
	}
}

func flush(w http.ResponseWriter) { http.NewResponseController(w).Flush() }

// reset ends the connection with an RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

// writeError answers with an error object that both vendors' SDKs can read.
func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{
		"type":  "error",
		"error": map[string]any{"message": message, "type": "api_error", "param": nil, "code": nil},
	})
}

// A request is what the answers are made of.
type request struct {
	Model          string            `json:"model"`
	Ref            string            `json:"ref"` // of a payment
	Stream         bool              `json:"stream"`
	Messages       []json.RawMessage `json:"messages"`
	Prompt         json.RawMessage   `json:"prompt"`
	Input          json.RawMessage   `json:"input"`
	N              int               `json:"n"`
	EncodingFormat string            `json:"encoding_format"`
	ResponseFormat any               `json:"response_format"`
	StreamOptions  struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`

	file string // a summary of the uploaded file
	n    int    // the number of the call
	id   string // the script's name and that number
	tool string // that the answer calls
}

// asked is what the request asks about, as compact JSON.
func (r request) asked() string {
	for _, part := range []json.RawMessage{r.Input, r.Prompt} {
		if part != nil {
			return compact(part)
		}
	}
	if n := len(r.Messages); n > 0 {
		return compact(r.Messages[n-1])
	}
	return r.file
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	json.Compact(&b, raw)
	return b.String()
}

func parse(contentType string, body []byte) (request, error) {
	var r request
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return r, fmt.Errorf("Content-Type %q: %w", contentType, err)
	}
	if kind != "multipart/form-data" {
		return r, json.Unmarshal(body, &r)
	}
	form, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		return r, err
	}
	field := func(name string) string { return strings.Join(form.Value[name], ",") }
	r.Model, r.Stream, r.ResponseFormat = field("model"), field("stream") == "true", field("response_format")
	for _, f := range form.File["file"] {
		r.file = fmt.Sprintf("%s of %d bytes", f.Filename, f.Size)
	}
	return r, nil
}
