package mock

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

type (
	response struct {
		ID                 string             `json:"id"`
		Object             string             `json:"object"`
		CreatedAt          int64              `json:"created_at"`
		Status             string             `json:"status"`
		Background         bool               `json:"background"`
		Error              *struct{}          `json:"error"`
		IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
		Instructions       json.RawMessage    `json:"instructions"`
		MaxOutputTokens    json.RawMessage    `json:"max_output_tokens"`
		Model              string             `json:"model"`
		Output             []any              `json:"output"`
		ParallelToolCalls  bool               `json:"parallel_tool_calls"`
		PreviousResponseID json.RawMessage    `json:"previous_response_id"`
		Reasoning          struct {
			Effort  *string `json:"effort"`
			Summary *string `json:"summary"`
		} `json:"reasoning"`
		ServiceTier string          `json:"service_tier"`
		Store       bool            `json:"store"`
		Temperature float64         `json:"temperature"`
		Text        json.RawMessage `json:"text"`
		ToolChoice  json.RawMessage `json:"tool_choice"`
		Tools       json.RawMessage `json:"tools"`
		TopP        float64         `json:"top_p"`
		Truncation  string          `json:"truncation"`
		Usage       *responseUsage  `json:"usage"`
		User        json.RawMessage `json:"user"`
		Metadata    json.RawMessage `json:"metadata"`
	}
	incompleteDetails struct {
		Reason string `json:"reason"`
	}
	responseUsage struct {
		InputTokens        int `json:"input_tokens"`
		InputTokensDetails struct {
			CachedTokens     int `json:"cached_tokens"`
			CacheWriteTokens int `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputTokens        int `json:"output_tokens"`
		OutputTokensDetails struct {
			ReasoningTokens int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		TotalTokens int `json:"total_tokens"`
	}
	outputMessage struct {
		ID      string       `json:"id"`
		Type    string       `json:"type"`
		Status  string       `json:"status"`
		Role    string       `json:"role"`
		Content []outputText `json:"content"`
	}
	outputText struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
	}
	outputCall struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	// responseEvent is any event of a streamed response: each type has the
	// members that are set for it.
	responseEvent struct {
		Type           string `json:"type"`
		SequenceNumber int    `json:"sequence_number"`
		Response       any    `json:"response,omitempty"`
		OutputIndex    *int   `json:"output_index,omitempty"`
		ItemID         string `json:"item_id,omitempty"`
		ContentIndex   *int   `json:"content_index,omitempty"`
		Item           any    `json:"item,omitempty"`
		Part           any    `json:"part,omitempty"`
		Delta          string `json:"delta,omitempty"`
		Text           string `json:"text,omitempty"`
		Name           string `json:"name,omitempty"`
		Arguments      string `json:"arguments,omitempty"`
		Logprobs       *[]any `json:"logprobs,omitempty"`
	}
)

func responses(_ *http.Request, a *ask, s *Step) (answer, *Fault) {
	if f := a.object(); f != nil {
		return answer{}, f
	}
	if !a.doc.Get("input").Exists() && !a.doc.Get("prompt").Exists() {
		return answer{}, invalid("input", "One of \"input\" or \"prompt\" must be provided.")
	}
	r := responsesPrompt(a.doc).answer(s)
	c := r.choices[0]
	out := responseOf(a)
	if a.stream {
		return streamed(responseStream(out, c, r.usage, s), r.usage), nil
	}
	out.end(c, r.usage)
	if len(c.calls) == 0 {
		out.Output = append(out.Output, messageItem(newID("msg_"), c.text, out.Status))
	}
	for _, t := range c.calls {
		out.Output = append(out.Output, outputCall{newID("fc_"), "function_call", "completed", newID("call_"), t.name, t.arguments})
	}
	return whole(out, r.usage), nil
}

func responsesPrompt(doc gjson.Result) *prompt {
	p := &prompt{
		maxTokens: int(doc.Get("max_output_tokens").Int()),
		json:      doc.Get("text.format.type").String() == "json_object",
		schema:    doc.Get("text.format.schema"),
		choice:    toolChoice(doc.Get("tool_choice"), "name"),
		input:     promptTokens(doc.Get("instructions")) + promptTokens(doc.Get("input")) + tokens(doc.Get("tools").Raw),
	}
	for _, t := range doc.Get("tools").Array() {
		if name := t.Get("name").String(); name != "" && t.Get("type").String() == "function" {
			p.tools = append(p.tools, tool{name, t.Get("parameters")})
		}
	}
	in := doc.Get("input")
	if !in.IsArray() {
		p.said = in.String()
		return p
	}
	items := in.Array()
	for i := len(items) - 1; i >= 0; i-- {
		if strings.HasSuffix(items[i].Get("type").String(), "_call_output") {
			p.said, p.afterTool = textOf(items[i].Get("output")), true
			break
		}
		if items[i].Get("role").String() == "user" {
			p.said = textOf(items[i].Get("content"))
			break
		}
	}
	return p
}

// responseOf echoes the settings of a request, as the API does.
func responseOf(a *ask) *response {
	raw := func(path, otherwise string) json.RawMessage {
		if v := a.doc.Get(path); v.Exists() {
			return json.RawMessage(v.Raw)
		}
		return json.RawMessage(otherwise)
	}
	number := func(path string, otherwise float64) float64 {
		if v := a.doc.Get(path); v.Exists() {
			return v.Float()
		}
		return otherwise
	}
	store, parallel := a.doc.Get("store"), a.doc.Get("parallel_tool_calls")
	return &response{
		ID: newID("resp_"), Object: "response", CreatedAt: time.Now().Unix(), Status: "in_progress", Model: a.model,
		Instructions: raw("instructions", "null"), MaxOutputTokens: raw("max_output_tokens", "null"), Output: []any{},
		ParallelToolCalls: !parallel.Exists() || parallel.Bool(), PreviousResponseID: raw("previous_response_id", "null"),
		ServiceTier: "default", Store: !store.Exists() || store.Bool(), Temperature: number("temperature", 1),
		Text: raw("text", `{"format":{"type":"text"}}`), ToolChoice: raw("tool_choice", `"auto"`), Tools: raw("tools", "[]"),
		TopP: number("top_p", 1), Truncation: "disabled", User: raw("user", "null"), Metadata: raw("metadata", "{}"),
	}
}

func (r *response) end(c choice, u counted) {
	r.Status = "completed"
	switch {
	case c.finish != "" && c.finish != "stop" && c.finish != "completed":
		r.Status, r.IncompleteDetails = "incomplete", &incompleteDetails{c.finish}
	case c.cut:
		r.Status, r.IncompleteDetails = "incomplete", &incompleteDetails{"max_output_tokens"}
	}
	r.Usage = &responseUsage{InputTokens: u.input, OutputTokens: u.output, TotalTokens: u.input + u.output}
	r.Usage.InputTokensDetails.CachedTokens = u.cached
	r.Usage.OutputTokensDetails.ReasoningTokens = u.reasoning
}

func messageItem(id, text, status string) outputMessage {
	return outputMessage{id, "message", status, "assistant", []outputText{textPart(text)}}
}

func textPart(text string) outputText { return outputText{"output_text", text, []any{}, []any{}} }

func responseStream(out *response, c choice, u counted, s *Step) (events []event) {
	n := 0
	add := func(p part, tokens int, e responseEvent) {
		e.SequenceNumber = n
		n++
		ev := named(p, e)
		ev.tokens = tokens
		events = append(events, ev)
	}
	zero, none := 0, []any{}
	add(preamble, 0, responseEvent{Type: "response.created", Response: *out})
	add(preamble, 0, responseEvent{Type: "response.in_progress", Response: *out})
	final := *out
	final.Output = []any{}
	final.end(c, u)
	if len(c.calls) == 0 {
		id := newID("msg_")
		open := messageItem(id, "", "in_progress")
		open.Content = []outputText{}
		add(preamble, 0, responseEvent{Type: "response.output_item.added", OutputIndex: &zero, Item: open})
		add(preamble, 0, responseEvent{Type: "response.content_part.added", OutputIndex: &zero, ContentIndex: &zero, ItemID: id, Part: textPart("")})
		shares := share(u.output, len(c.pieces))
		for i, text := range c.pieces {
			add(content, shares[i], responseEvent{Type: "response.output_text.delta", OutputIndex: &zero, ContentIndex: &zero, ItemID: id, Delta: text, Logprobs: &none})
		}
		item := messageItem(id, c.text, final.Status)
		add(tail, 0, responseEvent{Type: "response.output_text.done", OutputIndex: &zero, ContentIndex: &zero, ItemID: id, Text: c.text, Logprobs: &none})
		add(tail, 0, responseEvent{Type: "response.content_part.done", OutputIndex: &zero, ContentIndex: &zero, ItemID: id, Part: item.Content[0]})
		add(tail, 0, responseEvent{Type: "response.output_item.done", OutputIndex: &zero, Item: item})
		final.Output = append(final.Output, item)
	}
	shares := share(u.output, len(c.calls))
	for i, t := range c.calls {
		item := outputCall{newID("fc_"), "function_call", "in_progress", newID("call_"), t.name, ""}
		add(content, shares[i], responseEvent{Type: "response.output_item.added", OutputIndex: &i, Item: item})
		for _, f := range fragments(t.arguments, s.Chunks) {
			add(content, 0, responseEvent{Type: "response.function_call_arguments.delta", OutputIndex: &i, ItemID: item.ID, Delta: f})
		}
		item.Status, item.Arguments = "completed", t.arguments
		add(tail, 0, responseEvent{Type: "response.function_call_arguments.done", OutputIndex: &i, ItemID: item.ID, Name: t.name, Arguments: t.arguments})
		add(tail, 0, responseEvent{Type: "response.output_item.done", OutputIndex: &i, Item: item})
		final.Output = append(final.Output, item)
	}
	add(finish, 0, responseEvent{Type: "response." + final.Status, Response: final})
	return events
}
