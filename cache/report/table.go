package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"oncegate/cache"
)

// Table writes the report for people to read.
func (r *Report) Table(w io.Writer) error {
	const minute = "2006-01-02 15:04"
	t := &r.Total
	var b strings.Builder
	fmt.Fprintf(&b, "%s to %s %s\n\n", r.Since.Format(minute), r.Until.Format(minute), r.Zone)
	lay(&b, false, [][]string{
		{"saved", t.amount(t.Saved.USD, t.Saved.Requests), fmt.Sprintf("%s of %s requests needed no call of their own: %s tokens",
			count(t.Saved.Requests), count(t.Requests), count(t.Saved.Tokens.Input+t.Saved.Tokens.Output))},
		{"billed", t.amount(t.Billed.USD, t.Attempts.Billed), fmt.Sprintf("%s calls: %s tokens in, %s out",
			count(t.Attempts.Billed), count(t.Billed.Tokens.Input), count(t.Billed.Tokens.Output))},
	})
	if n := t.Attempts.Unbilled + t.Attempts.Ambiguous; n > 0 {
		fmt.Fprintf(&b, "further attempts: %s unbilled, and %s more of which nobody knows whether they were billed\n",
			count(t.Attempts.Unbilled), count(t.Attempts.Ambiguous))
	}
	if t.UnpricedRequests > 0 {
		fmt.Fprintf(&b, "unpriced: %s requests have tokens and no price, and are in no amount; set one under prices\n", count(t.UnpricedRequests))
	}
	if t.DuplicateWritesPrevented > 0 {
		fmt.Fprintf(&b, "duplicate writes prevented: %s\n", count(t.DuplicateWritesPrevented))
	}
	if t.UnknownWritesOpen > 0 {
		fmt.Fprintf(&b, "writes in doubt: %s, see oncegate records ls\n", count(t.UnknownWritesOpen))
	}
	if t.Saved.Requests > 0 {
		b.WriteByte('\n')
		rows := [][]string{{"why it was shared", "would be billed", "were", "saved"}}
		for _, s := range [...]struct {
			why string
			n   int64
		}{
			{"a marked retry", t.Saved.By.RetryMarked}, {"an answer that was owed", t.Saved.By.Owed},
			{"twins at once", t.Saved.By.Twin}, {"an Idempotency-Key", t.Saved.By.Key}, {"within the TTL", t.Saved.By.WithinTTL},
		} {
			if s.n > 0 {
				rows = append(rows, []string{s.why, count(s.n), "0", count(s.n)})
			}
		}
		all := t.Attempts.Billed + t.Saved.Requests
		rows = append(rows, []string{"all", count(all), count(t.Attempts.Billed), count(t.Saved.Requests) + " = " + share(t.Saved.Requests, all)})
		lay(&b, true, rows)
	}
	if len(r.Groups) > 0 {
		b.WriteByte('\n')
		rows := [][]string{{string(r.Groups[0].By), "requests", "executed", "shared", "failed", "refused", "other", "billed", "saved"}}
		for i := range r.Groups {
			g := &r.Groups[i]
			o := g.Outcomes
			rows = append(rows, []string{
				printable(g.Name), count(g.Requests), count(o.Executed), count(o.Coalesced + o.Replayed), count(o.Failed), count(o.Refused),
				count(o.Bypassed + o.Unknown), g.amount(g.Billed.USD, g.Attempts.Billed), g.amount(g.Saved.USD, g.Saved.Requests),
			})
		}
		lay(&b, true, rows)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// amount writes what some requests cost: nothing is known of those without a price.
func (s *Sums) amount(m cache.Money, requests int64) string {
	if (m == cache.Money{}) && requests > 0 && s.UnpricedRequests > 0 {
		return "unpriced"
	}
	return Dollars(m)
}

// lay sets rows in columns: the first to the left, further ones to the right
// if they are figures.
func lay(b *strings.Builder, figures bool, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0 || !figures:
				line.WriteString(cell + pad + "  ")
			default:
				line.WriteString(pad + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// printable cuts a name that somebody chose to a column, without what a
// terminal would take for a command.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > 40 {
		return string(r[:39]) + "…"
	}
	return s
}

// count writes a number with commas.
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// share is a part in percent.
func share(part, all int64) string {
	if all == 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*float64(part)/float64(all), 'f', 1, 64) + "%"
}

// Dollars writes an amount for people: cents from a dollar on, four digits that
// count below. Something is never shown as nothing.
func Dollars(m cache.Money) string {
	switch {
	case m == cache.Money{}:
		return "$0"
	case m.Dollars == 0 && m.Picos < 999_950_000_000:
		digits := len(strconv.FormatInt(m.Picos, 10)) // that count
		unit := int64(1)                              // the last one that is shown
		shown := 12
		for ; digits > 4; digits-- {
			unit *= 10
			shown--
		}
		return fmt.Sprintf("$0.%0*d", shown, (m.Picos+unit/2)/unit)
	}
	const cent = 10_000_000_000
	m.Add(cache.Picodollars(cent / 2))
	return "$" + count(m.Dollars) + fmt.Sprintf(".%02d", m.Picos/cent)
}
