package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"oncegate/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary is what happened, and when.
type diary struct {
	*world
	lines []string
}

func (d *diary) note(what string) { d.lines = append(d.lines, fmt.Sprint(d.now, " ", what)) }

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	if !slices.Equal(d.lines, lines) {
		t.Errorf("%q", d.lines)
	}
}

func TestWorldGoesInTheOrderOfTimes(t *testing.T) {
	d := diary{world: new(world)}
	for _, name := range []string{"a", "b"} {
		d.start(func() {
			for n := range 2 {
				d.note(name)
				d.pause(time.Duration(n+1) * time.Second)
			}
			d.note(name + " ends")
		})
	}
	d.at(time.Second, func() { d.note("event") })
	d.steadily(2*time.Second, 5*time.Second, func() { d.note("steady") })
	d.run()
	d.want(t, "0s a", "0s b", "0s steady", "1s event", "1s a", "1s b", "2s steady", "3s a ends", "3s b ends", "4s steady")
	if len(d.all) != 2 {
		t.Errorf("%d coroutines for two processes", len(d.all))
	}
}

// Whatever ends a wait, it ends once, and at that moment.
func TestWorldWaitEnds(t *testing.T) {
	for _, what := range []string{"gone", "woken", "ctx", "event", "time", "gone before", "ctx before"} {
		t.Run(what, func(t *testing.T) {
			d := diary{world: new(world)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			gone, woken := make(chan struct{}), make(chan struct{})
			d.start(func() {
				switch what {
				case "gone before":
					close(gone)
				case "ctx before":
					cancel()
				}
				d.Wait(ctx, 3*time.Second, gone, woken)
				d.note("awake")
				d.pause(3 * time.Second) // what was to end the other wait does not end this one
				d.note("still")
			})
			if what == "event" {
				d.at(time.Second, func() { close(woken) })
			}
			d.start(func() {
				d.pause(time.Second)
				switch what {
				case "gone":
					close(gone)
				case "woken":
					close(woken)
				case "ctx":
					cancel()
				}
			})
			d.run()
			switch what {
			case "time":
				d.want(t, "3s awake", "6s still")
			case "gone before", "ctx before":
				d.want(t, "0s awake", "3s still")
			default:
				d.want(t, "1s awake", "4s still")
			}
		})
	}
}

// A process whose work is done makes room for the next one, whatever that one
// waits for.
func TestWorldUsesCoroutinesAgain(t *testing.T) {
	w := new(world)
	n := 0
	w.steadily(time.Second, 1000*time.Second, func() {
		w.start(func() {
			w.pause(2500 * time.Millisecond)
			n++
		})
	})
	w.run()
	if n != 1000 || len(w.all) != 3 {
		t.Errorf("%d processes ended, of %d coroutines", n, len(w.all))
	}
}

// A call goes in virtual time as it does by the clock of a machine: the same
// attempts at the same times.
func TestWorldIsNoOtherClock(t *testing.T) {
	script := func(seed uint64, clock policy.Clock, begin time.Time, wait func(time.Duration)) (got []string) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		engine := &policy.Engine{Rand: rnd.Float64, Clock: clock}
		now := time.Now
		if clock != nil {
			now = clock.Now
		}
		targets := []*policy.Target{target(policy.Config{}), target(policy.Config{})}
		for range 3 {
			res := engine.Do(context.Background(), policy.Call{Kind: policy.Read, Targets: targets, Deadline: now().Add(time.Minute)},
				func(_ context.Context, a policy.Attempt) *policy.Failure {
					got = append(got, fmt.Sprint(now().Sub(begin), " attempt ", a.Index, a.N))
					wait(time.Duration(rnd.IntN(1000)) * time.Millisecond)
					switch rnd.IntN(5) {
					case 0:
						return nil
					case 1:
						return &policy.Failure{Phase: policy.Sent, Timeout: true}
					case 2:
						return &policy.Failure{Phase: policy.Answered, Status: 429, HasRetryAfter: true, RetryAfter: time.Second}
					}
					return &policy.Failure{Phase: policy.Answered, Status: 503}
				})
			got = append(got, fmt.Sprint(now().Sub(begin), " ", res.Reason, res.Attempts, res.RetryAfter))
		}
		return got
	}
	most := 0
	for seed := range uint64(50) {
		var real, virtual []string
		synctest.Test(t, func(*testing.T) { real = script(seed, nil, time.Now(), time.Sleep) })
		w := new(world)
		w.start(func() { virtual = script(seed, w, epoch, w.pause) })
		w.run()
		if !reflect.DeepEqual(real, virtual) {
			t.Errorf("seed %d: %q, not %q", seed, virtual, real)
		}
		most = max(most, len(real))
	}
	if most < 10 {
		t.Errorf("no script had more than %d lines", most)
	}
}

// Calls that wait for their turn at a full target get it when it comes.
func TestWorldGivesTurns(t *testing.T) {
	d := diary{world: new(world)}
	engine := &policy.Engine{Clock: d, Rand: func() float64 { return 0 }}
	to := target(policy.Config{Concurrency: policy.Concurrency{Start: 1, Min: 1, Max: 1}})
	for i := range 3 {
		d.start(func() {
			res := engine.Do(context.Background(), policy.Call{Targets: []*policy.Target{to}}, func(context.Context, policy.Attempt) *policy.Failure {
				d.pause(2 * time.Second)
				return nil
			})
			d.note(fmt.Sprint(i, res.Reason))
		})
	}
	d.run()
	d.want(t, "0s 2overloaded", "2s 0", "4s 1")
}
