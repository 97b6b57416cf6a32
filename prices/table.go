package prices

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

//go:generate npm --prefix gen ci --ignore-scripts --no-audit --no-fund
//go:generate sh -c "cd gen && node table.mjs"

// data is the price list of genai-prices by Pydantic (MIT, its notice is in it
// and in LICENSE.genai-prices), as gen/table.mjs writes it.
//
//go:embed table.json
var data []byte

// table is the built-in price list.
type table struct {
	source, date string
	vendors      []*vendor
}

// vendor is one that sells models, at its own prices.
type vendor struct {
	id       string
	url      *regexp.Regexp
	models   []model
	fallback []*vendor // whose models it sells, too
}

type model struct {
	match rules
	price *Price // nil: one that can't be priced from what an answer tells
}

// builtIn is read when it is first asked for.
var builtIn = sync.OnceValue(func() *table {
	t, err := readTable(data)
	if err != nil {
		panic(err) // it was tested
	}
	return t
})

// TableSource is where the built-in table comes from, and the day of it.
func TableSource() (source, date string) {
	t := builtIn()
	return t.source, t.date
}

// vendorAt is who sells at a base URL; nil: nobody that the table knows.
func vendorAt(base string) *vendor {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil
	}
	at := strings.ToLower(u.Scheme+"://"+u.Host) + u.EscapedPath()
	for _, v := range builtIn().vendors {
		if v.url.MatchString(at) {
			return v
		}
	}
	return nil
}

// price is the price of a model by its name, in any case of letters.
func (v *vendor) price(name string) *Price {
	name = strings.ToLower(strings.TrimSpace(name))
	if p, ok := v.find(name); ok {
		return p
	}
	if other := dashed(name); other != name {
		p, _ := v.find(other)
		return p
	}
	return nil
}

func (v *vendor) find(name string) (*Price, bool) {
	for i := range v.models {
		if v.models[i].match.fit(name) {
			return v.models[i].price, true
		}
	}
	for _, f := range v.fallback {
		if p, ok := f.find(name); ok {
			return p, true
		}
	}
	return nil, false
}

func readTable(data []byte) (*table, error) {
	var raw struct {
		Source  string
		Date    string
		Vendors []struct {
			ID       string
			URL      string
			Fallback []string
			Models   []struct {
				Match  []any
				Prices []entry
			}
		}
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("prices: the table: %w", err)
	}
	t := &table{source: raw.Source, date: raw.Date}
	byID := map[string]*vendor{}
	for _, r := range raw.Vendors {
		pattern, err := regexp.Compile("^(?:" + r.URL + ")")
		if err != nil {
			return nil, fmt.Errorf("prices: the URL of %s: %w", r.ID, err)
		}
		v := &vendor{id: r.ID, url: pattern, models: make([]model, len(r.Models))}
		for i, m := range r.Models {
			if v.models[i].match, err = readRules(m.Match); err != nil {
				return nil, fmt.Errorf("prices: a model of %s: %w", r.ID, err)
			}
			if v.models[i].price, err = readPrice(m.Prices); err != nil {
				return nil, fmt.Errorf("prices: %s, %v: %w", r.ID, m.Match, err)
			}
		}
		t.vendors = append(t.vendors, v)
		byID[r.ID] = v
	}
	for i, r := range raw.Vendors {
		for _, id := range r.Fallback {
			if byID[id] == nil {
				return nil, fmt.Errorf("prices: %s falls back on %s, which is not there", r.ID, id)
			}
			t.vendors[i].fallback = append(t.vendors[i].fallback, byID[id])
		}
	}
	return t, nil
}
