package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever happens on targets that many calls share: they end as they began,
// with no place, no probe and nobody waiting left behind, and still serve.
func TestTargetsEndAsTheyBegan(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				source := rand.New(rand.NewPCG(seed, seed))
				rnd := func() float64 {
					mu.Lock()
					defer mu.Unlock()
					return source.Float64()
				}
				e := &Engine{Rand: rnd}
				targets := []*Target{target("a", 2), target("b", 1), target("c", 1)}
				for _, a := range targets {
					a.Config.Concurrency = Concurrency{Start: 8, Min: 2, Max: 8}
					a.Config.Breaker.Consecutive = 6
				}
				say := []func() answer{
					func() answer { return fine }, func() answer { return fine }, func() answer { return says(500) },
					func() answer { return says(503, "Retry-After", "1") }, func() answer { return says(429) }, func() answer { return hang },
					func() answer { return says(401) }, func() answer { return refusedDial }, func() answer { return reset1 }, func() answer { return says(400) },
				}
				try := func(ctx context.Context, a Attempt) *Failure {
					select {
					case <-time.After(time.Duration(rnd() * float64(2*time.Second))):
					case <-ctx.Done():
						return &Failure{Phase: Sent, Cancelled: true}
					}
					if rnd() < 0.1 {
						a.Target.Observe(a.Credential, says(200, "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "1s").header, time.Now())
					}
					if rnd() < 0.02 {
						panic("the provider's fault")
					}
					return say[int(rnd()*float64(len(say)))]().failure(time.Now())
				}
				var wg sync.WaitGroup
				for i := range 600 {
					wg.Go(func() {
						defer func() { _ = recover() }()
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd()*float64(30*time.Second)))
						defer cancel()
						w := patient(time.Duration(rnd() * float64(40*time.Second)))
						if rnd() < 0.2 {
							time.AfterFunc(time.Duration(rnd()*float64(10*time.Second)), func() { close(w.gone) })
						}
						e.Do(ctx, Call{Kind: Kind(i % 5), Principal: fmt.Sprint(i % 7), Targets: targets[i%3:], Readers: w}, try)
					})
					time.Sleep(20 * time.Millisecond)
				}
				wg.Wait()
				time.Sleep(20 * time.Minute) // whatever was on hold is free
				for _, a := range targets {
					if s := a.Status(time.Now()); s.InFlight != 0 || s.Queued != 0 || s.Probes != 0 || len(s.Holds) != 0 || s.Budget != 20 {
						t.Errorf("%+v", s)
					}
					for range 5 {
						if res := e.Do(t.Context(), Call{Targets: []*Target{a}}, func(context.Context, Attempt) *Failure { return nil }); res.Reason != "" {
							t.Errorf("%s: %+v", a.Name, res)
						}
					}
					if s := a.Status(time.Now()); s.Breaker != Closed || s.Limit < 2 {
						t.Errorf("%+v", s)
					}
				}
			})
		})
	}
}
