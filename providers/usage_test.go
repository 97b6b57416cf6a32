package providers

import (
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"oncegate/prices"
)

// wireShapes are the ways that a wire's answers come: whole, and as events.
// USAGE stands for the usage object, MODEL for the model's name, TIER for more
// members beside them.
var wireShapes = map[Wire]map[string][]string{
	Chat: {
		"whole":             {`{"id":"c","model":"MODEL","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]TIER,"usage":USAGE}`},
		"in its own chunk":  {text("hi"), data(`{"model":"MODEL","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), data(`{"model":"MODEL","choices":[]TIER,"usage":USAGE}`), done},
		"beside the finish": {text("hi"), data(`{"model":"MODEL","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]TIER,"usage":USAGE}`), done},
		"no choices key":    {text("hi"), data(`{"model":"MODEL","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`), data(`{"model":"MODEL"TIER,"usage":USAGE}`), done},
		"told twice":        {text("hi"), data(`{"model":"MODEL","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]TIER,"usage":USAGE}`), data(`{"choices":[],"usage":USAGE}`), done},
	},
	Completions: {
		"whole":  {`{"model":"MODEL","choices":[{"text":"hi","finish_reason":"stop"}]TIER,"usage":USAGE}`},
		"stream": {data(`{"model":"MODEL","choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}`), data(`{"model":"MODEL","choices":[]TIER,"usage":USAGE}`), done},
	},
	Responses: {
		"whole":      {`{"object":"response","status":"completed","model":"MODEL","output":[]TIER,"usage":USAGE}`},
		"stream":     {data(`{"type":"response.output_text.delta","delta":"hi"}`), data(`{"type":"response.completed","response":{"model":"MODEL","output":[]TIER,"usage":USAGE}}`)},
		"incomplete": {data(`{"type":"response.output_text.delta","delta":"hi"}`), data(`{"type":"response.incomplete","response":{"usage":USAGE,"model":"MODEL"TIER}}`)},
	},
	Messages: {
		"whole": {`{"type":"message","model":"MODEL","content":[],"stop_reason":"end_turn","usage":USAGE}`},
		"all in message_delta": {
			data(`{"type":"message_start","message":{"model":"MODEL","usage":{"input_tokens":0,"output_tokens":1}}}`),
			data(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}`),
			data(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":USAGE}`), data(`{"type":"message_stop"}`)},
		"both": {
			data(`{"type":"message_start","message":{"model":"MODEL","usage":USAGE}}`),
			data(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}`),
			data(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":USAGE}`), data(`{"type":"message_stop"}`)},
	},
	Embeddings:  {"whole": {`{"data":[{"embedding":[0.1]}],"model":"MODEL","usage":USAGE}`}},
	Rerank:      {"whole": {`{"results":[],"model":"MODEL","usage":USAGE}`}},
	Moderations: {"whole": {`{"results":[{}],"model":"MODEL","usage":USAGE}`}},
	Images: {
		"whole":  {`{"data":[{}],"usage":USAGE}`},
		"stream": {data(`{"type":"image_generation.partial_image"}`), data(`{"type":"image_generation.completed","usage":USAGE}`)},
	},
	Speech: {"stream": {data(`{"type":"speech.audio.delta","audio":"AA"}`), data(`{"type":"speech.audio.done","usage":USAGE}`)}},
	Transcriptions: {
		"whole":  {`{"text":"hi","usage":USAGE}`},
		"stream": {data(`{"type":"transcript.text.delta","delta":"hi"}`), data(`{"type":"transcript.text.done","text":"hi","usage":USAGE}`)},
	},
}

// judged is what an answer's end says, read as the wire is.
func judged(t testing.TB, w Wire, answer []string) End {
	t.Helper()
	if !strings.HasPrefix(answer[0], "data:") {
		j, ok := judgeJSON(w, []byte(answer[0]))
		if !ok || j.fault || j.missing != "" {
			t.Fatalf("%s is no answer: %+v", answer[0], j)
		}
		return j.end
	}
	_, end, failed := readCuts(t, w, []byte(strings.Join(answer, "")))
	if failed != nil {
		t.Fatalf("%q failed: %v", answer, failed)
	}
	return end
}

// What each upstream's words come to, however its answer is sent.
func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		wire   Wire
		usage  string
		beside string // the usage object, with a comma before it
		want   prices.Usage
	}{
		"OpenAI": {wire: Chat, usage: `{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,
			"prompt_tokens_details":{"cached_tokens":8,"audio_tokens":3},
			"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":2,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`,
			beside: `,"service_tier":"default"`,
			want:   prices.Usage{Input: 19, Cached: 8, InputAudio: 3, Output: 10, Reasoning: 4, OutputAudio: 2}},
		"OpenAI, with cache writes": {wire: Chat, usage: `{"prompt_tokens":2000,"completion_tokens":10,"total_tokens":2010,"prompt_tokens_details":{"cached_tokens":1000,"cache_write_tokens":500}}`,
			want: prices.Usage{Input: 2000, Cached: 1000, CacheWrite5m: 500, Output: 10}},
		"OpenAI, flex": {wire: Chat, usage: `{"prompt_tokens":19,"completion_tokens":10}`, beside: `,"service_tier":"flex"`,
			want: prices.Usage{Input: 19, Output: 10, Tier: prices.OtherTier}},
		"null details": {wire: Chat, usage: `{"prompt_tokens":19,"completion_tokens":10,"total_tokens":null,"prompt_tokens_details":null,"completion_tokens_details":null,"prompt_cache_hit_tokens":null}`,
			want: prices.Usage{Input: 19, Output: 10}},
		"whole numbers with a point": {wire: Chat, usage: `{"prompt_tokens":19.0,"completion_tokens":10.00}`, want: prices.Usage{Input: 19, Output: 10}},
		"B087": {wire: Chat, usage: `{"prompt_tokens":2000,"completion_tokens":300,"prompt_tokens_details":{"cached_tokens":1900}}`,
			want: prices.Usage{Input: 2000, Cached: 1900, Output: 300}},
		"B087 more cached than there was": {wire: Chat, usage: `{"prompt_tokens":2000,"completion_tokens":300,"total_tokens":2300,"prompt_tokens_details":{"cached_tokens":2001}}`,
			want: prices.Usage{Input: 2000, Cached: 2000, Output: 300, Mended: true}},
		"cached beside the prompt, says the total": {wire: Chat, usage: `{"prompt_tokens":100,"completion_tokens":300,"total_tokens":2300,"prompt_tokens_details":{"cached_tokens":1900}}`,
			want: prices.Usage{Input: 2000, Cached: 1900, Output: 300, Mended: true}},
		"B089 inside": {wire: Chat, usage: `{"prompt_tokens":2008,"completion_tokens":266,"total_tokens":2274,"completion_tokens_details":{"reasoning_tokens":261}}`,
			want: prices.Usage{Input: 2008, Output: 266, Reasoning: 261}},
		"B089 beside": {wire: Chat, usage: `{"prompt_tokens":36,"completion_tokens":10,"total_tokens":736,"completion_tokens_details":{"reasoning_tokens":690}}`,
			want: prices.Usage{Input: 36, Output: 700, Reasoning: 690, Mended: true}},
		"only in the total": {wire: Chat, usage: `{"prompt_tokens":36,"completion_tokens":10,"total_tokens":736}`,
			want: prices.Usage{Input: 36, Output: 700, Mended: true}},
		"a total too small": {wire: Chat, usage: `{"prompt_tokens":36,"completion_tokens":10,"total_tokens":40}`,
			want: prices.Usage{Input: 36, Output: 10, Mended: true}},
		"no completion, but a total": {wire: Chat, usage: `{"prompt_tokens":36,"total_tokens":46}`, want: prices.Usage{Input: 36, Output: 10}},
		"no prompt, but a total":     {wire: Chat, usage: `{"completion_tokens":10,"total_tokens":46}`, want: prices.Usage{Input: 36, Output: 10}},
		"DeepSeek": {wire: Chat, usage: `{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_cache_hit_tokens":16,"prompt_cache_miss_tokens":3}`,
			want: prices.Usage{Input: 19, Cached: 16, Output: 10}},
		"Moonshot": {wire: Chat, usage: `{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"cached_tokens":16}`, want: prices.Usage{Input: 19, Cached: 16, Output: 10}},
		"LiteLLM before Anthropic": {wire: Chat, usage: `{"prompt_tokens":120,"completion_tokens":10,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":100},"cache_creation_input_tokens":15,"cache_read_input_tokens":100}`,
			want: prices.Usage{Input: 120, Cached: 100, CacheWrite5m: 15, Output: 10}},
		"OpenRouter": {wire: Chat, usage: `{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.00014,"is_byok":false,"cost_details":{"upstream_inference_cost":0.00014}}`,
			want: prices.Usage{Input: 194, Output: 2, Stated: true, Cost: 140_000_000}},
		"OpenRouter, with one's own key": {wire: Chat, usage: `{"prompt_tokens":194,"completion_tokens":2,"cost":5e-06,"is_byok":true,"cost_details":{"upstream_inference_cost":0.0001}}`,
			want: prices.Usage{Input: 194, Output: 2, Stated: true, Cost: 105_000_000}},
		"OpenRouter, its fee only": {wire: Chat, usage: `{"prompt_tokens":194,"completion_tokens":2,"cost":5e-06,"is_byok":true,"cost_details":{"upstream_inference_cost":null}}`,
			want: prices.Usage{Input: 194, Output: 2}},
		"OpenRouter, free": {wire: Chat, usage: `{"prompt_tokens":194,"completion_tokens":2,"cost":0}`, want: prices.Usage{Input: 194, Output: 2, Stated: true}},
		"Perplexity": {wire: Chat, usage: `{"prompt_tokens":14,"completion_tokens":10,"total_tokens":24,"search_context_size":"low","cost":{"input_tokens_cost":0.0,"output_tokens_cost":0.0,"request_cost":0.005,"total_cost":0.0050241}}`,
			want: prices.Usage{Input: 14, Output: 10, Stated: true, Cost: 5_024_100_000}},
		"xAI": {wire: Chat, usage: `{"prompt_tokens":198,"completion_tokens":9,"total_tokens":288,"completion_tokens_details":{"reasoning_tokens":81},"cost_in_usd_ticks":2709000,"num_sources_used":0}`,
			want: prices.Usage{Input: 198, Output: 90, Reasoning: 81, Mended: true, Stated: true, Cost: 270_900_000}},
		"Groq": {wire: Chat, usage: `{"queue_time":0.01,"prompt_tokens":19,"prompt_time":0.001,"completion_tokens":10,"completion_time":0.02,"total_tokens":29,"total_time":0.03}`,
			beside: `,"service_tier":"on_demand","x_groq":{"id":"r"}`, want: prices.Usage{Input: 19, Output: 10}},
		"completions": {wire: Completions, usage: `{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29}`, want: prices.Usage{Input: 19, Output: 10}},
		"responses": {wire: Responses, usage: `{"input_tokens":20,"input_tokens_details":{"cached_tokens":8,"cache_write_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3},"total_tokens":25}`,
			beside: `,"service_tier":"default","tool_usage":{"web_search":{"num_requests":2}}`,
			want:   prices.Usage{Input: 20, Cached: 8, CacheWrite5m: 2, Output: 5, Reasoning: 3, Searches: 2}},
		"responses, priority": {wire: Responses, usage: `{"input_tokens":20,"output_tokens":5}`, beside: `,"service_tier":"priority","tool_usage":null`,
			want: prices.Usage{Input: 20, Output: 5, Tier: prices.OtherTier}},
		"Anthropic": {wire: Messages, usage: `{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30},
			"output_tokens":7,"output_tokens_details":{"thinking_tokens":5},"server_tool_use":{"web_search_requests":1,"web_fetch_requests":0},"service_tier":"standard","inference_geo":"not_available","speed":"standard","iterations":[{"type":"message"}]}`,
			want: prices.Usage{Input: 160, Cached: 100, CacheWrite5m: 20, CacheWrite1h: 30, Output: 7, Reasoning: 5, Searches: 1}},
		"Anthropic, without the times": {wire: Messages, usage: `{"input_tokens":10,"cache_read_input_tokens":null,"cache_creation_input_tokens":50,"cache_creation":null,"output_tokens":7,"server_tool_use":null,"iterations":null}`,
			want: prices.Usage{Input: 60, CacheWrite5m: 50, Output: 7}},
		"Anthropic, the times only": {wire: Messages, usage: `{"input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30},"output_tokens":7}`,
			want: prices.Usage{Input: 60, CacheWrite5m: 20, CacheWrite1h: 30, Output: 7}},
		"Anthropic, times that don't add up": {wire: Messages, usage: `{"input_tokens":10,"cache_creation_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30},"output_tokens":7}`,
			want: prices.Usage{Input: 50, CacheWrite5m: 10, CacheWrite1h: 30, Output: 7, Mended: true}},
		"Anthropic, all of it cached": {wire: Messages, usage: `{"input_tokens":0,"cache_read_input_tokens":100,"output_tokens":7}`, want: prices.Usage{Input: 100, Cached: 100, Output: 7}},
		"Anthropic, US only":          {wire: Messages, usage: `{"input_tokens":10,"output_tokens":7,"inference_geo":"us"}`, want: prices.Usage{Input: 10, Output: 7, Tier: prices.OtherTier}},
		"Anthropic, fast":             {wire: Messages, usage: `{"input_tokens":10,"output_tokens":7,"speed":"fast"}`, want: prices.Usage{Input: 10, Output: 7, Tier: prices.OtherTier}},
		"Anthropic, batch":            {wire: Messages, usage: `{"input_tokens":10,"output_tokens":7,"service_tier":"batch"}`, want: prices.Usage{Input: 10, Output: 7, Tier: prices.OtherTier}},
		"Anthropic, compacted": {wire: Messages, usage: `{"input_tokens":10,"output_tokens":7,"iterations":[{"type":"compaction","input_tokens":9000,"output_tokens":500},{"type":"message"}]}`,
			want: prices.Usage{Input: 10, Output: 7, Tier: prices.OtherTier}},
		"embeddings":            {wire: Embeddings, usage: `{"prompt_tokens":7,"total_tokens":7}`, want: prices.Usage{Input: 7}},
		"embeddings, total":     {wire: Embeddings, usage: `{"total_tokens":7}`, want: prices.Usage{Input: 7}},
		"rerank":                {wire: Rerank, usage: `{"total_tokens":12}`, want: prices.Usage{Input: 12}},
		"moderations":           {wire: Moderations, usage: `{"prompt_tokens":12,"total_tokens":12}`, want: prices.Usage{Input: 12}},
		"images":                {wire: Images, usage: `{"input_tokens":50,"input_tokens_details":{"text_tokens":10,"image_tokens":40},"output_tokens":1056,"output_tokens_details":{"text_tokens":0,"image_tokens":1056},"total_tokens":1106}`, want: prices.Usage{Input: 50, InputImage: 40, Output: 1056, OutputImage: 1056}},
		"speech":                {wire: Speech, usage: `{"input_tokens":14,"output_tokens":101,"total_tokens":115}`, want: prices.Usage{Input: 14, Output: 101}},
		"transcription, tokens": {wire: Transcriptions, usage: `{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":45,"total_tokens":59}`, want: prices.Usage{Input: 14, InputAudio: 14, Output: 45}},
		"transcription, time":   {wire: Transcriptions, usage: `{"type":"duration","seconds":9.25}`, want: prices.Usage{AudioMillis: 9250}},
	} {
		c.want.Known = true
		for shape, answer := range wireShapes[c.wire] {
			t.Run(name+"/"+shape, func(t *testing.T) {
				one := strings.NewReplacer("\n", "", "\t", "")
				model, usage := "maker/m-1.5-2026-01-02", one.Replace(c.usage)
				fill := strings.NewReplacer("MODEL", model, "USAGE", usage, "TIER", c.beside)
				filled := make([]string, len(answer))
				for i := range answer {
					filled[i] = fill.Replace(answer[i])
				}
				end := judged(t, c.wire, filled)
				if end.Usage != c.want {
					t.Errorf("%+v\nwant %+v", end.Usage, c.want)
				}
				names := strings.Contains(strings.Join(answer, ""), "MODEL")
				if names && end.Model != model || !names && end.Model != "" {
					t.Errorf("the model is %q", end.Model)
				}
			})
		}
	}
}

// A usage that is missing, or holds a figure that can't be, is unknown: it is
// neither nothing nor what the other figures say.
func TestUnknownUsage(t *testing.T) {
	for name, c := range map[string]struct {
		wire  Wire
		usage string
	}{
		"null":                      {Chat, `null`},
		"a list":                    {Chat, `[1]`},
		"empty":                     {Chat, `{}`},
		"nothing used":              {Chat, `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`},
		"nothing but a total":       {Chat, `{"total_tokens":12}`},
		"zeros and a total":         {Chat, `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":12}`},
		"no completion":             {Chat, `{"prompt_tokens":12}`},
		"a total below the prompt":  {Chat, `{"prompt_tokens":12,"total_tokens":11}`},
		"negative":                  {Chat, `{"prompt_tokens":-1,"completion_tokens":2}`},
		"negative, a part":          {Chat, `{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":-9}}`},
		"huge":                      {Chat, `{"prompt_tokens":1e300,"completion_tokens":2}`},
		"beyond a count":            {Chat, `{"prompt_tokens":1099511627777,"completion_tokens":2}`},
		"beyond 64 bits":            {Chat, `{"prompt_tokens":18446744073709551617,"completion_tokens":2}`},
		"a power":                   {Chat, `{"prompt_tokens":1e3,"completion_tokens":2}`},
		"a fraction":                {Chat, `{"prompt_tokens":1.5,"completion_tokens":2}`},
		"a small fraction":          {Chat, `{"prompt_tokens":1,"completion_tokens":2.00000000000000000001}`},
		"text":                      {Chat, `{"prompt_tokens":"5","completion_tokens":2}`},
		"text, a part":              {Chat, `{"prompt_tokens":5,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":"1"}}`},
		"true":                      {Chat, `{"prompt_tokens":true,"completion_tokens":2}`},
		"an object":                 {Chat, `{"prompt_tokens":{"n":5},"completion_tokens":2}`},
		"a total that is no number": {Chat, `{"prompt_tokens":5,"completion_tokens":2,"total_tokens":"7"}`},
		"responses":                 {Responses, `{"input_tokens":5}`},
		"messages without input":    {Messages, `{"output_tokens":5}`},
		"messages without output":   {Messages, `{"input_tokens":5}`},
		"messages, a bad write":     {Messages, `{"input_tokens":5,"output_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":0.5}}`},
		"messages, too many":        {Messages, `{"input_tokens":1099511627776,"cache_read_input_tokens":1,"output_tokens":5}`},
		"embeddings of nothing":     {Embeddings, `{"prompt_tokens":0,"total_tokens":0}`},
		"no time":                   {Transcriptions, `{"type":"duration","seconds":0}`},
		"negative time":             {Transcriptions, `{"type":"duration","seconds":-1}`},
		"time finer than it is":     {Transcriptions, `{"type":"duration","seconds":1.0001}`},
		"time as text":              {Transcriptions, `{"type":"duration","seconds":"9"}`},
	} {
		for shape, answer := range wireShapes[c.wire] {
			fill := strings.NewReplacer("MODEL", "m", "USAGE", c.usage, "TIER", "")
			filled := make([]string, len(answer))
			for i := range answer {
				filled[i] = fill.Replace(answer[i])
			}
			if got := judged(t, c.wire, filled).Usage; got != (prices.Usage{}) {
				t.Errorf("%s, %s: %+v", name, shape, got)
			}
		}
	}
}

// A stated cost that can't be is no cost; the tokens stay what they are.
func TestStatedCostThatCannotBe(t *testing.T) {
	for _, cost := range []string{
		`"cost":null`, `"cost":"0.1"`, `"cost":-0.1`, `"cost":1e300`, `"cost":100001`, `"cost":{}`, `"cost":{"total_cost":"1"}`, `"cost":[1]`,
		`"cost_in_usd_ticks":-1`, `"cost_in_usd_ticks":"1"`, `"cost_in_usd_ticks":1e30`,
		`"cost":0.1,"is_byok":true,"cost_details":{"upstream_inference_cost":-1}`,
	} {
		var u usage
		u.read(gjson.Parse(`{"prompt_tokens":5,"completion_tokens":2,` + cost + `}`))
		if got, want := u.sum(Chat), (prices.Usage{Known: true, Input: 5, Output: 2}); got != want {
			t.Errorf("%s: %+v", cost, got)
		}
	}
}

// message_start tells how much output there is at the start. Of a stream that
// was cut it is the least there was; of a whole one it says nothing.
func TestMessagesThatTellTheirOutputLate(t *testing.T) {
	start := data(`{"type":"message_start","message":{"model":"claude","usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":3}}}`)
	block := data(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}`)
	stop := data(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`) + data(`{"type":"message_stop"}`)
	if got := judged(t, Messages, []string{start, block, stop}); got.Usage.Known || !got.Whole {
		t.Errorf("a whole one: %+v", got)
	}
	s := messagesStream{}
	s.event(nil, []byte(strings.TrimSpace(start[len("data: "):])))
	s.event(nil, []byte(strings.TrimSpace(block[len("data: "):])))
	if got, want := s.end().Usage, (prices.Usage{Known: true, Input: 100, Cached: 90, Output: 3}); got != want {
		t.Errorf("a cut one: %+v", got)
	}
}

// Of several images each tells what it used; one that does not leaves the sum
// unknown.
func TestImagesAreSummedUp(t *testing.T) {
	one := data(`{"type":"image_generation.completed","usage":{"input_tokens":10,"input_tokens_details":{"image_tokens":4},"output_tokens":20,"total_tokens":30}}`)
	bare := data(`{"type":"image_generation.completed"}`)
	if got, want := judged(t, Images, []string{one, one}).Usage, (prices.Usage{Known: true, Input: 20, InputImage: 8, Output: 40}); got != want {
		t.Errorf("two: %+v", got)
	}
	if got := judged(t, Images, []string{one, bare}).Usage; got.Known {
		t.Errorf("one of them silent: %+v", got)
	}
	var many []string
	for range 40 {
		many = append(many, strings.ReplaceAll(one, ":20", ":1099511627776"))
	}
	if got := judged(t, Images, many).Usage; got.Known {
		t.Errorf("too many: %+v", got)
	}
}

func TestModelNames(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for in, want := range map[string]string{
		`{"model":"a"}`: "a", `{"model":""}`: "", `{"model":null}`: "", `{"model":7}`: "", `{"model":"a\u0062"}`: "ab", `{"model":"` + long + `"}`: long[:maxModelName],
	} {
		var m modelName
		m.read(gjson.Get(in, "model"))
		if string(m) != want {
			t.Errorf("%.40s: %q", in, m)
		}
	}
	// A stream that names it late, and first not at all.
	end := judged(t, Chat, []string{
		data(`{"model":"","choices":[{"index":0,"delta":{"content":"a"}}]}`), data(`{"model":"router","choices":[{"index":0,"delta":{"content":"a"}}]}`),
		data(`{"model":"gpt-4.1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), done})
	if end.Model != "gpt-4.1" {
		t.Errorf("the model is %q", end.Model)
	}
}

// B028, B030: the same price for the usage in a chunk of its own, beside the
// finish, and of an answer that is no stream.
func TestB030OnePriceHoweverItComes(t *testing.T) {
	rate := func(text string) prices.Rate { r, _ := prices.ParseRate(text); return r }
	list := prices.NewBook(map[string]prices.Own{"m1": {Input: rate("1"), Cached: rate("0.10"), Output: rate("2")}}).At("http://up")
	for usage, want := range map[string]string{
		`{"prompt_tokens":16000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":15000}}`: "0.002504",
		`{"prompt_tokens":2000,"completion_tokens":300,"prompt_tokens_details":{"cached_tokens":1900}}`: "0.00089",
	} {
		for shape, answer := range wireShapes[Chat] {
			filled := make([]string, len(answer))
			for i := range answer {
				filled[i] = strings.NewReplacer("MODEL", "m1", "USAGE", usage, "TIER", "").Replace(answer[i])
			}
			end := judged(t, Chat, filled)
			cost := list.Price(prices.Names{Answer: end.Model}).Cost(&end.Usage, time.Now())
			if cost.Pico.String() != want || !cost.Priced() {
				t.Errorf("%s: %+v, want %s", shape, cost, want)
			}
		}
	}
}

// FuzzUsage: whatever an upstream says, no part is larger than its whole,
// nothing is negative, and what is not known has no figures.
func FuzzUsage(f *testing.F) {
	for _, s := range []string{
		`{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":8,"audio_tokens":3}}`,
		`{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":20,"ephemeral_1h_input_tokens":30},"output_tokens":7}`,
		`{"prompt_tokens":1e300,"completion_tokens":-5,"cost":1e-7}`, `{"type":"duration","seconds":9.25}`, `{"total_tokens":1099511627776}`,
		`{"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3,"image_tokens":9},"input_tokens":3,"cost_in_usd_ticks":5}`,
		`{"prompt_tokens":100,"completion_tokens":300,"total_tokens":2300,"prompt_tokens_details":{"cached_tokens":1900},"is_byok":true,"cost":1}`,
	} {
		for w := range uint8(13) {
			f.Add(s, `{}`, w)
		}
		f.Add(s, s, uint8(Images))
	}
	f.Fuzz(func(t *testing.T, first, second string, wire uint8) {
		w := Wire(wire % 13)
		var u, added usage
		for _, text := range []string{first, second} {
			if !gjson.Valid(text) {
				return
			}
			u.read(gjson.Parse(text))
			var one usage
			one.read(gjson.Parse(text))
			added.add(one)
		}
		for _, got := range []prices.Usage{u.sum(w), added.sum(w)} {
			counts := []int64{got.Input, got.Cached, got.CacheWrite5m, got.CacheWrite1h, got.InputAudio, got.InputImage,
				got.Output, got.Reasoning, got.OutputAudio, got.OutputImage, got.AudioMillis, got.Searches}
			some := false
			for _, n := range counts {
				if n < 0 || n > prices.MaxCount {
					t.Fatalf("%+v", got)
				}
				some = some || n > 0
			}
			if got.Known != (got.Input > 0 || got.Output > 0 || got.AudioMillis > 0) || !got.Known && (some || got.Mended) {
				t.Fatalf("known or not: %+v", got)
			}
			if got.Cached+got.CacheWrite5m+got.CacheWrite1h > got.Input || got.InputAudio+got.InputImage > got.Input ||
				got.Reasoning > got.Output || got.OutputAudio+got.OutputImage > got.Output {
				t.Fatalf("a part is larger than its whole: %+v", got)
			}
			if got.Cost < 0 || got.Cost > 2*mostStated || !got.Stated && got.Cost != 0 {
				t.Fatalf("the cost: %+v", got)
			}
		}
	})
}
