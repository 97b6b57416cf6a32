package simulate

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"oncegate/policy"
)

var ours = Policy{Name: "ours", Config: policy.Defaults()}

const seeds = 20

// A seed says all that happens, whatever runs beside it.
func TestSameSeedSameResult(t *testing.T) {
	other := Policy{Name: "other", Config: policy.Config{Concurrency: policy.Concurrency{Start: 20, Min: 20, Max: 20}}}
	short := Scenario{Name: "short", runs: traffic{
		outage: outage{from: time.Second, to: 4 * time.Second, stall: true}, until: 5 * time.Second,
	}.runs([]Policy{fullJitter})}
	for _, name := range []string{"short", "herd", "layers"} {
		s := short
		if name != "short" {
			var err error
			if s, err = Named(name); err != nil {
				t.Fatal(err)
			}
		}
		own := []Policy{ours, other}
		first, second, another := s.Run(own, 7), s.Run(own, 7), s.Run(own, 8)
		differs := false
		for i, a := range first {
			b := second[i]
			for k, f := range a.Figures {
				if f.Name != b.Figures[k].Name || f.Value != b.Figures[k].Value && !(math.IsNaN(f.Value) && math.IsNaN(b.Figures[k].Value)) {
					t.Errorf("%s, %s: %v, then %v", name, a.Row, f, b.Figures[k])
				}
			}
			if a.Row != b.Row || !reflect.DeepEqual(a.Load, b.Load) {
				t.Errorf("%s, %s: another load", name, a.Row)
			}
			differs = differs || !reflect.DeepEqual(a.Load, another[i].Load)
		}
		if !differs {
			t.Errorf("%s: another seed changed nothing", name)
		}
	}
}

func TestScenariosHaveTheirFigures(t *testing.T) {
	for _, s := range Scenarios() {
		if got, err := Named(s.Name); err != nil || got.Name != s.Name {
			t.Errorf("%s: %v", s.Name, err)
		}
		for _, r := range s.runs([]Policy{ours}, 1) {
			if r.row == "" || s.About == "" || s.Rows == "" {
				t.Errorf("%s: %+v", s.Name, r)
			}
		}
	}
	if _, err := Named("flood"); err == nil || !strings.Contains(err.Error(), "use one of reject, stall, outage,") {
		t.Error(err)
	}
}

func BenchmarkTenMinutes(b *testing.B) {
	for _, p := range []Policy{ours, oneSecond} {
		b.Run(p.Name, func(b *testing.B) {
			t := long
			for b.Loop() {
				t.under(p, 1)
			}
		})
	}
	b.Run("no outage", func(b *testing.B) {
		t := traffic{until: 10 * time.Minute}
		for b.Loop() {
			t.under(ours, 1)
		}
	})
}
