// Package policy_test compares the retry policy with libraries that do a part
// of it: gobreaker must agree, and gobreaker and failsafe-go are measured
// beside it. It is a module of its own, so that they are no dependencies of
// the gateway's.
package policy_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
	"pgregory.net/rapid"

	"oncegate/policy"
)

var errUpstream = errors.New("the upstream failed")

// With nothing but failures in a row to open by, a fixed time open and one
// probe, our breaker and gobreaker let the same calls go, whatever order they
// come and end in; and with several probes if no two calls overlap.
func TestGobreakerAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			const never = 1 << 30
			// Between two ticks of the test, so that no call comes just as it ends.
			cooldown := time.Second + time.Microsecond
			streak := rapid.IntRange(1, 6).Draw(t, "streak")
			probes := rapid.IntRange(1, 4).Draw(t, "probes")
			overlap := probes == 1
			a := target()
			a.Config = policy.Config{
				Attempts: 1,
				Breaker: policy.Breaker{
					Consecutive: streak, LowTraffic: policy.LowTraffic{Consecutive: never}, MinCalls: never,
					Cooldown: cooldown, CooldownCap: cooldown, Probes: probes,
				},
			}
			e := &policy.Engine{Rand: func() float64 { return 0.5 }} // the middle of the jitter is none
			theirs := gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
				MaxRequests: uint32(probes), Timeout: cooldown,
				ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(streak) },
			})
			type flight struct {
				end  chan bool // whether it fails
				done func(error)
				over chan struct{}
			}
			var air []*flight
			land := func(i int, fails bool) {
				f := air[i]
				air = append(air[:i], air[i+1:]...)
				f.end <- fails
				<-f.over
				var err error
				if fails {
					err = errUpstream
				}
				f.done(err)
			}
			for range rapid.IntRange(1, 80).Draw(t, "steps") {
				time.Sleep(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * time.Millisecond)
				if len(air) > 0 && (!overlap || rapid.Bool().Draw(t, "one ends")) {
					land(rapid.IntRange(0, len(air)-1).Draw(t, "which"), rapid.Bool().Draw(t, "fails"))
					continue
				}
				f := &flight{end: make(chan bool), over: make(chan struct{})}
				went, refused := make(chan struct{}), make(chan policy.Result, 1)
				go func() {
					defer close(f.over)
					r := e.Do(context.Background(), policy.Call{Targets: []*policy.Target{a}}, func(context.Context, policy.Attempt) *policy.Failure {
						close(went)
						if <-f.end {
							return &policy.Failure{Phase: policy.Sent, Err: errUpstream}
						}
						return nil
					})
					refused <- r
				}()
				goes := false
				select {
				case <-went:
					goes = true
				case r := <-refused:
					if r.Reason != policy.CircuitOpen {
						t.Fatalf("refused: %+v", r)
					}
				}
				done, err := theirs.Allow()
				if goes != (err == nil) {
					t.Fatalf("ours lets it go: %v; gobreaker: %v, it is %v", goes, err, theirs.State())
				}
				if goes {
					f.done = done
					air = append(air, f)
				}
			}
			for len(air) > 0 {
				land(0, true)
			}
		})
	})
}
