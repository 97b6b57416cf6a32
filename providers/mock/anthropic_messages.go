package mock

import (
	"encoding/json"
	"net/http"

	"github.com/tidwall/gjson"
)

type (
	message struct {
		ID           string       `json:"id"`
		Type         string       `json:"type"`
		Role         string       `json:"role"`
		Model        string       `json:"model"`
		Content      []any        `json:"content"`
		StopReason   *string      `json:"stop_reason"`
		StopSequence *string      `json:"stop_sequence"`
		Usage        messageUsage `json:"usage"`
	}
	messageUsage struct {
		InputTokens              int    `json:"input_tokens"`
		CacheCreationInputTokens int    `json:"cache_creation_input_tokens"`
		CacheReadInputTokens     int    `json:"cache_read_input_tokens"`
		OutputTokens             int    `json:"output_tokens"`
		ServiceTier              string `json:"service_tier"`
	}
	textBlock struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	toolBlock struct {
		Type  string          `json:"type"`
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	messageStart struct {
		Type    string  `json:"type"`
		Message message `json:"message"`
	}
	blockStart struct {
		Type         string `json:"type"`
		Index        int    `json:"index"`
		ContentBlock any    `json:"content_block"`
	}
	blockDelta struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Delta any    `json:"delta"`
	}
	blockStop struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
	}
	jsonDelta struct {
		Type        string `json:"type"`
		PartialJSON string `json:"partial_json"`
	}
	messageDelta struct {
		Type  string `json:"type"`
		Delta struct {
			StopReason   string  `json:"stop_reason"`
			StopSequence *string `json:"stop_sequence"`
		} `json:"delta"`
		Usage messageUsage `json:"usage"`
	}
	typed struct {
		Type string `json:"type"`
	}
)

func messages(_ *http.Request, a *ask, s *Step) (answer, *Fault) {
	if f := a.messages(); f != nil {
		return answer{}, f
	}
	if a.doc.Get("max_tokens").Int() < 1 {
		return answer{}, invalid("", "max_tokens: Field required")
	}
	r := messagesPrompt(a.doc).answer(s)
	c := r.choices[0]
	m := message{ID: newID("msg_"), Type: "message", Role: "assistant", Model: a.model, Content: []any{}, Usage: anthropicUsage(r.usage)}
	stop := stopReason(c)
	if a.stream {
		return streamed(messageStream(m, c, r.usage, s), r.usage), nil
	}
	m.StopReason = &stop
	if len(c.calls) == 0 {
		m.Content = append(m.Content, textBlock{"text", c.text})
	}
	for _, t := range c.calls {
		m.Content = append(m.Content, toolBlock{"tool_use", newID("toolu_"), t.name, asJSON(t.arguments)})
	}
	return whole(m, r.usage), nil
}

func countTokens(_ *http.Request, a *ask, _ *Step) (answer, *Fault) {
	if f := a.messages(); f != nil {
		return answer{}, f
	}
	return whole(map[string]int{"input_tokens": messagesPrompt(a.doc).input}, counted{}), nil
}

func (a *ask) messages() *Fault {
	if f := a.object(); f != nil {
		return f
	}
	if len(a.doc.Get("messages").Array()) == 0 {
		return invalid("", "messages: at least one message is required")
	}
	return nil
}

func messagesPrompt(doc gjson.Result) *prompt {
	p := &prompt{
		maxTokens: int(doc.Get("max_tokens").Int()),
		choice:    toolChoice(doc.Get("tool_choice"), "name"),
		input:     promptTokens(doc.Get("system")) + promptTokens(doc.Get("messages")) + tokens(doc.Get("tools").Raw),
	}
	for _, path := range []string{"output_config.format.schema", "output_format.schema"} {
		if v := doc.Get(path); v.Exists() {
			p.schema = v
		}
	}
	for _, t := range doc.Get("tools").Array() {
		if name := t.Get("name").String(); name != "" {
			p.tools = append(p.tools, tool{name, t.Get("input_schema")})
		}
	}
	all := doc.Get("messages").Array()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Get("role").String() != "user" {
			continue
		}
		said := all[i].Get("content")
		p.said = textOf(said)
		for _, block := range said.Array() {
			if block.Get("type").String() == "tool_result" {
				p.said, p.afterTool = textOf(block.Get("content")), true
			}
		}
		break
	}
	return p
}

func messageStream(m message, c choice, u counted, s *Step) []event {
	open := m
	open.Usage.OutputTokens = 1 // as the API has it: the count comes with message_delta
	events := []event{
		named(preamble, messageStart{"message_start", open}),
	}
	add := func(p part, tokens int, v any) {
		ev := named(p, v)
		ev.tokens = tokens
		events = append(events, ev)
	}
	if len(c.calls) == 0 {
		add(preamble, 0, blockStart{"content_block_start", 0, textBlock{"text", ""}})
		add(preamble, 0, typed{"ping"})
		shares := share(u.output, len(c.pieces))
		for i, text := range c.pieces {
			add(content, shares[i], blockDelta{"content_block_delta", 0, textBlock{"text_delta", text}})
		}
		add(tail, 0, blockStop{"content_block_stop", 0})
	}
	shares := share(u.output, len(c.calls))
	for i, t := range c.calls {
		add(content, shares[i], blockStart{"content_block_start", i, toolBlock{"tool_use", newID("toolu_"), t.name, json.RawMessage("{}")}})
		for _, f := range fragments(t.arguments, s.Chunks) {
			add(content, 0, blockDelta{"content_block_delta", i, jsonDelta{"input_json_delta", f}})
		}
		add(tail, 0, blockStop{"content_block_stop", i})
	}
	end := messageDelta{Type: "message_delta", Usage: m.Usage}
	end.Delta.StopReason = stopReason(c)
	add(finish, 0, end)
	add(done, 0, typed{"message_stop"})
	return events
}

func stopReason(c choice) string {
	switch {
	case c.finish != "":
		return c.finish
	case len(c.calls) > 0:
		return "tool_use"
	case c.cut:
		return "max_tokens"
	}
	return "end_turn"
}

// anthropicUsage: there cached tokens are not part of the input.
func anthropicUsage(u counted) messageUsage {
	return messageUsage{
		InputTokens: max(u.input-u.cached, 0), CacheReadInputTokens: u.cached, OutputTokens: u.output, ServiceTier: "standard",
	}
}

// asJSON passes JSON on, and makes a string of what a script has that is none.
func asJSON(s string) json.RawMessage {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return encode(s)
}
