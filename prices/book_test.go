package prices

import (
	"fmt"
	"sync"
	"testing"
)

// Which price a model has at which upstream, by its name.
func TestWhichPrice(t *testing.T) {
	for _, c := range []struct {
		base  string
		names Names
		want  string // dollars a million tokens of input; "": none
	}{
		{"https://api.openai.com/v1", Names{Upstream: "gpt-4.1"}, "2"},
		{"https://API.OpenAI.com", Names{Upstream: "GPT-4.1"}, "2"},
		{"https://api.openai.com/v1", Names{Answer: "gpt-4.1-2025-04-14", Upstream: "gpt-4.1"}, "2"},
		{"https://api.openai.com/v1", Names{Answer: "gpt-4.1-mini", Upstream: "gpt-4.1"}, "0.4"},     // the answer's model, not the asked one
		{"https://api.openai.com/v1", Names{Answer: "gpt-4.1-20250414"}, "2"},                        // a day without dashes
		{"https://api.openai.com/v1", Names{Answer: "gpt-4.1-20251399"}, ""},                         // no day
		{"https://api.openai.com/v1", Names{Answer: "gpt-4.1-2031-01-01", Upstream: "gpt-4.1"}, "2"}, // a snapshot that is not listed
		{"https://api.openai.com/v1", Names{Answer: "gpt-4.1-next", Upstream: "gpt-4.1"}, ""},        // another model
		{"https://api.openai.com/v1", Names{Answer: "gpt-4.1-next", Client: "gpt-4.1"}, ""},
		{"https://api.openai.com/v1", Names{Client: "gpt-4.1"}, ""}, // the client's name is the config's word, not the seller's
		{"https://generativelanguage.googleapis.com/v1beta/openai", Names{Answer: "models/gemini-2.5-flash", Upstream: "gemini-2.5-flash"}, "0.3"},
		{"https://generativelanguage.googleapis.com/v1beta/openai", Names{Upstream: "gemini-2.5-pro-preview-tts"}, "1"},
		{"https://generativelanguage.googleapis.com/v1beta/openai", Names{Upstream: "gemini-2.5-pro-preview-06-05"}, "1.25"},
		{"https://my.openai.azure.com/openai/v1", Names{Upstream: "prod", Answer: "gpt-4o-2024-08-06"}, "2.5"}, // sells OpenAI's
		{"https://api.anthropic.com", Names{Answer: "claude-sonnet-4-5-20250929"}, "3"},
		{"https://openrouter.ai/api/v1", Names{Answer: "openai/gpt-4.1"}, "2"},
		{"https://openrouter.ai/api/v1", Names{Answer: "openai/gpt-oss-20b:free"}, "0"},
		{"https://openrouter.ai/api/v1", Names{Answer: "google/lyria-3-pro-preview"}, ""}, // listed without a price
		{"http://127.0.0.1:11434/v1", Names{Upstream: "gpt-oss-20b"}, ""},                 // one's own machine
		{"https://llm.example/api.openai.com", Names{Upstream: "gpt-4.1"}, ""},
		{"http://api.openai.com.example/v1", Names{Upstream: "gpt-4.1"}, ""},
		{"nowhere", Names{Upstream: "gpt-4.1"}, ""},
		{"https://api.openai.com/v1", Names{}, ""},
	} {
		p := NewBook(nil).At(c.base).Price(c.names)
		got := ""
		if p != nil {
			got = p.always[0].rates.Input.Million().String()
		}
		if got != c.want {
			t.Errorf("%s, %+v: %q, want %q", c.base, c.names, got, c.want)
		}
	}
}

func TestOwnNames(t *testing.T) {
	b := NewBook(map[string]Own{"a": {Input: Per(1)}, "b": {Input: Per(2)}, "c": {Input: Per(3)}})
	for _, c := range []struct {
		names Names
		want  Pico
	}{
		{Names{"a", "b", "c"}, 1}, {Names{"x", "b", "c"}, 2}, {Names{"x", "x", "c"}, 3}, {Names{"", "", "c"}, 3},
	} {
		if p := b.At("").Price(c.names); p == nil || p.always[0].rates.Input.Million() != c.want {
			t.Errorf("%+v: %+v, want the price of %d", c.names, p, c.want)
		}
	}
}

// Names that clients and upstreams make up don't fill the memory.
func TestFoundIsBounded(t *testing.T) {
	l := m1(t)
	for i := range 2 * maxFound {
		l.Price(Names{Answer: fmt.Sprint("made-up-", i)})
	}
	if n := len(l.found); n > maxFound {
		t.Errorf("%d names are remembered", n)
	}
	if l.Price(Names{Answer: "m1"}) == nil {
		t.Error("m1 has no price any more")
	}
}

// Many goroutines may ask at once, for names that are known and new ones.
func TestPricesAtOnce(t *testing.T) {
	l := openAI()
	u := Usage{Known: true, Input: 1000}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 50 {
				known := l.Price(Names{Answer: "gpt-4.1", Client: fmt.Sprint(i)}).Cost(&u, noon)
				unknown := l.Price(Names{Answer: fmt.Sprint("none-", g, i)}).Cost(&u, noon)
				if known.Pico.String() != "0.002" || unknown.Priced() {
					t.Errorf("%+v, %+v", known, unknown)
				}
			}
		})
	}
	all.Wait()
}

func TestTableSource(t *testing.T) {
	source, date := TableSource()
	if source != "@pydantic/genai-prices 0.1.8" || date != "2026-09-23" {
		t.Errorf("%s of %s", source, date)
	}
}

func TestBrokenTables(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         `{`,
		"a bad URL":       `{"vendors":[{"id":"a","url":"("}]}`,
		"a bad pattern":   `{"vendors":[{"id":"a","models":[{"match":["~("]}]}]}`,
		"a bad rule":      `{"vendors":[{"id":"a","models":[{"match":["a"]}]}]}`,
		"no rule":         `{"vendors":[{"id":"a","models":[{"match":[]}]}]}`,
		"a bad price":     `{"vendors":[{"id":"a","models":[{"match":["=a"],"prices":[{"input":"-1"}]}]}]}`,
		"a bad day":       `{"vendors":[{"id":"a","models":[{"match":["=a"],"prices":[{"input":"1"},{"from":"soon","input":"1"}]}]}]}`,
		"bad hours":       `{"vendors":[{"id":"a","models":[{"match":["=a"],"prices":[{"input":"1"},{"hours":"1-2","input":"1"}]}]}]}`,
		"a lone step":     `{"vendors":[{"id":"a","models":[{"match":["=a"],"prices":[{"above":1,"input":"1"}]}]}]}`,
		"unknown vendors": `{"vendors":[{"id":"a","fallback":["b"]}]}`,
	} {
		if _, err := readTable([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
