package mock

import (
	"net/http"
	"time"

	"github.com/sashabaranov/go-openai"
	"github.com/tidwall/gjson"
)

// The shapes are written out where go-openai's leave out a null that OpenAI
// sends and SDKs expect: content, refusal, logprobs, usage.
type (
	chatAnswer struct {
		ID                string       `json:"id"`
		Object            string       `json:"object"`
		Created           int64        `json:"created"`
		Model             string       `json:"model"`
		Choices           []any        `json:"choices"`
		Usage             openai.Usage `json:"usage"`
		ServiceTier       string       `json:"service_tier"`
		SystemFingerprint string       `json:"system_fingerprint"`
	}
	chatChoice struct {
		Index        int                 `json:"index"`
		Message      chatMessage         `json:"message"`
		Logprobs     *chatLogprobs       `json:"logprobs"`
		FinishReason openai.FinishReason `json:"finish_reason"`
	}
	chatMessage struct {
		Role        string            `json:"role"`
		Content     *string           `json:"content"`
		ToolCalls   []openai.ToolCall `json:"tool_calls,omitempty"`
		Refusal     *string           `json:"refusal"`
		Annotations []any             `json:"annotations"`
	}
	chatChunk struct {
		ID                string        `json:"id"`
		Object            string        `json:"object"`
		Created           int64         `json:"created"`
		Model             string        `json:"model"`
		ServiceTier       string        `json:"service_tier"`
		SystemFingerprint string        `json:"system_fingerprint"`
		Choices           []any         `json:"choices"`
		Usage             *openai.Usage `json:"usage,omitempty"`
	}
	chatDelta struct {
		Index        int                 `json:"index"`
		Delta        any                 `json:"delta"`
		Logprobs     *chatLogprobs       `json:"logprobs"`
		FinishReason openai.FinishReason `json:"finish_reason"`
	}
	chatLogprobs struct {
		Content []tokenLogprob `json:"content"`
		Refusal []tokenLogprob `json:"refusal"`
	}
	tokenLogprob struct {
		Token       string         `json:"token"`
		Logprob     float64        `json:"logprob"`
		Bytes       []int          `json:"bytes"`
		TopLogprobs []tokenLogprob `json:"top_logprobs"`
	}
	textDelta struct {
		Content string `json:"content"`
	}
	roleDelta struct {
		Role    string  `json:"role"`
		Content *string `json:"content"`
		Refusal *string `json:"refusal"`
	}
	callDelta struct {
		ToolCalls []callPart `json:"tool_calls"`
	}
	callPart struct { // all but the first of a call have arguments only
		Index    int    `json:"index"`
		ID       string `json:"id,omitempty"`
		Type     string `json:"type,omitempty"`
		Function struct {
			Name      string `json:"name,omitempty"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
)

func chat(_ *http.Request, a *ask, s *Step) (answer, *Fault) {
	if f := a.object(); f != nil {
		return answer{}, f
	}
	if len(a.doc.Get("messages").Array()) == 0 {
		return answer{}, invalid("messages", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	r := chatPrompt(a.doc).answer(s)
	if a.stream {
		return streamed(chatStream(a, r, s), r.usage), nil
	}
	out := chatAnswer{
		ID: newID("chatcmpl-"), Object: "chat.completion", Created: time.Now().Unix(), Model: a.model,
		Usage: openaiUsage(r.usage), ServiceTier: "default", SystemFingerprint: a.fingerprint(),
	}
	for i, c := range r.choices {
		m := chatMessage{Role: "assistant", Annotations: []any{}}
		if len(c.calls) == 0 {
			m.Content = &c.text
		}
		for _, t := range c.calls {
			m.ToolCalls = append(m.ToolCalls, openai.ToolCall{
				ID: newID("call_"), Type: openai.ToolTypeFunction,
				Function: openai.FunctionCall{Name: t.name, Arguments: t.arguments},
			})
		}
		out.Choices = append(out.Choices, chatChoice{i, m, chatLogprobsOf(a, c.pieces...), chatFinish(c)})
	}
	return whole(out, r.usage), nil
}

// chatStream is the same answer in chunks, those of several choices in turn.
func chatStream(a *ask, r *reply, s *Step) (events []event) {
	head := chatChunk{
		ID: newID("chatcmpl-"), Object: "chat.completion.chunk", Created: time.Now().Unix(), Model: a.model,
		ServiceTier: "default", SystemFingerprint: a.fingerprint(),
	}
	add := func(p part, tokens int, choices ...any) {
		chunk := head
		chunk.Choices = append([]any{}, choices...)
		events = append(events, event{part: p, data: encode(chunk), tokens: tokens})
	}
	empty := ""
	parts := make([][]any, len(r.choices))
	for i, c := range r.choices {
		role := roleDelta{Role: "assistant", Content: &empty}
		if len(c.calls) > 0 {
			role.Content = nil
		}
		add(preamble, 0, chatDelta{Index: i, Delta: role})
		for _, p := range c.pieces {
			parts[i] = append(parts[i], chatDelta{Index: i, Delta: textDelta{p}, Logprobs: chatLogprobsOf(a, p)})
		}
		for n, t := range c.calls {
			first := callPart{Index: n, ID: newID("call_"), Type: "function"}
			first.Function.Name = t.name
			parts[i] = append(parts[i], chatDelta{Index: i, Delta: callDelta{[]callPart{first}}})
			for _, f := range fragments(t.arguments, s.Chunks) {
				next := callPart{Index: n}
				next.Function.Arguments = f
				parts[i] = append(parts[i], chatDelta{Index: i, Delta: callDelta{[]callPart{next}}})
			}
		}
	}
	shares := share(r.usage.output, len(parts)*len(parts[0]))
	for n := range parts[0] {
		for i := range parts {
			add(content, shares[n*len(parts)+i], parts[i][n])
		}
	}
	for i, c := range r.choices {
		add(finish, 0, chatDelta{Index: i, Delta: struct{}{}, FinishReason: chatFinish(c)})
	}
	if s.sendsUsage(a) {
		u := openaiUsage(r.usage)
		head.Usage = &u
		add(usage, 0)
	}
	return append(events, event{part: done, data: []byte("[DONE]")})
}

// share spreads tokens over the chunks of a stream: what was sent when it
// broke off is what is billed of it.
func share(tokens, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = tokens*(i+1)/n - tokens*i/n
	}
	return out
}

func (s *Step) sendsUsage(a *ask) bool {
	switch s.UsageChunk {
	case "always":
		return true
	case "never":
		return false
	}
	return a.includeUsage
}

// fingerprint tells one request's answer from another's that says the same:
// it is made of the whole body.
func (a *ask) fingerprint() string { return "fp_" + a.sha[:10] }

func chatFinish(c choice) openai.FinishReason {
	switch {
	case c.finish != "":
		return openai.FinishReason(c.finish)
	case len(c.calls) > 0:
		return openai.FinishReasonToolCalls
	case c.cut:
		return openai.FinishReasonLength
	}
	return openai.FinishReasonStop
}

func openaiUsage(u counted) openai.Usage {
	return openai.Usage{
		PromptTokens: u.input, CompletionTokens: u.output, TotalTokens: u.input + u.output,
		PromptTokensDetails:     &openai.PromptTokensDetails{CachedTokens: u.cached},
		CompletionTokensDetails: &openai.CompletionTokensDetails{ReasoningTokens: u.reasoning},
	}
}

func chatLogprobsOf(a *ask, words ...string) *chatLogprobs {
	if !a.doc.Get("logprobs").Bool() {
		return nil
	}
	out := &chatLogprobs{Content: []tokenLogprob{}}
	for _, w := range words {
		one := tokenLogprob{Token: w, Logprob: -0.25, Bytes: []int{}, TopLogprobs: []tokenLogprob{}}
		for _, b := range []byte(w) {
			one.Bytes = append(one.Bytes, int(b))
		}
		for i := range min(a.doc.Get("top_logprobs").Int(), 20) {
			top := one
			top.TopLogprobs = nil
			top.Logprob -= float64(i)
			one.TopLogprobs = append(one.TopLogprobs, top)
		}
		out.Content = append(out.Content, one)
	}
	return out
}

// MarshalJSON leaves out the inner list that only the outer level has.
func (t tokenLogprob) MarshalJSON() ([]byte, error) {
	type top struct {
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
		Bytes   []int   `json:"bytes"`
	}
	if t.TopLogprobs == nil {
		return encode(top{t.Token, t.Logprob, t.Bytes}), nil
	}
	type all tokenLogprob
	return encode(all(t)), nil
}

func chatPrompt(doc gjson.Result) *prompt {
	p := &prompt{
		n:         int(min(doc.Get("n").Int(), 128)),
		maxTokens: int(max(doc.Get("max_tokens").Int(), doc.Get("max_completion_tokens").Int())),
		logprobs:  doc.Get("logprobs").Bool(),
		json:      doc.Get("response_format.type").String() == "json_object",
		schema:    doc.Get("response_format.json_schema.schema"),
		input:     promptTokens(doc.Get("messages")) + tokens(doc.Get("tools").Raw),
		choice:    toolChoice(doc.Get("tool_choice"), "function.name"),
	}
	for _, t := range doc.Get("tools").Array() {
		if name := t.Get("function.name").String(); name != "" {
			p.tools = append(p.tools, tool{name, t.Get("function.parameters")})
		}
	}
	p.last(doc.Get("messages"))
	return p
}

// last finds what was said last by a user or a tool.
func (p *prompt) last(messages gjson.Result) {
	all := messages.Array()
	for i := len(all) - 1; i >= 0; i-- {
		switch all[i].Get("role").String() {
		case "user":
			p.said = textOf(all[i].Get("content"))
			return
		case "tool", "function":
			p.said, p.afterTool = textOf(all[i].Get("content")), true
			return
		}
	}
}

// textOf joins the texts of a content: a string, or a list of parts.
func textOf(c gjson.Result) string {
	if !c.IsArray() {
		return c.String()
	}
	out := ""
	for _, p := range c.Array() {
		if t := p.Get("text"); t.Type == gjson.String {
			if out != "" {
				out += "\n"
			}
			out += t.String()
		}
	}
	return out
}

// toolChoice reads tool_choice: a word, or an object that names a tool at
// the given path.
func toolChoice(c gjson.Result, name string) string {
	if c.IsObject() {
		if n := c.Get(name).String(); n != "" {
			return n
		}
		return toolChoice(c.Get("type"), name)
	}
	switch c.String() {
	case "required", "any":
		return "required"
	case "none":
		return "none"
	}
	return ""
}
