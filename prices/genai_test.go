package prices

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"
)

// The table's own makers price each of these usages with their own code:
// another program, in another language, over floats.
func TestTableAgainstItsMakers(t *testing.T) {
	raw, err := os.ReadFile("testdata/genai.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Vendor, Model, Found string
		At                   time.Time
		Usage                map[string]int64
		USD                  float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	vendors := map[string]*List{}
	for _, v := range builtIn().vendors {
		vendors[v.id] = &List{book: NewBook(nil), table: v, found: map[Names]*Price{}}
	}
	priced, left := 0, map[string]int{}
	for _, c := range cases {
		u := Usage{
			Known: true, Input: c.Usage["input_tokens"], Output: c.Usage["output_tokens"],
			Cached: c.Usage["cache_read_tokens"], CacheWrite1h: c.Usage["cache_write_1h_tokens"],
			CacheWrite5m: c.Usage["cache_write_tokens"] - c.Usage["cache_write_1h_tokens"],
			Reasoning:    c.Usage["output_reasoning_tokens"], InputAudio: c.Usage["input_audio_tokens"],
			Searches: c.Usage["web_searches"], AudioMillis: 1000 * c.Usage["audio_seconds"],
		}
		got := vendors[c.Vendor].Price(Names{Answer: c.Model}).Cost(&u, c.At)
		if !got.Priced() {
			left[c.Vendor+"/"+c.Found+" "+got.Why.String()]++
			continue
		}
		priced++
		if off := math.Abs(float64(got.Pico)/PerDollar - c.USD); off > 1e-9*c.USD+1e-12 {
			t.Errorf("%s, %s (%s) at %v, %v: %s, their own code says %v", c.Vendor, c.Model, c.Found, c.At, c.Usage, got.Pico, c.USD)
		}
	}
	if priced < 1100 {
		t.Errorf("only %d of %d cases have a price", priced, len(cases))
	}
	t.Logf("%d of %d have a price; not: %v", priced, len(cases), left)
}
