package prices

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

var noon = time.Date(2026, 10, 5, 12, 0, 0, 0, time.UTC)

func rate(t testing.TB, text string) Rate {
	t.Helper()
	r, err := ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// m1 is the model of cases/BUGS: $1 a million in, $0.10 cached, $2 out.
func m1(t testing.TB) *List {
	return NewBook(map[string]Own{"m1": {Input: rate(t, "1"), Cached: rate(t, "0.10"), Output: rate(t, "2")}}).At("https://llm.example/v1")
}

func openAI() *List { return NewBook(nil).At("https://api.openai.com/v1") }

func TestB030CachedOnAFinalChunk(t *testing.T) {
	u := Usage{Known: true, Input: 16000, Cached: 15000, Output: 2}
	if c := m1(t).Price(Names{Upstream: "m1"}).Cost(&u, noon); c.Pico.String() != "0.002504" || c.Why != Priced || c.Source != Config {
		t.Errorf("%+v", c)
	}
}

func TestB087CachedTokensArePricedOnce(t *testing.T) {
	u := Usage{Known: true, Input: 2000, Cached: 1900, Output: 300}
	if c := m1(t).Price(Names{Upstream: "m1"}).Cost(&u, noon); c.Pico.String() != "0.00089" || !c.Priced() {
		t.Errorf("%+v", c)
	}
}

func TestB089ReasoningIsPartOfTheOutput(t *testing.T) {
	p := m1(t).Price(Names{Upstream: "m1"})
	for _, u := range []Usage{{Known: true, Output: 266, Reasoning: 261}, {Known: true, Output: 266}} {
		if c := p.Cost(&u, noon); c.Pico != 266*2_000_000 {
			t.Errorf("%+v costs %+v", u, c)
		}
	}
	deep := NewBook(nil).At("https://openrouter.ai/api/v1").Price(Names{Answer: "perplexity/sonar-deep-research"})
	if c := deep.Cost(&Usage{Known: true, Output: 1_000_000, Reasoning: 500_000}, noon); c.Pico.String() != "5.5" {
		t.Errorf("half at $8, half of it thought at $3: %+v", c)
	}
}

func TestB090UnpricedIsNotFree(t *testing.T) {
	l := NewBook(map[string]Own{"free": {Input: rate(t, "0"), Output: rate(t, "0")}}).At("https://api.openai.com/v1")
	u := Usage{Known: true, Input: 1_000_000}
	for model, want := range map[string]Cost{
		"vendor/unknown-x": {Why: NoPrice},
		"free":             {Why: Priced, Source: Config},
	} {
		c := l.Price(Names{Upstream: model}).Cost(&u, noon)
		if c.Unpriced() == c.Priced() || c.Why != want.Why || c.Source != want.Source || c.Pico != 0 || (c.Rates != nil) != want.Priced() {
			t.Errorf("%s: %+v", model, c)
		}
	}
	if c := l.Price(Names{Upstream: "gpt-4.1"}).Cost(&Usage{}, noon); c.Why != NoUsage || c.Pico != 0 || c.Unpriced() {
		t.Errorf("an answer of unknown usage: %+v", c)
	}
	if c := l.Price(Names{Upstream: "free"}).Cost(&Usage{}, noon); !c.Priced() || c.Source != Config || c.Pico != 0 {
		t.Errorf("what is free costs nothing, counted or not: %+v", c)
	}
	half := NewBook(map[string]Own{"half": {Input: rate(t, "0"), Output: rate(t, "0"), CacheWrite1h: rate(t, "1")}}).At("")
	if c := half.Price(Names{Upstream: "half"}).Cost(&Usage{}, noon); c.Why != NoUsage {
		t.Errorf("what is free in part: %+v", c)
	}
}

// What decides between the sources.
func TestSources(t *testing.T) {
	own := NewBook(map[string]Own{"gpt-4.1": {Input: rate(t, "1"), Output: rate(t, "1")}})
	at := own.At("https://api.openai.com/v1")
	u := Usage{Known: true, Input: 1000}
	if c := at.Price(Names{Answer: "gpt-4.1"}).Cost(&u, noon); c.Source != Config || c.Pico.String() != "0.001" {
		t.Errorf("the config over the table: %+v", c)
	}
	if c := at.Price(Names{Answer: "gpt-4.1-mini"}).Cost(&u, noon); c.Source != Table || c.Pico.String() != "0.0004" {
		t.Errorf("the table: %+v", c)
	}
	u.Stated, u.Cost = true, 7
	if c := at.Price(Names{Answer: "gpt-4.1"}).Cost(&u, noon); c.Source != Stated || c.Pico != 7 || c.Rates != nil {
		t.Errorf("the upstream over both: %+v", c)
	}
	if c := (*Price)(nil).Cost(&Usage{Stated: true}, noon); !c.Priced() || c.Pico != 0 {
		t.Errorf("free by the upstream's own word, of a model without a price: %+v", c)
	}
}

func TestPartsWithoutAPrice(t *testing.T) {
	table := func(model string) *Price { return openAI().Price(Names{Answer: model}) }
	claude := NewBook(nil).At("https://api.anthropic.com").Price(Names{Answer: "claude-sonnet-4-5-20250929"})
	vertex := NewBook(nil).At("https://us-east5-aiplatform.googleapis.com/v1").Price(Names{Answer: "claude-opus-4-6"})
	for name, c := range map[string]struct {
		price *Price
		usage Usage
		want  string // or the word for why not
	}{
		"cache writes of both kinds":      {claude, Usage{Input: 10_000, Cached: 2000, CacheWrite5m: 3000, CacheWrite1h: 4000, Output: 1}, "0.038865"},
		"beyond 200k, the whole of it":    {claude, Usage{Input: 200_001, Output: 1000}, "1.222506"},
		"up to 200k":                      {claude, Usage{Input: 200_000, Output: 1000}, "0.615"},
		"the cached count towards a step": {claude, Usage{Input: 200_001, Cached: 200_000}, "0.120006"},
		"1 h writes without their price":  {vertex, Usage{Input: 100, CacheWrite1h: 50}, "no_price_of_a_part"},
		"searches":                        {claude, Usage{Input: 1000, Searches: 3}, "0.033"},
		"searches without a price":        {table("gpt-4.1-nano"), Usage{Input: 1000, Searches: 3}, "no_price_of_a_part"},
		"audio with a price":              {table("gpt-audio"), Usage{Input: 1000, InputAudio: 900, Output: 500, OutputAudio: 400}, "0.05565"},
		"audio without one":               {table("gpt-4o-audio-preview"), Usage{Input: 1000, InputAudio: 900}, "no_price_of_a_part"},
		"cached audio, who knows":         {table("gpt-audio"), Usage{Input: 1000, InputAudio: 900, Cached: 1}, "no_price_of_a_part"},
		"own audio":                       {m1(t).Price(Names{Client: "m1"}), Usage{Input: 1000, InputAudio: 900, Cached: 100}, "0.00091"},
		"images":                          {table("gpt-image-1.5"), Usage{Input: 100, InputImage: 60, Output: 1000, OutputImage: 1000}, "0.03268"},
		"images without a price":          {table("gpt-4o"), Usage{Input: 100, InputImage: 60, Cached: 50}, "0.0001875"},
		"time":                            {table("whisper-1"), Usage{AudioMillis: 90_000}, "0.009"},
		"tokens where time is priced":     {table("whisper-1"), Usage{Input: 10}, "no_price_of_a_part"},
		"output where none is priced":     {table("text-embedding-3-small"), Usage{Input: 10, Output: 1}, "no_price_of_a_part"},
		"another tier":                    {table("gpt-5"), Usage{Input: 10, Tier: OtherTier}, "service_tier"},
		"another tier, own price":         {m1(t).Price(Names{Client: "m1"}), Usage{Input: 10, Tier: OtherTier}, "0.00001"},
		"a price for each request":        {NewBook(nil).At("https://api.perplexity.ai").Price(Names{Answer: "sonar"}), Usage{Input: 1000}, "0.013"},
		"more than there is money":        {table("o1-pro"), Usage{Input: MaxCount, Output: MaxCount}, "too_much"},
		"nonsense":                        {table("gpt-4o"), Usage{Input: 10, Cached: 11}, "no_price_of_a_part"},
		"free":                            {table("omni-moderation-latest"), Usage{Input: 10}, "0"},
	} {
		c.usage.Known = true
		got := c.price.Cost(&c.usage, noon)
		text := got.Pico.String()
		if !got.Priced() {
			text = got.Why.String()
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// DeepSeek's prices have times of day, in UTC, from Monday to Friday.
func TestTimeOfDay(t *testing.T) {
	p := NewBook(nil).At("https://api.deepseek.com").Price(Names{Answer: "deepseek-v4-pro"})
	for at, want := range map[string]string{
		"00:59:59": "0.66", "01:00:00": "1.32", "03:59:59": "1.32", "04:00:00": "0.66", "06:00:00": "1.32", "10:00:00": "0.66",
	} {
		monday, err := time.Parse(time.DateTime, "2026-10-05 "+at)
		if err != nil {
			t.Fatal(err)
		}
		for days := range 7 {
			moment := monday.AddDate(0, 0, days).In(time.FixedZone("", 5*3600))
			want := want
			if days > 4 {
				want = "0.66"
			}
			if c := p.Cost(&Usage{Known: true, Input: 1_000_000}, moment); c.Pico.String() != want {
				t.Errorf("at %s, %d days after a Monday: %s, want %s", at, days, c.Pico, want)
			}
		}
	}
}

func TestHours(t *testing.T) {
	over := dated{start: 23 * 3600, end: 3600}
	for hour, want := range map[int64]bool{22: false, 23: true, 0: true, 1: false} {
		if over.holds(hour*3600) != want {
			t.Errorf("23:00 to 01:00 at %d:00: %v", hour, !want)
		}
	}
}

// The rates that a price was made with say it all when they are kept as JSON.
func TestFrozenRates(t *testing.T) {
	p := NewBook(nil).At("https://api.anthropic.com").Price(Names{Answer: "claude-sonnet-4-5"})
	u := Usage{Known: true, Input: 250_000, Cached: 1, Output: 10}
	c := p.Cost(&u, noon)
	text, err := json.Marshal(c.Rates)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"input":"6","cached_input":"0.6","cache_write_5m":"7.5","cache_write_1h":"12","output":"22.5","searches":"10000"}`
	if string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	var again Rates
	if err := json.Unmarshal(text, &again); err != nil || again != *c.Rates {
		t.Errorf("read again: %+v, %v", again, err)
	}
	free := Rates{Input: Per(0)}
	if text, _ := json.Marshal(free); string(text) != `{"input":"0"}` {
		t.Errorf("free: %s", text)
	}
}

// The parts are summed up before they are rounded, half up, once.
func TestRounding(t *testing.T) {
	for _, c := range []struct {
		input, output int64
		million       Pico
		want          Pico
	}{
		{1, 0, 499_999, 0}, {1, 0, 500_000, 1}, {1, 0, 1_499_999, 1}, {1, 0, 1_500_000, 2},
		{1, 1, 250_000, 1}, // by itself each is nothing
		{3, 0, 166_666, 0}, {3, 0, 166_667, 1},
		{MaxCount, 0, 8_388_607 * 1_000_000, MaxCount * 8_388_607},
	} {
		r := Rates{Input: Per(c.million), Output: Per(c.million)}
		if got, why := r.cost(&Usage{Input: c.input, Output: c.output}, true); got != c.want || why != Priced {
			t.Errorf("%d and %d tokens at %d a million: %d (%v), want %d", c.input, c.output, c.million, got, why, c.want)
		}
	}
}

func TestCostTakesNothingFromTheHeap(t *testing.T) {
	l, u := openAI(), Usage{Known: true, Input: 300_000, Cached: 2000, Output: 300, Reasoning: 100}
	n := Names{Answer: "gpt-5.6-sol", Upstream: "gpt-5.6-sol", Client: "best"}
	l.Price(n)
	if allocs := testing.AllocsPerRun(100, func() { l.Price(n).Cost(&u, noon) }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// Reading the table is part of every start.
func BenchmarkReadTable(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readTable(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCost(b *testing.B) {
	l, u := openAI(), Usage{Known: true, Input: 300_000, Cached: 2000, Output: 300, Reasoning: 100}
	n := Names{Answer: "gpt-5.6-sol", Upstream: "gpt-5.6-sol", Client: "best"}
	b.ReportAllocs()
	for b.Loop() {
		l.Price(n).Cost(&u, noon)
	}
}

func ExamplePico() {
	fmt.Println(Pico(2_504_000_000), Pico(0), Pico(3*PerDollar), Pico(-1), Pico(1))
	// Output: 0.002504 0 3 -0.000000000001 0.000000000001
}
