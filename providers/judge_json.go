package providers

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
	r := newJSONReader(body)
	defer r.release()
	a := answerJSON{jsonReader: r}
	switch kind := r.dec.PeekKind(); {
	case kind == '{':
		r.object(a.member)
	case kind == '[' && (w == Embeddings || w == Rerank):
		r.skip()
	default:
		return judgement{}, false
	}
	if !r.over() {
		return judgement{}, false
	}
	j := judgement{fault: a.fault, end: End{Whole: true, Model: string(a.model), Usage: a.used.sum(w)}}
	switch w {
	case Chat, Completions:
		if !a.choices {
			j.missing = "choices"
		}
		j.end.Cut = a.cut
	case Responses:
		if !a.answer {
			j.missing = "output"
		}
		j.fault = j.fault || a.failed
		j.end.Cut = a.cut
	case Messages:
		if !a.answer {
			j.missing = "content"
		}
		j.end.Cut = a.cut
	}
	return j, true
}

// answerJSON is what was found in an answer.
type answerJSON struct {
	*jsonReader
	fault, choices, answer, failed, cut bool
	used                                usage
	model                               modelName
}

func (a *answerJSON) member(name []byte) {
	switch string(name) {
	case "error":
		a.fault = says(a.value()) || a.fault
	case "object":
		a.fault = a.value().Str == "error" || a.fault // FastChat, older vLLM
	case "usage":
		a.used.read(a.value())
	case "model":
		a.model.read(a.value())
	case "service_tier":
		a.used.tier(a.value())
	case "tool_usage":
		a.used.toolUse(a.value())
	case "choices":
		a.array(func() {
			a.choices = true
			a.object(a.choice)
		})
	case "content", "output":
		a.answer = true
		a.skip()
	case "status":
		v := a.value()
		a.answer, a.failed = true, v.Str == "failed"
		a.cut = a.cut || v.Str == "incomplete"
	case "stop_reason":
		a.answer = true
		a.cut = cutBy(a.value().Str) || a.cut
	default:
		a.skip()
	}
}

func (a *answerJSON) choice(name []byte) {
	if string(name) == "finish_reason" {
		a.cut = cutBy(a.value().Str) || a.cut
	} else {
		a.skip()
	}
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
