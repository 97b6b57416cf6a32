package gateway_test

import (
	"fmt"
	"time"

	"oncegate/cache"
)

// benchSeries is how many series a quarter of an hour has: 8 models, 25 users,
// executed, replayed and failed.
const benchSeries = 8 * 25 * 3

// fill books a day of requests, n in each series of each quarter of an hour. Of
// ten series one has answers without tokens.
func (b *books) fill(n int64, now time.Time) {
	for q := range 96 {
		at := now.Add(-time.Duration(q) * 15 * time.Minute)
		for m := range 8 {
			for u := range 25 {
				for i, outcome := range []string{"executed", "replayed", "failed"} {
					l := cache.Line{At: at, Series: cache.Series{
						Model: fmt.Sprint("model-", m), Provider: "openai", Operation: "chat", User: fmt.Sprint("user-", u), Key: "research", Outcome: outcome,
					}, Figures: cache.Figures{Requests: n}}
					switch i {
					case 0:
						l.Billed, l.BilledInput, l.BilledOutput, l.Spent = n, 1000*n, 200*n, cache.Picodollars(n*1_500_000_000)
						if m == 7 {
							l.Unpriced, l.Spent = n, cache.Money{}
						}
					case 1:
						l.SavedRequests, l.SavedInput, l.SavedOutput, l.Saved, l.Reason = n, 1000*n, 200*n, cache.Picodollars(n*1_500_000_000), "retry_marked"
					case 2:
						l.Unbilled, l.Reason = n, "attempts_exhausted"
					}
					b.store.Book(l)
				}
			}
		}
	}
}
