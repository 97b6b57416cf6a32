package prices

import (
	"strings"
	"testing"
	"time"
)

// The list has the config's prices before the table's, and of each what an
// answer is priced by.
func TestList(t *testing.T) {
	in, out := Per(420_000_000_000), Per(1_000_000_000_000)
	list := NewBook(map[string]Own{"zeta": {Input: in, Output: out}, "alpha": {Input: in}}).List(time.Now())
	if list[0].Model != "alpha" || list[1].Model != "zeta" || list[1].Source != Config || list[1].Rates.Input != in || list[1].Vendor != "" || list[0].Rates.Output.Set() {
		t.Errorf("%+v", list[:2])
	}
	seen, varies := 0, 0
	for _, l := range list[2:] {
		if l.Source != Table || l.Vendor == "" || l.Model == "" {
			t.Fatalf("%+v", l)
		}
		if l.Varies {
			varies++
		}
		if l.Vendor == "anthropic" && strings.HasPrefix(l.Model, "claude-3-5-haiku*, ") {
			seen++
			if l.Rates.Input != Per(800_000_000_000) || l.Rates.CacheWrite5m != Per(1_000_000_000_000) {
				t.Errorf("%+v", l)
			}
		}
	}
	if len(list) < 200 || seen != 1 || varies == 0 {
		t.Errorf("%d prices, %d of the model that was looked for, %d that vary", len(list), seen, varies)
	}
}
