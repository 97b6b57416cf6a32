package simulate

import (
	"context"
	"math/rand/v2"
	"time"

	"oncegate/policy"
)

const (
	herdSize  = 1000
	herdWidth = 20 * time.Millisecond // its bins
)

// herd has many callers fail at the same moment. It gives the load in bins of
// 20 ms, how many of it were retries, and how many of those came within one bin.
func herd(p Policy, seed uint64) (load []Bin, retries, most int) {
	w := new(world)
	engine := &policy.Engine{Clock: w, Rand: p.rand(rand.New(rand.NewPCG(seed, 0)))}
	to := target(p.Config)
	m, again := meter{width: herdWidth}, meter{width: herdWidth}
	try := func(_ context.Context, a policy.Attempt) *policy.Failure {
		m.now(w).Offered++
		if a.N > 1 {
			retries++
			again.now(w).Offered++
		}
		w.pause(refusedAfter)
		return &policy.Failure{Phase: policy.Answered, Status: 503}
	}
	for range herdSize {
		w.start(func() {
			m.now(w).Calls++
			engine.Do(context.Background(), policy.Call{Kind: policy.Read, Targets: []*policy.Target{to}}, try)
		})
	}
	w.run()
	return m.bins, retries, peak(again.bins)
}
