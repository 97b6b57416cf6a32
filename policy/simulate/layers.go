package simulate

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"oncegate/policy"
)

// client is an SDK that tries again by itself, as measured against an upstream
// that says 503 for ever.
type client struct {
	name  string
	tries int
	waits func(n int, rnd float64) time.Duration // before its n-th retry
	obeys bool                                   // x-should-retry
}

// doubling are waits that double from first on, each less or more by as much
// as spread times itself.
func doubling(first time.Duration, low, high float64) func(int, float64) time.Duration {
	return func(n int, rnd float64) time.Duration {
		return time.Duration(math.Ldexp(float64(first), n-1) * (low + (high-low)*rnd))
	}
}

var clients = []client{
	{"openai, anthropic, agents", 3, doubling(500*time.Millisecond, 0.75, 1), true},
	{"ai", 3, doubling(2*time.Second, 1, 1), false},
	{"langchain", 7, doubling(time.Second, 1, 2), false},
}

// onceFor is how long a call that failed gets one attempt only.
const onceFor = time.Minute

// layered is what became of one call of a client.
type layered struct {
	tries    int // the client's
	attempts int // at the upstream
}

// layers has a client make a call through a gateway, to which the upstream says
// 503 for ever; to the calls of others it says 200. An untold client hears
// nothing of the gateway's retries, and its gateway does not know its later
// tries for what they are.
func (c client) layers(p Policy, told bool, seed uint64) (load []Bin, l layered) {
	w := new(world)
	rnd := rand.New(rand.NewPCG(seed, 0))
	engine := &policy.Engine{Clock: w, Rand: p.rand(rnd)}
	to := target(p.Config)
	m := meter{width: time.Second}
	try := func(context.Context, policy.Attempt) *policy.Failure {
		m.now(w).Offered++
		l.attempts++
		w.pause(refusedAfter)
		return &policy.Failure{Phase: policy.Answered, Status: 503}
	}
	fine := func(context.Context, policy.Attempt) *policy.Failure {
		w.pause(latency)
		return nil
	}
	w.steadily(100*time.Millisecond, 3*time.Minute, func() {
		w.start(func() {
			engine.Do(context.Background(), policy.Call{Kind: policy.Completion, Targets: []*policy.Target{to}}, fine)
		})
	})
	w.start(func() {
		var res policy.Result
		var memo, once time.Duration // until then
		m.now(w).Calls++
		for l.tries < c.tries {
			if l.tries++; l.tries > 1 {
				w.pause(max(res.RetryAfter, c.waits(l.tries-1, rnd.Float64())))
			}
			if !told || w.now >= memo {
				res = engine.Do(context.Background(), policy.Call{
					Kind: policy.Completion, Targets: []*policy.Target{to}, Once: told && w.now < once,
				}, try)
				if res.Memo > 0 {
					memo, once = w.now+res.Memo, w.now+onceFor
				}
			}
			if told && c.obeys && !res.ShouldRetry {
				return
			}
		}
	})
	w.run()
	return m.bins, l
}
