package simulate

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"oncegate/policy"
)

// contention is the model of
// https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/:
// clients that begin at once all write one row, which takes a write only from
// who has read its latest version. An attempt is four hops: a read there and
// back, a write there and back. Of a policy only its waits count here: there
// are as many attempts as it takes.
//
// It gives how many writes were tried, and how long it took until all were done.
func contention(clients int, p Policy, seed uint64) (load []Bin, writes int, took time.Duration) {
	w := new(world)
	rnd := rand.New(rand.NewPCG(seed, 0))
	engine := &policy.Engine{Clock: w, Rand: p.rand(rnd)}
	config := bare(p.Config.Or(policy.Defaults()).Backoff)
	config.Attempts, config.TotalAttempts = unbounded, unbounded
	to := target(config)
	m := meter{width: time.Second}
	version := 0
	try := func(context.Context, policy.Attempt) *policy.Failure {
		w.pause(hop(rnd))
		read := version
		w.pause(hop(rnd))
		w.pause(hop(rnd))
		m.now(w).Offered++
		writes++
		won := read == version
		if won {
			version++
		}
		w.pause(hop(rnd))
		if !won {
			return &policy.Failure{Phase: policy.Answered, Status: 409, ShouldRetry: 1}
		}
		return nil
	}
	for range clients {
		w.start(func() {
			m.now(w).Calls++
			engine.Do(context.Background(), policy.Call{Kind: policy.Read, Targets: []*policy.Target{to}}, try)
			m.bins[0].Answered++
			took = w.now
		})
	}
	w.run()
	return m.bins, writes, took
}

// hop is |Normal(10, 2)| ms.
func hop(rnd *rand.Rand) time.Duration {
	return time.Duration(math.Abs(10+2*rnd.NormFloat64()) * float64(time.Millisecond))
}
