package providers

import (
	"strings"

	"github.com/tidwall/gjson"

	"oncegate/prices"
)

// usage gathers what an upstream says of one answer: in one object, or over
// several events of a stream.
//
// A figure that can't be believed makes the whole usage unknown: a price made
// from the others would be wrong, and nobody would see it.
type usage struct {
	bad   bool // a figure is no count
	other bool // not at the standard prices

	input, output, total      count
	cached, reasoning         count
	cacheWritten              count // part of input in OpenAI's words, beside it in Anthropic's
	cacheRead                 count // Anthropic's word for cached
	written5m, written1h      count
	inputAudio, inputImage    count
	outputAudio, outputImage  count
	searches                  count
	millis                    count
	cost, upstreamCost, ticks count // pico-dollars, but for ticks
	ownKey                    bool  // OpenRouter's cost is only its fee: the seller bills us himself
}

// count is a figure that was told, or was not.
type count struct {
	n   int64
	set bool
}

// tell notes a figure. Figures of a stream are cumulative, and the last one
// counts; but none falls back to nothing, and some events have zeros for what
// they don't know.
func (c *count) tell(n int64) {
	if n > 0 || !c.set {
		c.n, c.set = n, true
	}
}

// read reads a usage object in OpenAI's or Anthropic's spelling.
func (u *usage) read(v gjson.Result) {
	if !v.IsObject() {
		return
	}
	v.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "prompt_tokens", "input_tokens":
			u.count(&u.input, v)
		case "completion_tokens", "output_tokens":
			u.count(&u.output, v)
		case "total_tokens":
			u.count(&u.total, v)
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			u.inputDetails(v)
		case "completion_tokens_details", "output_tokens_details", "output_token_details":
			u.outputDetails(v)
		case "prompt_cache_hit_tokens", "cached_tokens": // DeepSeek; Moonshot
			u.count(&u.cached, v)
		case "reasoning_tokens": // xAI
			u.count(&u.reasoning, v)
		case "cache_read_input_tokens":
			u.count(&u.cacheRead, v)
		case "cache_creation_input_tokens":
			u.count(&u.cacheWritten, v)
		case "cache_creation":
			u.count(&u.written5m, v.Get("ephemeral_5m_input_tokens"))
			u.count(&u.written1h, v.Get("ephemeral_1h_input_tokens"))
		case "server_tool_use":
			u.count(&u.searches, v.Get("web_search_requests"))
		case "seconds": // of a transcription that is billed by time
			u.decimal(&u.millis, v, 3)
		case "service_tier":
			u.tier(v)
		case "inference_geo": // Anthropic adds a tenth for the US only
			u.other = u.other || v.Str != "" && v.Str != "global" && v.Str != "not_available"
		case "speed":
			u.other = u.other || v.Str != "" && v.Str != "standard"
		case "iterations": // those of other kinds than message are not in the sum
			if !v.IsArray() {
				break
			}
			v.ForEach(func(_, one gjson.Result) bool {
				u.other = u.other || one.Get("type").Str != "message"
				return true
			})
		case "cost":
			u.stated(v)
		case "cost_details":
			u.money(&u.upstreamCost, v.Get("upstream_inference_cost"))
		case "is_byok":
			u.ownKey = v.Type == gjson.True
		case "cost_in_usd_ticks": // xAI: 10^10 to the dollar
			u.ticksOf(v)
		}
		return true
	})
}

func (u *usage) inputDetails(v gjson.Result) {
	if !v.IsObject() {
		return
	}
	v.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "cached_tokens":
			u.count(&u.cached, v)
		case "cache_write_tokens", "cache_creation_tokens":
			u.count(&u.cacheWritten, v)
		case "audio_tokens":
			u.count(&u.inputAudio, v)
		case "image_tokens":
			u.count(&u.inputImage, v)
		}
		return true
	})
}

func (u *usage) outputDetails(v gjson.Result) {
	if !v.IsObject() {
		return
	}
	v.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "reasoning_tokens", "thinking_tokens":
			u.count(&u.reasoning, v)
		case "audio_tokens":
			u.count(&u.outputAudio, v)
		case "image_tokens":
			u.count(&u.outputImage, v)
		}
		return true
	})
}

// tier reads a service tier, which stands beside or in the usage object.
func (u *usage) tier(v gjson.Result) {
	u.other = u.other || v.Type == gjson.String && prices.TierOf(v.Str) != prices.Standard
}

// toolUse reads what responses say of tools that OpenAI runs and bills.
func (u *usage) toolUse(v gjson.Result) {
	u.count(&u.searches, v.Get("web_search.num_requests"))
}

// count notes a whole number from 0 to prices.MaxCount; null is none.
func (u *usage) count(to *count, v gjson.Result) { u.decimal(to, v, 0) }

// decimal notes a number times 10^digits, of which nothing may be left over.
func (u *usage) decimal(to *count, v gjson.Result, digits int) {
	switch v.Type {
	case gjson.Null:
		return
	case gjson.Number:
		if n, ok := exact(v.Raw, digits); ok && n <= prices.MaxCount {
			to.tell(n)
			return
		}
	}
	u.bad = true
}

// exact reads digits, with a fraction of at most so many that are not zero.
func exact(raw string, digits int) (int64, bool) {
	whole, fraction, _ := strings.Cut(raw, ".")
	if len(strings.TrimRight(fraction, "0")) > digits || strings.ContainsAny(whole, "-eE") || strings.ContainsAny(fraction, "eE") {
		return 0, false
	}
	return prices.Decimal(raw, digits)
}

// stated reads what the upstream itself says the answer cost, in dollars:
// OpenRouter's number, Perplexity's object. What can't be read is not stated.
func (u *usage) stated(v gjson.Result) {
	if v.IsObject() {
		v = v.Get("total_cost")
	}
	u.money(&u.cost, v)
}

func (u *usage) money(to *count, v gjson.Result) {
	if v.Type != gjson.Number {
		return
	}
	if pico, ok := prices.Decimal(v.Raw, 12); ok && pico <= mostStated {
		*to = count{pico, true}
	}
}

func (u *usage) ticksOf(v gjson.Result) {
	if n, ok := prices.Decimal(v.Raw, 2); ok && v.Type == gjson.Number && n <= mostStated {
		u.ticks = count{n, true}
	}
}

// mostStated is the largest price of one answer that is believed: $100,000.
const mostStated = 100_000 * prices.PerDollar

// add sums up what several events of one answer used, each for itself. One
// that does not say makes the sum unknown.
func (u *usage) add(o usage) {
	u.bad, u.other = u.bad || o.bad || !o.input.set || !o.output.set, u.other || o.other
	for _, p := range [...]struct {
		to *count
		of count
	}{
		{&u.input, o.input}, {&u.output, o.output}, {&u.total, o.total}, {&u.cached, o.cached}, {&u.reasoning, o.reasoning},
		{&u.inputAudio, o.inputAudio}, {&u.inputImage, o.inputImage}, {&u.outputAudio, o.outputAudio}, {&u.outputImage, o.outputImage},
	} {
		p.to.n, p.to.set = min(p.to.n+p.of.n, 2*prices.MaxCount), p.to.set || p.of.set
	}
}
