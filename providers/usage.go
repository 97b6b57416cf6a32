package providers

import "github.com/tidwall/gjson"

// readUsage reads a usage object in OpenAI's or Anthropic's spelling into t.
// Of a figure that comes twice in a stream the later one counts; one that is
// absent leaves what was known.
//
// Anthropic counts cached input apart, OpenAI within: t.Input has it all.
func (u *usage) read(v gjson.Result) {
	if !v.IsObject() {
		return
	}
	v.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "prompt_tokens", "input_tokens":
			count(&u.input, v, &u.known)
		case "completion_tokens", "output_tokens":
			count(&u.output, v, &u.known)
		case "total_tokens":
			count(&u.total, v, &u.known)
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			count(&u.cached, v.Get("cached_tokens"), nil)
		case "completion_tokens_details", "output_tokens_details":
			count(&u.reasoning, v.Get("reasoning_tokens"), nil)
		case "prompt_cache_hit_tokens": // DeepSeek
			count(&u.cached, v, nil)
		case "cache_read_input_tokens":
			count(&u.cacheRead, v, &u.known)
		case "cache_creation_input_tokens":
			count(&u.cacheWritten, v, &u.known)
		}
		return true
	})
}

// usage gathers what an upstream says of the tokens it used.
type usage struct {
	known                   bool
	input, output, total    int64
	cached, reasoning       int64
	cacheRead, cacheWritten int64 // Anthropic's, not within input
}

func count(to *int64, v gjson.Result, known *bool) {
	if v.Type != gjson.Number {
		return
	}
	*to = max(0, v.Int())
	if known != nil {
		*known = true
	}
}

func (u *usage) tokens() Tokens {
	t := Tokens{Known: u.known, Input: u.input, Output: u.output, CachedInput: u.cached, Reasoning: u.reasoning}
	if u.cacheRead > 0 || u.cacheWritten > 0 {
		t.Input += u.cacheRead + u.cacheWritten
		t.CachedInput = u.cacheRead
	}
	if t.Input == 0 && t.Output == 0 {
		t.Input = u.total // rerank and some embeddings tell nothing else
	}
	// Some servers count reasoning beside the completion. Then the total says so.
	if t.Reasoning > 0 && u.total == t.Input+t.Output+t.Reasoning {
		t.Output += t.Reasoning
	}
	t.CachedInput = min(t.CachedInput, t.Input)
	t.Reasoning = min(t.Reasoning, t.Output)
	return t
}

// add sums up what several events of one answer used.
func (u *usage) add(o usage) {
	u.known = u.known || o.known
	u.input += o.input
	u.output += o.output
	u.total += o.total
	u.cached += o.cached
	u.reasoning += o.reasoning
}
