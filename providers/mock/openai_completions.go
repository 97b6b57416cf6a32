package mock

import (
	"net/http"
	"time"

	"github.com/sashabaranov/go-openai"
)

type (
	completion struct {
		ID                string        `json:"id"`
		Object            string        `json:"object"`
		Created           int64         `json:"created"`
		Model             string        `json:"model"`
		Choices           []any         `json:"choices"`
		SystemFingerprint string        `json:"system_fingerprint"`
		Usage             *openai.Usage `json:"usage,omitempty"`
	}
	completionChoice struct {
		Text         string              `json:"text"`
		Index        int                 `json:"index"`
		Logprobs     *struct{}           `json:"logprobs"`
		FinishReason openai.FinishReason `json:"finish_reason"`
	}
)

// completions is the legacy API: a prompt, or a list of them.
func completions(_ *http.Request, a *ask, s *Step) (answer, *Fault) {
	if f := a.object(); f != nil {
		return answer{}, f
	}
	given := a.doc.Get("prompt")
	prompts := []string{given.String()}
	if list := given.Array(); given.IsArray() && len(list) > 0 && list[0].Type.String() == "String" {
		prompts = nil
		for _, p := range list {
			prompts = append(prompts, p.String())
		}
	}
	all := &reply{}
	for _, text := range prompts[:min(len(prompts), 128)] {
		p := &prompt{said: text, n: int(min(a.doc.Get("n").Int(), 128)), maxTokens: int(a.doc.Get("max_tokens").Int())}
		one := p.answer(s)
		all.choices = append(all.choices, one.choices...)
		all.usage.output += one.usage.output
	}
	all.usage.input = promptTokens(given)
	all.usage.override(s.Usage)

	head := completion{
		ID: newID("cmpl-"), Object: "text_completion", Created: time.Now().Unix(), Model: a.model,
		SystemFingerprint: a.fingerprint(),
	}
	if !a.stream {
		for i, c := range all.choices {
			head.Choices = append(head.Choices, completionChoice{Text: c.text, Index: i, FinishReason: chatFinish(c)})
		}
		u := openaiUsage(all.usage)
		head.Usage = &u
		return whole(head, all.usage), nil
	}
	var events []event
	add := func(p part, tokens int, choices ...any) {
		chunk := head
		chunk.Choices = append([]any{}, choices...)
		events = append(events, event{part: p, data: encode(chunk), tokens: tokens})
	}
	total := 0
	for _, c := range all.choices {
		total += len(c.pieces)
	}
	shares := share(all.usage.output, total)
	for i, c := range all.choices {
		for _, text := range c.pieces {
			add(content, shares[0], completionChoice{Text: text, Index: i})
			shares = shares[1:]
		}
		add(finish, 0, completionChoice{Index: i, FinishReason: chatFinish(c)})
	}
	if s.sendsUsage(a) {
		u := openaiUsage(all.usage)
		head.Usage = &u
		add(usage, 0)
	}
	return streamed(append(events, event{part: done, data: []byte("[DONE]")}), all.usage), nil
}
