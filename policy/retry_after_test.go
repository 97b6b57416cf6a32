package policy

import (
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2025, 3, 14, 15, 9, 26, 0, time.UTC)
	const (
		none = time.Duration(-1)
		imf  = "Mon, 02 Jan 2006 15:04:05 GMT"
	)
	at := func(d time.Duration) string { return now.Add(d).Format(imf) }
	retryInfo := func(delay string) string {
		return `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"` + delay + `"}]}}`
	}
	for name, c := range map[string]struct {
		header    []string
		body      string
		throttled bool
		want      time.Duration
	}{
		"nothing":                     {want: none},
		"seconds":                     {header: []string{"Retry-After", "7"}, want: 7 * time.Second},
		"a fraction":                  {header: []string{"Retry-After", "0.25"}, want: 250 * time.Millisecond},
		"space around":                {header: []string{"Retry-After", " 7\t"}, want: 7 * time.Second},
		"milliseconds first":          {header: []string{"Retry-After-Ms", "1500", "X-Ms-Retry-After-Ms", "2", "Retry-After", "30"}, want: 1500 * time.Millisecond},
		"Azure's before Retry-After":  {header: []string{"X-Ms-Retry-After-Ms", "2000", "Retry-After", "30"}, want: 2 * time.Second},
		"an invalid one is passed by": {header: []string{"Retry-After-Ms", "soon", "Retry-After", "3"}, want: 3 * time.Second},
		"a date is no milliseconds":   {header: []string{"Retry-After-Ms", at(time.Minute)}, want: none},
		"the longest of lines":        {header: []string{"Retry-After", "1", "Retry-After", "4", "Retry-After", "x"}, want: 4 * time.Second},
		"a date among lines":          {header: []string{"Retry-After", "1", "Retry-After", at(9 * time.Second)}, want: 9 * time.Second},
		"zero":                        {header: []string{"Retry-After", "0"}, want: 0},
		"a past date":                 {header: []string{"Retry-After", at(-time.Hour)}, want: 0},
		"plus":                        {header: []string{"Retry-After", "+5"}, want: none},
		"minus":                       {header: []string{"Retry-After", "-5"}, want: none},
		"exponent":                    {header: []string{"Retry-After", "1e3"}, want: none},
		"hex":                         {header: []string{"Retry-After", "0x10"}, want: none},
		"underscore":                  {header: []string{"Retry-After", "1_0"}, want: none},
		"NaN":                         {header: []string{"Retry-After", "NaN"}, want: none},
		"Inf":                         {header: []string{"Retry-After", "Inf"}, want: none},
		"empty":                       {header: []string{"Retry-After", ""}, want: none},
		"a list":                      {header: []string{"Retry-After", "1, 2"}, want: none},
		"no whole part":               {header: []string{"Retry-After", ".5"}, want: none},
		"no fraction after the dot":   {header: []string{"Retry-After", "5."}, want: none},
		"two dots":                    {header: []string{"Retry-After", "1.2.3"}, want: none},
		"other digits":                {header: []string{"Retry-After", "٣"}, want: none},
		"overflows a Duration":        {header: []string{"Retry-After", "9223372037"}, want: saturation},
		"overflows an integer":        {header: []string{"Retry-After", strings.Repeat("9", 20)}, want: saturation},
		"overflows a float":           {header: []string{"Retry-After", strings.Repeat("9", 400)}, want: saturation},
		"overflows in milliseconds":   {header: []string{"Retry-After-Ms", strings.Repeat("9", 400)}, want: saturation},
		"a date in the year 9999":     {header: []string{"Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"}, want: saturation},
		"from its own Date":           {header: []string{"Date", at(-2 * time.Minute), "Retry-After", at(-2*time.Minute + 3*time.Second)}, want: 3 * time.Second},
		"a Date too far off":          {header: []string{"Date", at(-25 * time.Hour), "Retry-After", at(3 * time.Second)}, want: 3 * time.Second},
		"a Date that is none":         {header: []string{"Date", "today", "Retry-After", at(3 * time.Second)}, want: 3 * time.Second},
		"RFC 850":                     {header: []string{"Retry-After", now.Add(5 * time.Second).Format(time.RFC850)}, want: 5 * time.Second},
		"asctime":                     {header: []string{"Retry-After", now.Add(5 * time.Second).Format(time.ANSIC)}, want: 5 * time.Second},

		"RetryInfo":              {body: retryInfo("34.4s"), want: 34400 * time.Millisecond},
		"RetryInfo in an array":  {body: "[" + retryInfo("3s") + "]", want: 3 * time.Second},
		"a header before it":     {header: []string{"Retry-After", "2"}, body: retryInfo("34.4s"), want: 2 * time.Second},
		"RetryInfo below zero":   {body: retryInfo("-3s"), want: none},
		"RetryInfo with no unit": {body: retryInfo("3"), want: none},
		"a huge RetryInfo":       {body: retryInfo(strings.Repeat("9", 30) + "s"), want: saturation},
		"retryDelay elsewhere":   {body: `{"retryDelay":"3s"}`, want: none},
		"a broken body":          {body: `{"error":{"details":[{"retryDelay":"3s"`, want: none},

		"try again":           {body: `{"error":{"message":"Rate limit reached. Please try again in 5.2s. Visit"}}`, throttled: true, want: 5200 * time.Millisecond},
		"Try again, in words": {body: `Try again in 20 seconds.`, throttled: true, want: 20 * time.Second},
		"in ms":               {body: `try again in 120ms`, throttled: true, want: 120 * time.Millisecond},
		"in parts":            {body: `try again in 1m12.5s`, throttled: true, want: 72500 * time.Millisecond},
		"the second is one":   {body: `try again in a while, try again in 3s`, throttled: true, want: 3 * time.Second},
		"not throttled":       {body: `try again in 5.2s`, want: none},
		"no number":           {body: `try again in some time`, throttled: true, want: none},
		"cut short":           {body: `try again in `, throttled: true, want: none},
		"a negative one":      {body: `try again in -5s`, throttled: true, want: none},

		"a limit used up":            {header: []string{"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6s"}, want: 6 * time.Second},
		"in milliseconds":            {header: []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "120ms"}, want: 120 * time.Millisecond},
		"the later of two":           {header: []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "1s", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "4"}, want: 4 * time.Second},
		"not the one with some left": {header: []string{"X-Ratelimit-Remaining-Requests", "5", "X-Ratelimit-Reset-Requests", "9s", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "4s"}, want: 4 * time.Second},
		"a reset too far":            {header: []string{"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s"}, want: none},
		"Unix seconds":               {header: []string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1741964976"}, want: 10 * time.Second},
		"Unix milliseconds":          {header: []string{"X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1741964976000"}, want: 10 * time.Second},
		"Anthropic's":                {header: []string{"Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2025-03-14T15:09:46Z"}, want: 20 * time.Second},
		"the text before a reset":    {header: []string{"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6s"}, body: "try again in 2s", throttled: true, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := RetryAfter(says(503, c.header...).header, []byte(c.body), c.throttled, now)
			if c.want == none {
				if ok {
					t.Errorf("got %v, want nothing", got)
				}
				return
			}
			if !ok || got != c.want {
				t.Errorf("got %v, %v, want %v", got, ok, c.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("1.5", "Fri, 14 Mar 2025 15:09:26 GMT", "0", "6m0s", `{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":"3s"}]}}`)
	f.Add("Sun Nov  6 08:49:37 1994", "Sunday, 06-Nov-94 08:49:37 GMT", "0.0", "1741964976", `please TRY again in 1h2m3.5s, 4 days`)
	f.Add(strings.Repeat("9", 400), "", "00", "2025-03-14T15:09:46Z", `[{"error":{"details":{}}}]`)
	now := time.Date(2025, 3, 14, 15, 9, 26, 0, time.UTC)
	f.Fuzz(func(t *testing.T, after, date, remaining, reset, body string) {
		for _, key := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms", "Other"} {
			h := map[string][]string{
				key: {after, date}, "Date": {date},
				"X-Ratelimit-Remaining-Tokens": {remaining}, "X-Ratelimit-Reset-Tokens": {reset},
				"Anthropic-Ratelimit-Tokens-Remaining": {remaining}, "Anthropic-Ratelimit-Tokens-Reset": {after},
			}
			for _, throttled := range []bool{false, true} {
				d, ok := RetryAfter(h, []byte(body), throttled, now)
				if d < 0 || d > saturation || !ok && d != 0 {
					t.Fatalf("%v, %v", d, ok)
				}
			}
		}
	})
}
