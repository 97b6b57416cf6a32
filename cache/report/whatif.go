package report

import (
	"fmt"
	"io"
	"math/big"
	"strings"

	"oncegate/cache"
)

// WhatIf is what a month of requests would cost, at what calls cost in the
// report's time, if a part of them were asked for twice.
type WhatIf struct {
	Monthly   int64      `json:"monthly"`
	RetryRate float64    `json:"retry_rate"` // of Monthly, how many are asked for again: 0.1 is 10%
	Lines     []Forecast `json:"lines"`      // of each group with billed calls; without groups of the total
}

// Forecast is what one group would cost in a month.
type Forecast struct {
	Name    string       `json:"name"`
	Call    *cache.Money `json:"usd_call"`    // the mean of its billed calls; null, as all below, where some have no price
	Without *cache.Money `json:"usd_without"` // with every repeat billed
	With    *cache.Money `json:"usd_with"`
	Saved   *cache.Money `json:"usd_saved"`
}

// WhatIf reckons with the report's own means. Where some calls have no price
// there is none.
func (r *Report) WhatIf(monthly int64, retryRate float64) *WhatIf {
	w := &WhatIf{Monthly: monthly, RetryRate: retryRate, Lines: []Forecast{}}
	add := func(name string, s *Sums) {
		if s.Attempts.Billed == 0 {
			return
		}
		if s.UnpricedRequests > 0 {
			w.Lines = append(w.Lines, Forecast{Name: name})
			return
		}
		call := s.Billed.USD.Rat()
		call.Quo(call, new(big.Rat).SetInt64(s.Attempts.Billed))
		with := new(big.Rat).Mul(call, new(big.Rat).SetInt64(monthly))
		saved := new(big.Rat).Mul(with, new(big.Rat).SetFloat64(retryRate))
		round := func(r *big.Rat) *cache.Money { m := cache.RoundMoney(r); return &m }
		w.Lines = append(w.Lines, Forecast{
			Name: name, Call: round(call), With: round(with), Saved: round(saved), Without: round(new(big.Rat).Add(with, saved)),
		})
	}
	for i := range r.Groups {
		add(r.Groups[i].Name, &r.Groups[i].Sums)
	}
	if len(r.Groups) == 0 {
		add("all", &r.Total)
	}
	return w
}

// Table writes it for people to read.
func (f *WhatIf) Table(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s requests a month, %.4g%% of them asked for twice:\n", count(f.Monthly), 100*f.RetryRate)
	if len(f.Lines) == 0 {
		b.WriteString("no call was billed in this time: there is nothing to reckon with\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	rows := [][]string{{"", "a call", "a month without", "with", "saved"}}
	for _, l := range f.Lines {
		row := []string{printable(l.Name)}
		for _, m := range []*cache.Money{l.Call, l.Without, l.With, l.Saved} {
			if m == nil {
				row = append(row, "unpriced")
			} else {
				row = append(row, Dollars(*m))
			}
		}
		rows = append(rows, row)
	}
	lay(&b, true, rows)
	_, err := io.WriteString(w, b.String())
	return err
}
