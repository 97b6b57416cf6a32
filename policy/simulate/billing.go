package simulate

import (
	"context"
	"math/rand/v2"
	"time"

	"oncegate/cache"
	"oncegate/policy"
)

const (
	billedCalls = 100_000
	lostShare   = 0.05 // of the answers, on their way to the client
	billedTries = 3    // of a client, the first included
	comesBack   = 500 * time.Millisecond
)

// bill is what a provider is paid for, when answers get lost on their way to
// the client and the client asks again.
type bill struct {
	billed  int // upstream calls
	avoided int // calls whose repeats were answered from a record
}

// repeat is how a client asks again.
type repeat uint8

const (
	unshared repeat = iota // nobody remembers the first answer
	marked                 // it says that it is a retry
	unmarked               // it does not, but its first connection was seen to break
)

// ask has the clients ask until they have their answers.
func (r repeat) ask(seed uint64) (load []Bin, b bill) {
	w := new(world)
	rnd := rand.New(rand.NewPCG(seed, 0))
	engine := &policy.Engine{Clock: w, Rand: rnd.Float64}
	to := target(policy.Config{})
	m := meter{width: time.Second}
	try := func(context.Context, policy.Attempt) *policy.Failure {
		m.now(w).Offered++
		w.pause(latency)
		b.billed++
		return nil
	}
	call := func() {
		began, shared := w.now, false
		var record cache.View
		for n := range billedTries {
			claim := cache.Claim{Mode: cache.Duplicates, Retry: r == marked && n > 0}
			if r == unshared {
				record = cache.View{}
			}
			switch d := cache.Decide(claim, record); d.Role {
			case cache.Lead:
				engine.Do(context.Background(), policy.Call{Kind: policy.Completion, Targets: []*policy.Target{to}}, try)
				record = cache.View{State: cache.Completed}
			case cache.Replay:
				shared = true
				record.Owed = record.Owed && !d.TakeDebt
			}
			if rnd.Float64() >= lostShare {
				m.at(began).Answered++
				break
			}
			record.Owed = r == unmarked
			w.pause(comesBack)
		}
		if shared {
			b.avoided++
		}
	}
	w.steadily(callsEvery, billedCalls*callsEvery, func() {
		m.now(w).Calls++
		w.start(call)
	})
	w.run()
	return m.bins, b
}
