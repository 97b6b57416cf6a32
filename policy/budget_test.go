package policy

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// within counts the most times that lie within any window of d.
func within(times []time.Duration, d time.Duration) (most int) {
	from := 0
	for i := range times {
		for times[i]-times[from] >= d {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// For any traffic and any ask for retries: no more than a tenth of the
// originals in any ten seconds, no more than a fiftieth of them in any one,
// where that is more than the floor; and what the floor allows is allowed.
func TestBudgetBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Budget{Ratio: rapid.SampledFrom([]float64{0.1, 0.1, 0.5}).Draw(t, "ratio"), Floor: rapid.SampledFrom([]float64{10, 10, 0.5}).Draw(t, "floor")}
		var b budget
		var originals, retries []time.Duration
		at := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "start"))
		// So many originals come each millisecond of a stretch, and as many
		// retries as the account lets go.
		steps := rapid.IntRange(1, 4).Draw(t, "stretches")
		for range steps {
			rate := rapid.IntRange(0, 400).Draw(t, "rps")
			asks := rapid.SampledFrom([]int{0, 1, 50}).Draw(t, "asks in ten ms")
			for range rapid.IntRange(1, 900).Draw(t, "tens of ms") {
				at += 10 * time.Millisecond
				if int(at/time.Millisecond)%1000*rate/1000 != (int(at/time.Millisecond)%1000-10)*rate/1000 || rate >= 100 {
					for range max(1, rate/100) {
						b.original(at)
						originals = append(originals, at)
					}
				}
				for range asks {
					if b.room(c, at) < 1 {
						break
					}
					b.retry()
					retries = append(retries, at)
				}
			}
		}
		peak := float64(within(originals, 10*time.Second))
		most := max(10*c.Floor, c.Ratio*peak)
		if n := within(retries, 10*time.Second); float64(n) > most {
			t.Fatalf("%d retries in ten seconds, %v allowed", n, most)
		}
		if n := within(retries, time.Second); float64(n) > most/5 {
			t.Fatalf("%d retries in one second, %v allowed", n, most/5)
		}
	})
}

func TestBudgetFloorAndRefund(t *testing.T) {
	c := Defaults().Budget
	take := func(b *budget, at time.Duration) (n int, last token) {
		for {
			if b.room(c, at) < 1 {
				return n, last
			}
			n, last = n+1, b.retry()
		}
	}
	var b budget
	if n, _ := take(&b, 0); n != 20 {
		t.Errorf("%d retries at once with no traffic, want twice the floor", n)
	}
	total := 0
	for at := range 100 { // ten seconds, by tenths
		n, _ := take(&b, time.Duration(at)*budgetTick)
		total += n
	}
	if total != 80 {
		t.Errorf("%d more within ten seconds, want 80", total)
	}

	// A refund is worth a retry later on, not one more in the same second.
	b = budget{}
	_, last := take(&b, 0)
	b.refund(last)
	if n, _ := take(&b, 0); n != 0 {
		t.Errorf("a refund gave %d more in the same second", n)
	}
	total = 0
	for at := range 90 {
		n, _ := take(&b, time.Duration(at)*budgetTick)
		total += n
	}
	if total != 81 {
		t.Errorf("%d more with one given back, want 81", total)
	}

	// An attempt that was not made leaves no trace; nor does a refund that
	// comes when its second is forgotten.
	b = budget{}
	before := b
	_, last = b.original(0), token{}
	tk := b.retry()
	b.undo(tk)
	b.undo(token{})
	if b != before {
		t.Errorf("after the undo: %+v", b)
	}
	b.refund(tk)
	b = budget{}
	tk = b.retry()
	b.advance(time.Hour)
	b.refund(tk)
	b.undo(tk)
	if n, _ := take(&b, time.Hour); n != 20 || last != (token{}) {
		t.Errorf("%d retries an hour later", n)
	}
}

// Traffic is calls that arrive at a steady rate, from a clock of their own.
func traffic(t *testing.T, e *Engine, c Call, rps int, d time.Duration, try func(context.Context, Attempt) *Failure) (done []Result) {
	results := make(chan Result, rps*int(d/time.Second)+1)
	for range cap(results) - 1 {
		go func() { results <- e.Do(t.Context(), c, try) }()
		time.Sleep(time.Second / time.Duration(rps))
	}
	time.Sleep(time.Minute)
	for range cap(results) - 1 {
		done = append(done, <-results)
	}
	return done
}

func TestCase25Budget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		a.Config.Breaker.Switch = Off
		start := time.Now()
		var attempts, retries []time.Duration
		var mu sync.Mutex
		try := func(_ context.Context, at Attempt) *Failure {
			mu.Lock()
			defer mu.Unlock()
			now := time.Since(start)
			attempts = append(attempts, now)
			if at.N > 1 {
				retries = append(retries, now)
			}
			if now < 10*time.Second {
				return nil
			}
			return says(503).failure(time.Now())
		}
		results := traffic(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a}}, 100, 15*time.Second, try)
		if n := within(attempts, time.Second); n > 122 {
			t.Errorf("%d attempts in a second", n)
		}
		if n := within(retries, 10*time.Second); n > 110 || n < 50 {
			t.Errorf("%d retries in ten seconds", n)
		}
		reasons := map[Reason]int{}
		for _, r := range results {
			if reasons[r.Reason]++; r.Reason != "" && (r.Failure.Status != 503 || r.ShouldRetry || r.Memo != memoShort) {
				t.Fatalf("%+v", r)
			}
		}
		if reasons[""] != 1000 || reasons[BudgetExhausted] < 350 || reasons[""]+reasons[BudgetExhausted]+reasons[AttemptsExhausted] != 1500 {
			t.Errorf("%v", reasons)
		}
	})
}

// In a long outage the upstream gets 1.1 times the calls.
func TestBudgetInALongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		a.Config.Breaker.Switch = Off
		made := make(chan struct{}, 1<<20)
		results := traffic(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a}}, 200, time.Minute, func(context.Context, Attempt) *Failure {
			made <- struct{}{}
			return says(503).failure(time.Now())
		})
		if amplified := float64(len(made)) / float64(len(results)); amplified > 1.102 || amplified < 1.05 {
			t.Errorf("amplified by %v", amplified)
		}
	})
}

// A refused dial goes again without a token, once; what is sent costs one.
func TestRetriesOfWhatWasNotSentAreFreeOnce(t *testing.T) {
	for name, c := range map[string]struct {
		script   []answer
		attempts int
		reason   Reason
	}{
		"once":      {[]answer{refusedDial, fine}, 2, ""},
		"twice":     {[]answer{refusedDial, refusedDial, fine}, 2, BudgetExhausted},
		"then sent": {[]answer{refusedDial, says(503), fine}, 2, BudgetExhausted},
		"sent":      {[]answer{says(503), fine}, 1, BudgetExhausted},
		"rotated":   {[]answer{says(429), fine}, 1, BudgetExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := target("a", 2)
				a.Config.Budget = Budget{Ratio: 1e-9, Floor: 1e-9}
				var events []EventKind
				res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a}, On: func(e Event) { events = append(events, e.Kind) }},
					scripted(map[string][]answer{"a": c.script}))
				if res.Attempts != c.attempts || res.Reason != c.reason || res.ShouldRetry {
					t.Errorf("%+v", res)
				}
				if c.reason != "" && events[len(events)-1] != BudgetSpent {
					t.Errorf("events %v", events)
				}
			})
		})
	}
}

// With the budget spent a fallback is tried, as an original of its own.
func TestSpentBudgetFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := target("a", 1), target("b", 1)
		a.Config.Budget = Budget{Ratio: 1e-9, Floor: 1e-9}
		b.Config = a.Config
		u := scripted(map[string][]answer{"a": {says(503)}, "b": {fine}})
		if res, _ := do(t, new(Engine), Call{Kind: Completion, Targets: []*Target{a, b}}, u); res.Failure != nil || res.Attempts != 2 {
			t.Errorf("%+v", res)
		}
	})
}

// Of those who sleep for the last token one gets it; the others don't sleep
// again.
func TestTokenIsTakenWhenSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := target("a", 1)
		a.Config.Budget = Budget{Ratio: 1e-9, Floor: 0.5} // 5 in ten seconds, 1 in one
		start := time.Now()
		results := make(chan Result, 3)
		for range cap(results) {
			go func() {
				results <- (&Engine{Rand: dice["middle"]}).Do(t.Context(), Call{Kind: Completion, Targets: []*Target{a}}, func(_ context.Context, at Attempt) *Failure {
					if at.N > 1 {
						return nil
					}
					return says(503).failure(time.Now())
				})
			}()
		}
		reasons := map[Reason]int{}
		for range cap(results) {
			r := <-results
			reasons[r.Reason]++
		}
		if reasons[""] != 1 || reasons[BudgetExhausted] != 2 || time.Since(start) != 250*time.Millisecond {
			t.Errorf("%v after %v", reasons, time.Since(start))
		}
	})
}
