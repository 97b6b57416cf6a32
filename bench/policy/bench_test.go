package policy_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/sony/gobreaker/v2"

	"oncegate/policy"
)

// target is one with everything at its default: limit, breaker, budget, holds.
func target() *policy.Target {
	return &policy.Target{Name: "a", Credentials: []*policy.Credential{new(policy.Credential)}}
}

// readers wait to the end.
type readers struct{ gone chan struct{} }

func (readers) Left() time.Duration     { return time.Hour }
func (r readers) Gone() <-chan struct{} { return r.gone }

// ours is one call that succeeds at its first attempt.
func ours() func() bool {
	e := new(policy.Engine)
	call := policy.Call{
		Kind: policy.Completion, Principal: "research", Targets: []*policy.Target{target()}, Deadline: time.Now().Add(time.Hour),
		Readers: readers{make(chan struct{})}, On: func(policy.Event) {},
	}
	try := func(context.Context, policy.Attempt) *policy.Failure { return nil }
	ctx := context.Background()
	return func() bool { return e.Do(ctx, call, try).Failure == nil }
}

// theirs is the same of failsafe-go's policies.
func theirs() func() bool {
	stack := failsafe.With[int](
		retrypolicy.NewBuilder[int]().WithMaxAttempts(3).WithBackoff(500*time.Millisecond, 30*time.Second).
			WithBudget(budget.NewBuilder().WithMaxRate(0.1).Build()).Build(),
		circuitbreaker.NewBuilder[int]().WithFailureRateThreshold(0.5, 20, 10*time.Second).WithDelay(time.Second).WithSuccessThreshold(3).Build(),
		adaptivelimiter.NewBuilder[int]().WithLimits(16, 4096, 4096).Build(),
	)
	call := func() (int, error) { return 0, nil }
	return func() bool {
		_, err := stack.Get(call)
		return err == nil
	}
}

// breakerOnly is gobreaker, which is a breaker and no more.
func breakerOnly() func() bool {
	b := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{MaxRequests: 3, Timeout: time.Second, Interval: 10 * time.Second, BucketPeriod: time.Second})
	call := func() (int, error) { return 0, nil }
	return func() bool {
		_, err := b.Execute(call)
		return err == nil
	}
}

// cpu is what this process has used: a figure that others on the machine
// disturb less than they do the time.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkSuccess(b *testing.B) {
	for _, c := range []struct {
		name string
		make func() func() bool
	}{{"oncegate", ours}, {"failsafe", theirs}, {"gobreaker", breakerOnly}, {"clock", func() func() bool {
		return func() bool { return !time.Now().IsZero() } // what each of them reads at least twice
	}}} {
		b.Run(c.name, func(b *testing.B) {
			call := c.make()
			b.ReportAllocs()
			before := cpu()
			for b.Loop() {
				if !call() {
					b.Fatal("the call failed")
				}
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			call := c.make()
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if !call() {
						b.Error("the call failed")
					}
				}
			})
		})
	}
}
