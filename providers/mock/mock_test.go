package mock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sashabaranov/go-openai"
)

// start serves a mock on loopback, with its own listener.
func start(t *testing.T, opts Options) (*Mock, string) {
	t.Helper()
	m := New(opts)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error("Serve:", err)
		}
	})
	return m, "http://" + l.Addr().String()
}

func script(t *testing.T, src string) Script {
	t.Helper()
	s, err := ParseScript([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const hi = `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`
const hiStream = `{"model":"m1","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// fresh posts on a connection of its own.
func fresh(t *testing.T, url, body string) (*http.Response, error) {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Post(url, "application/json", strings.NewReader(body))
}

// get posts and reads the whole answer; err is that of either.
func get(t *testing.T, url, body string) (status int, answer string, err error) {
	t.Helper()
	resp, err := fresh(t, url, body)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// until polls for something that happens on the mock's side a moment later.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to this: " + what)
		}
	}
}

func client(url string) *openai.Client {
	cfg := openai.DefaultConfig("sk-test")
	cfg.BaseURL = url + "/v1"
	return openai.NewClientWithConfig(cfg)
}

func TestGoOpenAIChat(t *testing.T) {
	m, url := start(t, Options{})
	req := openai.ChatCompletionRequest{Model: "m1", Messages: []openai.ChatCompletionMessage{
		{Role: "system", Content: "be brief"}, {Role: "user", Content: "hello <b> & c"},
	}}
	a, err := client(url).CreateChatCompletion(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Choices[0].Message.Content; got != "You said: hello <b> & c" {
		t.Errorf("content %q", got)
	}
	// be brief: 1+2; hello <b> & c: 2+1+1+1. You said: hello <b> & c: 1+2+5.
	if a.Usage.PromptTokens != 8 || a.Usage.CompletionTokens != 8 || a.Usage.TotalTokens != 16 {
		t.Errorf("usage %+v", a.Usage)
	}
	b, err := client(url).CreateChatCompletion(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if a.ID == b.ID {
		t.Error("two calls, one id")
	}
	if a.SystemFingerprint != b.SystemFingerprint {
		t.Error("one body, two fingerprints")
	}
	req.Temperature = 0.5
	if c, err := client(url).CreateChatCompletion(t.Context(), req); err != nil || c.SystemFingerprint == a.SystemFingerprint {
		t.Error("two bodies, one fingerprint", err)
	}
	s := m.Stats()
	if s.Requests != 3 || s.Billed != 3 || s.InputTokens != 24 || s.OutputTokens != 24 || s.Statuses[200] != 3 {
		t.Errorf("stats %+v", s)
	}
}

func TestGoOpenAIChatStream(t *testing.T) {
	m, url := start(t, Options{})
	stream, err := client(url).CreateChatCompletionStream(t.Context(), openai.ChatCompletionRequest{
		Model: "m1", N: 2, Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "one two"}},
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var text [2]string
	var finished [2]openai.FinishReason
	var usage *openai.Usage
	for {
		c, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.Usage != nil {
			usage = c.Usage
			if len(c.Choices) != 0 {
				t.Error("the usage chunk has choices")
			}
		}
		for _, ch := range c.Choices {
			text[ch.Index] += ch.Delta.Content
			finished[ch.Index] += ch.FinishReason
		}
	}
	for i := range 2 {
		if text[i] != "You said: one two" || finished[i] != "stop" {
			t.Errorf("choice %d: %q, finished %q", i, text[i], finished[i])
		}
	}
	if usage == nil || usage.CompletionTokens != 2*5 {
		t.Errorf("usage %+v", usage)
	}
	until(t, "the whole output billed", func() bool { return m.Stats().OutputTokens == 10 })
}

func TestGoOpenAITools(t *testing.T) {
	_, url := start(t, Options{})
	req := openai.ChatCompletionRequest{Model: "m1",
		Messages: []openai.ChatCompletionMessage{{Role: "user", Content: `please call weather {"city":"Oslo"} and call clock`}},
		Tools: []openai.Tool{
			{Type: "function", Function: &openai.FunctionDefinition{Name: "weather", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}},
			{Type: "function", Function: &openai.FunctionDefinition{Name: "clock", Parameters: json.RawMessage(`{"type":"object","properties":{"zone":{"type":"string","enum":["UTC"]},"x":{"type":"integer"}},"required":["zone"]}`)}},
		},
	}
	a, err := client(url).CreateChatCompletion(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	calls := a.Choices[0].Message.ToolCalls
	if len(calls) != 2 || calls[0].Function.Arguments != `{"city":"Oslo"}` || calls[1].Function.Arguments != `{"zone":"UTC"}` {
		t.Fatalf("calls %+v", calls)
	}
	if calls[0].ID == calls[1].ID || a.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("ids %s %s, finish %s", calls[0].ID, calls[1].ID, a.Choices[0].FinishReason)
	}
	req.Messages = append(req.Messages, a.Choices[0].Message,
		openai.ChatCompletionMessage{Role: "tool", Content: "rain", ToolCallID: calls[0].ID})
	b, err := client(url).CreateChatCompletion(t.Context(), req)
	if err != nil || b.Choices[0].Message.Content != "The tool answered: rain" {
		t.Errorf("after the tool: %+v %v", b.Choices, err)
	}
	req.Messages, req.ToolChoice = req.Messages[:1], openai.ToolChoice{Type: "function", Function: openai.ToolFunction{Name: "clock"}}
	stream, err := client(url).CreateChatCompletionStream(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var name, args string
	for {
		c, err := stream.Recv()
		if err != nil {
			break
		}
		for _, call := range c.Choices[0].Delta.ToolCalls {
			name, args = name+call.Function.Name, args+call.Function.Arguments
		}
	}
	if name != "clock" || args != `{"zone":"UTC"}` {
		t.Errorf("streamed %s(%s)", name, args)
	}
}

func TestGoOpenAIOthers(t *testing.T) {
	_, url := start(t, Options{Models: []string{"a", "b"}})
	c, ctx := client(url), t.Context()

	e, err := c.CreateEmbeddings(ctx, openai.EmbeddingRequest{Model: "e", Input: []string{"a red fox", "the red fox", "stocks fell"}})
	if err != nil {
		t.Fatal(err)
	}
	near, _ := e.Data[0].DotProduct(&e.Data[1])
	far, _ := e.Data[0].DotProduct(&e.Data[2])
	if len(e.Data) != 3 || near <= far || e.Usage.PromptTokens != 3+3+2+2-1 {
		t.Errorf("embeddings: near %v far %v usage %+v", near, far, e.Usage)
	}
	b64, err := c.CreateEmbeddings(ctx, openai.EmbeddingRequest{Model: "e", Input: "a red fox", EncodingFormat: "base64", Dimensions: 256})
	if err != nil {
		t.Fatal(err)
	}
	if dot, _ := b64.Data[0].DotProduct(&e.Data[0]); dot < 0.999 {
		t.Errorf("the base64 form is another vector: %v", dot)
	}
	mod, err := c.Moderations(ctx, openai.ModerationRequest{Input: "such violence!"})
	if err != nil || !mod.Results[0].Flagged || !mod.Results[0].Categories.Violence || mod.Results[0].Categories.Hate {
		t.Errorf("moderation %+v %v", mod, err)
	}
	img, err := c.CreateImage(ctx, openai.ImageRequest{Prompt: "a fox", N: 2, ResponseFormat: "url"})
	if err != nil || len(img.Data) != 2 || img.Data[0].URL == img.Data[1].URL {
		t.Fatalf("image %+v %v", img, err)
	}
	png, err := http.Get(img.Data[0].URL)
	if err != nil || png.Header.Get("Content-Type") != "image/png" {
		t.Errorf("the image that was named: %v %v", png, err)
	}
	png.Body.Close()
	sound, err := c.CreateSpeech(ctx, openai.CreateSpeechRequest{Model: "tts-1", Input: "a b c", Voice: "alloy"})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(sound); len(b) != 3*4*417 || b[0] != 0xff {
		t.Errorf("speech of %d bytes", len(b))
	}
	heard, err := c.CreateTranscription(ctx, openai.AudioRequest{Model: "whisper-1", FilePath: "x.mp3", Reader: strings.NewReader("12345")})
	if err != nil || heard.Text != "A recording of 5 bytes named x.mp3." {
		t.Errorf("transcription %q %v", heard.Text, err)
	}
	list, err := c.ListModels(ctx)
	if err != nil || len(list.Models) != 2 || list.Models[1].ID != "b" {
		t.Errorf("models %+v %v", list, err)
	}
	if one, err := c.GetModel(ctx, "x/y"); err != nil || one.ID != "x/y" {
		t.Errorf("model %+v %v", one, err)
	}
	old, err := c.CreateCompletion(ctx, openai.CompletionRequest{Model: "gpt-3.5-turbo-instruct", Prompt: []string{"p", "q"}})
	if err != nil || len(old.Choices) != 2 || old.Choices[1].Text != "You said: q" || old.Usage.PromptTokens != 2 {
		t.Errorf("completion %+v %v", old, err)
	}
	r, err := c.CreateResponse(ctx, openai.CreateResponseRequest{Model: "m1", Input: "hi"})
	if err != nil || r.GetOutputText() != "You said: hi" || r.Status != "completed" || r.Usage.OutputTokens != 4 {
		t.Errorf("response %+v %v", r, err)
	}
	rs, err := c.CreateResponseStream(ctx, openai.CreateResponseRequest{Model: "m1", Input: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	defer rs.Close()
	text, last := "", openai.ResponseStreamEvent{SequenceNumber: -1}
	for {
		ev, err := rs.Recv()
		if err != nil {
			break
		}
		if ev.SequenceNumber != last.SequenceNumber+1 {
			t.Errorf("%s is number %d after %d", ev.Type, ev.SequenceNumber, last.SequenceNumber)
		}
		if ev.Type == openai.ResponseStreamEventOutputTextDelta {
			text += ev.Delta
		}
		last = ev
	}
	if text != "You said: hi" || last.Type != "response.completed" || last.Response.GetOutputText() != text {
		t.Errorf("streamed response %q, last %s", text, last.Type)
	}
}

func TestMessages(t *testing.T) {
	_, url := start(t, Options{})
	status, body, err := get(t, url+"/v1/messages", `{"model":"c","max_tokens":9,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":{}}]}]}`)
	var m message
	if err != nil || status != 200 || json.Unmarshal([]byte(body), &m) != nil {
		t.Fatal(status, body, err)
	}
	if *m.StopReason != "end_turn" || m.Usage.InputTokens != 1+1+mediaTokens || m.Usage.OutputTokens != 4 || !strings.Contains(body, `"text":"You said: hi"`) {
		t.Error(body)
	}
	_, body, _ = get(t, url+"/v1/messages", `{"model":"c","stream":true,"max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`)
	var names []string
	for line := range strings.Lines(body) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	if got := strings.Join(names, " "); got != "message_start content_block_start ping content_block_delta content_block_delta content_block_stop message_delta message_stop" {
		t.Error(got)
	}
	if !strings.Contains(body, `"stop_reason":"max_tokens"`) {
		t.Error("three tokens should have cut it:", body)
	}
	_, body, _ = get(t, url+"/v1/messages", `{"model":"c","max_tokens":99,"tool_choice":{"type":"any"},"tools":[{"name":"w","input_schema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}],"messages":[{"role":"user","content":"hi"}]}`)
	if !strings.Contains(body, `"type":"tool_use"`) || !strings.Contains(body, `"input":{"n":1}`) || !strings.Contains(body, `"stop_reason":"tool_use"`) {
		t.Error(body)
	}
	_, body, _ = get(t, url+"/v1/messages/count_tokens", `{"model":"c","messages":[{"role":"user","content":"hello you"}]}`)
	if body != `{"input_tokens":3}` {
		t.Error(body)
	}
	status, body, _ = get(t, url+"/v1/messages", `{"model":"c","messages":[]}`)
	if status != 400 || !strings.HasPrefix(body, `{"type":"error","error":{"type":"invalid_request_error"`) {
		t.Error(status, body)
	}
}

func TestRefusals(t *testing.T) {
	m, url := start(t, Options{})
	for _, c := range []struct {
		path, body string
		status     int
		has        string
	}{
		{"/v1/chat/completions", `{"model":`, 400, "parse"},
		{"/v1/chat/completions", `[]`, 400, "parse"},
		{"/v1/chat/completions", `{"messages":[]}`, 400, `"param":"model"`},
		{"/v1/chat/completions", `{"model":"m","messages":[]}`, 400, `"param":"messages"`},
		{"/v1/nope", `{}`, 404, "does not know POST /v1/nope"},
		{"/v1/models", `{}`, 405, `"error"`},
	} {
		status, body, err := get(t, url+c.path, c.body)
		if err != nil || status != c.status || !strings.Contains(body, c.has) {
			t.Errorf("%s %s: %d %s %v", c.path, c.body, status, body, err)
		}
	}
	if s := m.Stats(); s.Requests != 6 || s.Billed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestStepsInTurn(t *testing.T) {
	m, url := start(t, Options{Script: script(t, `
steps:
  - {status: 503, headers: {Retry-After: [1, 4]}}
  - {match: {model: other}, status: 418, times: -1}
  - {match: {header: "Bearer k1"}, status: 429, error: {code: insufficient_quota, type: insufficient_quota}}
  - status: 200
    body: {choices: [], big: 9007199254740993}
`)})
	post := func(body, key string) (*http.Response, string) {
		req, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/v1/chat/completions", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp, string(b)
	}
	resp, body := post(hi, "k2")
	if resp.StatusCode != 503 || strings.Join(resp.Header["Retry-After"], " ") != "1 4" || !strings.Contains(body, `"type":"server_error"`) {
		t.Error(resp.StatusCode, resp.Header, body)
	}
	if resp, body = post(strings.Replace(hi, "m1", "other", 1), "k2"); resp.StatusCode != 418 {
		t.Error(resp.StatusCode, body)
	}
	if resp, body = post(hi, "k1"); resp.StatusCode != 429 || !strings.Contains(body, `"code":"insufficient_quota"`) {
		t.Error(resp.StatusCode, body)
	}
	if resp, body = post(hi, "k1"); body != `{"choices": [], "big": 9007199254740993}` {
		t.Error(resp.StatusCode, body)
	}
	if resp, body = post(hi, "k1"); resp.StatusCode != 200 || !strings.Contains(body, "You said: hi") {
		t.Error(resp.StatusCode, body)
	}
	if resp, _ = post(strings.Replace(hi, "m1", "other", 1), "k2"); resp.StatusCode != 418 {
		t.Error("times: -1 ended")
	}
	if s := m.Stats(); s.StepsLeft != 0 || s.Requests != 6 || s.Billed != 2 {
		t.Errorf("%+v", s)
	}
	m.Reset()
	if s := m.Stats(); s.StepsLeft != 3 || s.Requests != 0 || len(s.Arrivals) != 0 {
		t.Errorf("after a reset: %+v", s)
	}
}

func TestBreaks(t *testing.T) {
	long := `{"model":"m1","messages":[{"role":"user","content":"one two three four five six seven"}]}`
	longStream := `{"stream":true,` + long[1:]
	for _, c := range []struct {
		name, step, body string
		status           int
		want             error // of the read, or the request
		has, hasNot      string
		requests, billed int64
		answered         int // bytes, when >= 0
	}{
		{"accept", `reset: {at: accept}`, long, 0, syscall.ECONNRESET, "", "", 0, 0, -1},
		{"request", `reset: {at: request}`, long, 0, syscall.ECONNRESET, "", "", 0, 0, -1},
		{"close at request", `close: {at: request}`, long, 0, io.EOF, "", "", 0, 0, -1},
		{"headers", `reset: {}`, long, 0, syscall.ECONNRESET, "", "", 1, 1, -1},
		{"close at headers", `close: {at: headers}`, long, 0, io.EOF, "", "", 1, 1, -1},
		{"close after bytes", `close: {at: bytes, after: 40}`, long, 200, io.ErrUnexpectedEOF, "", "", 1, 1, 40},
		{"cut bytes", `cut: 40`, long, 200, nil, "", "", 1, 1, 40},
		{"cut chunks", `cut: 3`, longStream, 200, nil, `" one"`, `" two"`, 1, 1, -1},
		{"cut before content", `cut: 0`, longStream, 200, nil, `"role":"assistant"`, `"You"`, 1, 1, -1},
		{"close after chunks", `close: {at: chunks, after: 3}`, longStream, 200, io.ErrUnexpectedEOF, `" one"`, `" two"`, 1, 1, -1},
		{"close after all", `close: {at: chunks, after: 99}`, longStream, 200, io.ErrUnexpectedEOF, `[DONE]`, "", 1, 1, -1},
		{"error in the stream", `error_at: {chunk: 3, code: server_error}`, longStream, 200, nil, "\" one\"}", `[DONE]`, 1, 1, -1},
		{"no finish", `no_finish: true`, longStream, 200, nil, "[DONE]", `"finish_reason":"stop"`, 1, 1, -1},
		{"no done", `no_done: true`, longStream, 200, nil, `"finish_reason":"stop"`, "[DONE]", 1, 1, -1},
		{"empty", `body: ""`, long, 200, nil, "", "", 1, 0, 0},
		{"html", `status: 502, html: 40000`, long, 502, nil, "<h1>Bad Gateway</h1>", "", 1, 0, -1},
		{"error in a 200", `body: {error: {code: 502}}`, long, 200, nil, `{"error": {"code": 502}}`, "", 1, 0, -1},
		{"billed all the same", `status: 504, billed: true`, long, 504, nil, "error", "", 1, 1, -1},
		{"usage unasked", `usage_chunk: always`, longStream, 200, nil, `"choices":[],"usage":{"prompt_tokens":9`, "", 1, 1, -1},
		{"usage overridden", `usage: {input: 2000, output: 300, cached: 1900, reasoning: 200}`, long, 200, nil, `"usage":{"prompt_tokens":2000,"completion_tokens":300,"total_tokens":2300,"prompt_tokens_details":{"audio_tokens":0,"cached_tokens":1900},"completion_tokens_details":{"audio_tokens":0,"reasoning_tokens":200`, "", 1, 1, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, url := start(t, Options{Script: script(t, "steps: [{"+c.step+"}]")})
			m.Script(m.script.Steps[0])
			status, body, err := get(t, url+"/v1/chat/completions", c.body)
			if status != c.status || !errors.Is(err, c.want) {
				t.Errorf("status %d, error %v; want %d, %v; body %s", status, err, c.status, c.want, body)
			}
			if !strings.Contains(body, c.has) || c.hasNot != "" && strings.Contains(body, c.hasNot) {
				t.Errorf("body %s", body)
			}
			if c.answered >= 0 && len(body) != c.answered {
				t.Errorf("%d bytes, want %d", len(body), c.answered)
			}
			if s := m.Stats(); s.Requests != c.requests || s.Billed != c.billed || s.StepsLeft != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

func TestResetInAStream(t *testing.T) {
	m, url := start(t, Options{})
	m.Script(Step{Reset: &Point{At: AtChunks, After: 2}, Hang: &Point{At: AtChunks, After: 2, For: 50 * time.Millisecond}})
	_, body, err := get(t, url+"/v1/chat/completions", hiStream)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Error("want a reset, got", err)
	}
	if !strings.Contains(body, `" said:"`) || strings.Contains(body, `" hi"`) {
		t.Error(body)
	}
	until(t, "the reset booked", func() bool {
		a := m.Stats().Arrivals
		return len(a) == 1 && a[0].Broken == "reset" && a[0].Chunks == 2 && a[0].Done
	})
	if s := m.Stats(); s.OutputTokens >= 4 || s.OutputTokens < 1 {
		t.Errorf("output billed: %d of 4, two of three chunks were sent", s.OutputTokens)
	}
}

func TestStreamOddities(t *testing.T) {
	m, url := start(t, Options{})
	read := func(st Step) string {
		t.Helper()
		m.Script(st)
		_, body, err := get(t, url+"/v1/chat/completions", hiStream)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	plain := read(Step{})
	ids := func(s string) string { // what differs from call to call
		for {
			_, rest, ok := strings.Cut(s, "chatcmpl-")
			if !ok {
				return s
			}
			s = strings.Replace(s, "chatcmpl-"+rest[:32], "ID", 1)
		}
	}
	crlf := read(Step{LineEnding: "crlf"})
	if strings.Count(crlf, "\r\n\r\n") != strings.Count(plain, "\n\n") || strings.Contains(strings.ReplaceAll(crlf, "\r\n", ""), "\n") {
		t.Errorf("%q", crlf)
	}
	if cr := read(Step{LineEnding: "cr"}); strings.Contains(cr, "\n") || strings.Count(cr, "\r\r") != strings.Count(plain, "\n\n") {
		t.Errorf("%q", cr)
	}
	bytewise := read(Step{WriteSize: 1})
	if len(bytewise) != len(plain) {
		t.Errorf("%q", bytewise)
	}
	if got := read(Step{Comments: &Comments{Count: 3, Text: "WAIT"}}); !strings.HasPrefix(got, strings.Repeat(": WAIT\n\n", 3)+"data: ") {
		t.Errorf("%q", got)
	}
	if got := read(Step{Chunks: 50}); strings.Count(got, `"delta":{"content":`) != 50 {
		t.Errorf("%q", got)
	}
	if got := read(Step{Chunks: 2}); strings.Count(got, `"delta":{"content":`) != 2 {
		t.Errorf("%q", got)
	}
	got := read(script(t, `
steps:
  - events:
      - '{"choices":[],"prompt_filter_results":[]}'
      - {event: ping, data: {a: 1}}
      - {comment: hello}
      - {id: 7, data: "two\nlines"}
      - {raw: "data:\n\n"}
      - '[DONE]'
`).Steps[0])
	if got != "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\nevent: ping\ndata: {\"a\": 1}\n\n: hello\n\nid: 7\ndata: two\ndata: lines\n\ndata:\n\ndata: [DONE]\n\n" {
		t.Errorf("%q", got)
	}
	if ids(plain) == plain {
		t.Error("no id in the stream")
	}
}

// TestBlankLinesBeforeTheBody: a provider that keeps a slow call's connection
// alive with white space.
func TestBlankLinesBeforeTheBody(t *testing.T) {
	m, url := start(t, Options{})
	m.Script(Step{Comments: &Comments{Count: 5}})
	_, body, err := get(t, url+"/v1/chat/completions", hi)
	if err != nil || !strings.HasPrefix(body, "\n\n\n\n\n{") || !json.Valid([]byte(body)) {
		t.Errorf("%q %v", body, err)
	}
}

func TestClientLeaves(t *testing.T) {
	for _, c := range []struct {
		name string
		step Step
		body string
	}{
		{"before the headers", Step{Delay: time.Minute}, hi},
		{"in a hang", Step{Hang: &Point{At: AtHeaders}}, hi},
		{"in a hang before the body is read", Step{Hang: &Point{At: AtRequest}}, hi},
		{"in a stream", Step{Hang: &Point{At: AtChunks, After: 1}}, hiStream},
		{"between chunks", Step{ChunkDelay: time.Minute}, hiStream},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, url := start(t, Options{})
			m.Script(c.step)
			ctx, leave := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", strings.NewReader(c.body))
			left := make(chan struct{})
			go func() {
				defer close(left)
				resp, err := http.DefaultClient.Do(req)
				if err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			until(t, "the request there", func() bool {
				s := m.Stats()
				return s.Inflight == 1 && (s.Requests == 1 || s.Partial == 1) && (c.body == hi || len(s.Arrivals) == 1 && s.Arrivals[0].Chunks == 1)
			})
			leave()
			<-left
			until(t, "the abort seen", func() bool { s := m.Stats(); return s.Aborts == 1 && s.Inflight == 0 })
			if a := m.Stats().Arrivals; len(a) == 1 && !a[0].Aborted {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestKeepOpenIsNoAbort(t *testing.T) {
	m, url := start(t, Options{})
	m.Script(Step{KeepOpen: time.Minute})
	resp, err := fresh(t, url+"/v1/chat/completions", hiStream)
	if err != nil {
		t.Fatal(err)
	}
	for r := bufio.NewScanner(resp.Body); r.Scan() && r.Text() != "data: [DONE]"; {
	}
	resp.Body.Close()
	until(t, "the end", func() bool { return m.Stats().Inflight == 0 })
	if s := m.Stats(); s.Aborts != 0 {
		t.Errorf("%+v", s)
	}
}

func TestControl(t *testing.T) {
	_, url := start(t, Options{})
	post := func(path, body string) (int, string) {
		t.Helper()
		status, answer, err := get(t, url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		return status, answer
	}
	if status, answer := post("/_mock/script", "record: true\nsteps:\n  - status: 503\n    retry-after: 1\n"); status != 400 || !strings.Contains(answer, "line 4") || !strings.Contains(answer, "retry-after") {
		t.Error(status, answer)
	}
	if status, answer := post("/_mock/script", `{"record": true, "steps": [{"status": 503}]}`); status != 204 {
		t.Error(status, answer)
	}
	if status, _ := post("/v1/chat/completions?x=a%2Bb", hi); status != 503 {
		t.Error(status)
	}
	resp, err := http.Get(url + "/_mock/stats")
	if err != nil {
		t.Fatal(err)
	}
	var s Stats
	err = json.NewDecoder(resp.Body).Decode(&s)
	resp.Body.Close()
	if err != nil || len(s.Arrivals) != 1 {
		t.Fatal(s, err)
	}
	a := s.Arrivals[0]
	if a.Body != hi || a.Query != "x=a%2Bb" || a.Header.Get("Content-Type") != "application/json" || a.Status != 503 || a.Model != "m1" || a.N != 1 {
		t.Errorf("%+v", a)
	}
	if len(s.By) != 1 || s.By[0] != (Count{Path: "/v1/chat/completions", Model: "m1", Requests: 1}) {
		t.Errorf("%+v", s.By)
	}
	if status, _ := post("/_mock/reset", ""); status != 204 {
		t.Error(status)
	}
	if status, _ := post("/_mock/stats", ""); status != 405 {
		t.Error(status)
	}
}

// TestInARecorder: the mock works without a connection of its own, and breaks
// off as net/http wants it there.
func TestInARecorder(t *testing.T) {
	m := New(Options{})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("POST", "/av1/chat/completions", strings.NewReader(hi)))
	if !strings.Contains(w.Body.String(), "You said: hi") {
		t.Error(w.Body.String())
	}
	m.Script(Step{Reset: &Point{}})
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("it did not break off")
		}
		if s := m.Stats(); s.Inflight != 0 {
			t.Error("still in flight")
		}
	}()
	m.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader([]byte(hi))))
}

func TestStructuredOutput(t *testing.T) {
	_, url := start(t, Options{})
	_, body, _ := get(t, url+"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":
		{"type":"object","$defs":{"k":{"enum":["b","c"]}},"properties":{"z":{"type":"array","items":{"$ref":"#/$defs/k"},"minItems":2},"a":{"anyOf":[{"type":"boolean"},{"type":"null"}]},"opt":{"type":"string"}},"required":["a","z"]}}}}`)
	if !strings.Contains(body, `"content":"{\"z\":[\"b\",\"b\"],\"a\":true}"`) {
		t.Error(body)
	}
}

func TestRerank(t *testing.T) {
	_, url := start(t, Options{})
	_, body, _ := get(t, url+"/v1/rerank", `{"model":"r","query":"red fox","documents":["stocks fell","a red fox",{"text":"red car"}],"top_n":2}`)
	var out struct {
		Results []struct {
			Index int     `json:"index"`
			Score float64 `json:"relevance_score"`
		}
	}
	if json.Unmarshal([]byte(body), &out) != nil || len(out.Results) != 2 || out.Results[0].Index != 1 || out.Results[1].Index != 2 {
		t.Error(body)
	}
}
