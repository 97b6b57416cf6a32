package providers

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
)

// judgement is what a whole JSON answer comes to.
type judgement struct {
	fault   bool   // it holds an error
	missing string // what an answer of its wire must have and it has not
	end     End
}

// judgeJSON judges a JSON answer by its wire; false means it is not JSON, or
// a document that is no answer of any wire. What it says is not looked at
// but for what ends it: an answer with empty text is an answer.
func judgeJSON(w Wire, body []byte) (judgement, bool) {
	if !gjson.ValidBytes(body) {
		return judgement{}, false
	}
	doc := peek(body)
	if !doc.IsObject() && !(doc.IsArray() && (w == Embeddings || w == Rerank)) {
		return judgement{}, false
	}
	var (
		j                            judgement
		used                         usage
		model                        modelName
		choices, answer, failed, cut bool
	)
	j.end.Whole = true
	mayBeCut := bytes.Contains(body, []byte("length")) || bytes.Contains(body, []byte("content_filter")) || bytes.Contains(body, []byte("max_tokens"))
	if doc.IsObject() {
		doc.ForEach(func(k, v gjson.Result) bool {
			switch k.Str {
			case "error":
				j.fault = j.fault || says(v)
			case "object":
				j.fault = j.fault || v.Str == "error" // FastChat, older vLLM
			case "usage":
				used.read(v)
			case "model":
				model.read(v)
			case "service_tier":
				used.tier(v)
			case "tool_usage":
				used.toolUse(v)
			case "choices":
				if !v.IsArray() {
					break
				}
				choices = strings.TrimLeft(v.Raw[1:], " \t\r\n")[0] != ']'
				if mayBeCut { // else nothing in there is worth another look at the text
					v.ForEach(func(_, choice gjson.Result) bool {
						cut = cut || cutBy(choice.Get("finish_reason").Str)
						return true
					})
				}
			case "content", "output":
				answer = true
			case "status":
				answer = true
				failed = v.Str == "failed"
				cut = cut || v.Str == "incomplete"
			case "stop_reason":
				answer = true
				cut = cut || cutBy(v.Str)
			}
			return true
		})
	}
	switch w {
	case Chat, Completions:
		if !choices {
			j.missing = "choices"
		}
		j.end.Cut = cut
	case Responses:
		if !answer {
			j.missing = "output"
		}
		j.fault = j.fault || failed
		j.end.Cut = cut
	case Messages:
		if !answer {
			j.missing = "content"
		}
		j.end.Cut = cut
	}
	j.end.Model, j.end.Usage = string(model), used.sum(w)
	return j, true
}

// cutBy reports whether a finish or stop reason means that the answer is
// whole, but not what the model would have said.
func cutBy(reason string) bool {
	switch reason {
	case "length", "content_filter", // OpenAI
		"max_tokens", "refusal", "model_context_window_exceeded": // Anthropic
		return true
	}
	return false
}
