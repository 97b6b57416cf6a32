package cachetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"oncegate/cache"
)

// patiently sends a step again that a busy machine did not answer in time.
func patiently(do func() error) error {
	for begin := time.Now(); ; {
		err := do()
		if !errors.Is(err, cache.ErrAway) || time.Since(begin) > 30*time.Second {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// roles has sixty-four claim at once, and counts what they were told.
func (f *fixture) roles(claim func() cache.Claim) (count map[cache.Role]int, lead cache.Grant) {
	f.Helper()
	grants := make([]cache.Grant, 64)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range grants {
		wg.Go(func() {
			<-start
			c := claim()
			err := patiently(func() (err error) { grants[i], err = f.Store.Claim(f.Context(), c); return err })
			if err != nil {
				f.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	count = map[cache.Role]int{}
	found := 0
	for _, g := range grants {
		if count[g.Role]++; g.Role == cache.Lead {
			lead = g
		}
		if g.Lapsed {
			found++
		}
		if g.Fence != grants[0].Fence || g.Origin != grants[0].Origin {
			f.Errorf("one got %+v, another %+v", g, grants[0])
		}
	}
	if found > 1 {
		f.Errorf("%d found out first", found)
	}
	return count, lead
}

func manyWriteOne(f *fixture) {
	for round := range byte(4) {
		k := key(round)
		count, lead := f.roles(func() cache.Claim { return write(k, 1) })
		if count[cache.Lead] != 1 || count[cache.Follow] != 63 {
			f.Fatalf("by role: %v, want 1 leader and 63 followers", count)
		}
		h := cache.Hold{Key: k, Fence: lead.Fence}
		var wg sync.WaitGroup
		errs := make([]error, 64)
		for i := range errs { // as if they had the hold
			wg.Go(func() {
				n := cache.NewNonce()
				errs[i] = patiently(func() error { return f.Store.Dispatch(f.Context(), h, n) })
			})
		}
		wg.Wait()
		sent := 0
		for _, err := range errs {
			if err == nil {
				sent++
			} else if !errors.Is(err, cache.ErrFenced) {
				f.Errorf("dispatch: %v", err)
			}
		}
		if sent != 1 {
			f.Fatalf("%d went through the door", sent)
		}
		f.settle(h, unclear(500))
		if count, _ = f.roles(func() cache.Claim { return write(k, 1) }); count[cache.InDoubt] != 64 {
			f.Fatalf("by role: %v, want 64 in doubt", count)
		}
		count, lead = f.roles(func() cache.Claim { return knowingly(k) })
		if count[cache.Lead] != 1 || count[cache.Follow] != 63 || lead.Origin != h.Fence {
			f.Fatalf("by role: %v, want 1 leader and 63 followers of %d", count, h.Fence)
		}
		h.Fence = lead.Fence
		f.dispatches(h)
		f.settle(h, done("one"))
		if count, _ = f.roles(func() cache.Claim { return knowingly(k) }); count[cache.Replay] != 64 {
			f.Fatalf("by role: %v, want 64 replays", count)
		}
		// Many find out at once that a lease lapsed: it is found out once.
		h = f.sends(write(key(100+round), 1))
		f.pass(lease)
		if count, _ = f.roles(func() cache.Claim { return write(h.Key, 1) }); count[cache.InDoubt] != 64 {
			f.Fatalf("by role: %v, want 64 in doubt", count)
		}
		f.trail(f.record(h.Key, cache.Unknown), cache.StepClaimed, cache.StepDispatched, cache.StepLapsed)
	}
}

func manyWrite(f *fixture) {
	var wg sync.WaitGroup
	for n := range byte(64) {
		wg.Go(func() {
			for round := range byte(4) {
				k := cache.Key{n, round}
				var g cache.Grant
				c, nonce, s := write(k, 1), cache.NewNonce(), done(fmt.Sprint(n, round))
				c.Lease = time.Hour
				err := patiently(func() (err error) { g, err = f.Store.Claim(f.Context(), c); return err })
				h := cache.Hold{Key: k, Fence: g.Fence}
				if err == nil {
					err = patiently(func() error { return f.Store.Dispatch(f.Context(), h, nonce) })
				}
				if err == nil {
					err = patiently(func() error { return f.Store.Settle(f.Context(), h, s) })
				}
				if err != nil || g.Role != cache.Lead {
					f.Errorf("%+v, %v", g, err)
					return
				}
			}
		})
	}
	wg.Wait()
	f.restart()
	for n := range byte(64) {
		for round := range byte(4) {
			f.replays(write(cache.Key{n, round}, 1), cache.ByKey, fmt.Sprint(n, round))
		}
	}
}

// What writesLinearizable checks: a key's record as its callers see it, and
// how often it may have been executed.
type (
	writeInput struct {
		key       byte
		step      string // claim, dispatch, withdraw, completed, unknown, released, resolve-completed, resolve-released, record
		knowingly bool
		fence     cache.Fence
		text      string
	}
	writeOutput struct {
		grant cache.Grant
		text  string
		state cache.State
		err   error // one of the cache's
		// The step was sent again. If it was refused then, an earlier try may
		// have had its effect.
		resent bool
	}
	writeState struct {
		state  cache.State
		fence  cache.Fence
		origin cache.Fence
		doubt  bool
		text   string
		sent   int // dispatches of this operation that were not withdrawn
		again  int // how often it was run again
	}
)

var writeModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[byte][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(writeInput).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{writeState{}} },
	Step: func(st, in, out any) []any {
		s, i, o := st.(writeState), in.(writeInput), out.(writeOutput)
		next, err, ok := writeStep(s, i, o)
		if next.sent > 1+next.again {
			return nil // executed more often than anybody let it
		}
		switch {
		case o.resent && o.err != nil:
			return []any{s, next}
		case ok && errors.Is(o.err, err) && (o.err == nil) == (err == nil):
			return []any{next}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a.(writeState) == b.(writeState) },
}).ToModel()

// writeStep is the state table: what the step makes of the record and is
// answered. ok: what else it was told agrees.
func writeStep(s writeState, i writeInput, o writeOutput) (next writeState, err error, ok bool) {
	holds := s.fence == i.fence
	in := func(states ...cache.State) bool {
		return slices.Contains(states, s.state)
	}
	next = s
	switch i.step {
	case "claim":
		d := cache.Decide(
			cache.Claim{Explicit: true, Write: &cache.Write{Knowingly: i.knowingly}},
			cache.View{State: s.state, Doubt: s.doubt, Kept: true})
		g := o.grant
		if d.Role != g.Role || d.Share != g.Share || g.Lapsed {
			return s, nil, false
		}
		if d.Role != cache.Lead {
			return s, nil, g.Fence == s.fence && g.Origin == s.origin && (d.Role != cache.Replay || o.text == s.text)
		}
		next = writeState{state: cache.Claimed, fence: g.Fence, origin: g.Fence}
		if d.Again {
			next.origin, next.doubt, next.sent, next.again = s.origin, true, s.sent, s.again+1
		}
		return next, nil, g.Fence > s.fence && g.Origin == next.origin
	case "record":
		if in(cache.Absent, cache.Released) {
			return s, cache.ErrNone, true
		}
		return s, nil, o.state == s.state
	case "resolve-completed", "resolve-released":
		switch {
		case in(cache.Absent, cache.Released):
			return s, cache.ErrNone, true
		case !in(cache.Unknown):
			return s, cache.ErrSettled, true
		}
		next.state, next.text = cache.Completed, i.text
		if i.step == "resolve-released" {
			next = writeState{state: cache.Released, fence: s.fence}
		}
		return next, nil, true
	}
	switch {
	case i.step == "dispatch" && holds && in(cache.Claimed):
		next.state = cache.Dispatched
		next.sent++
	case i.step == "withdraw" && holds && in(cache.Dispatched):
		next.state = cache.Claimed
		next.sent--
	case i.step == "completed" && holds && in(cache.Dispatched, cache.Unknown):
		next.state, next.text = cache.Completed, i.text
	case i.step == "unknown" && holds && in(cache.Dispatched):
		next.state = cache.Unknown
	case i.step == "released" && holds && in(cache.Claimed, cache.Dispatched, cache.Unknown):
		if s.doubt {
			next.state = cache.Unknown
		} else {
			next = writeState{state: cache.Released, fence: s.fence}
		}
	default:
		return s, cache.ErrFenced, true
	}
	return next, nil, true
}

func writesLinearizable(f *fixture) { WriteHistory(f.T, 60, f.Store) }

// WriteHistory is History for writes. The holds that callers know are used by
// others too.
func WriteHistory(t *testing.T, steps int, stores ...cache.Store) {
	t.Helper()
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		tick    int64 // orders what a virtual clock can't
		wg      sync.WaitGroup
	)
	now := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		tick++
		return tick
	}
	const callers, keys = 8, 3
	var known [keys]cache.Fence
	for caller := range callers {
		wg.Go(func() {
			store := stores[caller%len(stores)]
			rnd := rand.New(rand.NewPCG(uint64(caller), 2))
			for n := range steps {
				k := byte(rnd.IntN(keys))
				mu.Lock()
				h := cache.Hold{Key: key(k), Fence: known[k]}
				mu.Unlock()
				in := writeInput{key: k, fence: h.Fence, text: fmt.Sprint(caller, " ", n)}
				nonce := cache.NewNonce()
				var out writeOutput
				var run func() error
				settle := func(step string, s cache.Settlement) {
					in.step, s.Nonce = step, nonce
					run = func() error { return store.Settle(t.Context(), h, s) }
				}
				resolve := func(step string, res cache.Result) {
					in.step = step
					r := resolution(res)
					r.Nonce = nonce
					run = func() error { return store.Resolve(t.Context(), h.Key, r) }
				}
				switch action := rnd.IntN(20); {
				case action < 5 || h.Fence == 0:
					in.step, in.knowingly, in.fence = "claim", rnd.IntN(3) == 0, 0
					c := write(h.Key, 1)
					c.Write.Knowingly, c.Nonce, c.Lease = in.knowingly, nonce, time.Hour
					run = func() (err error) { out.grant, err = store.Claim(t.Context(), c); return err }
				case action < 9:
					in.step = "dispatch"
					run = func() error { return store.Dispatch(t.Context(), h, nonce) }
				case action < 11:
					in.step = "withdraw"
					run = func() error { return store.Withdraw(t.Context(), h, nonce) }
				case action < 13:
					settle("completed", done(in.text))
				case action < 15:
					settle("unknown", unclear(500))
				case action < 17:
					settle("released", undone())
				case action < 18:
					resolve("resolve-completed", done(in.text).Result)
				case action < 19:
					resolve("resolve-released", cache.Result{State: cache.Released})
				default:
					in.step = "record"
					run = func() error {
						r, err := store.Record(t.Context(), h.Key)
						out.state = r.State
						return err
					}
				}
				call := now()
				tries := 0
				out.err = patiently(func() error { tries++; return run() })
				out.resent = tries > 1
				if err := out.err; err != nil && !errors.Is(err, cache.ErrFenced) && !errors.Is(err, cache.ErrNone) && !errors.Is(err, cache.ErrSettled) {
					t.Errorf("%s: %v", in.step, err)
				}
				if r := out.grant.Result; r != nil {
					out.text, out.grant.Result = text(r.Frames), nil
				}
				end := now()
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: caller, Input: in, Call: call, Output: out, Return: end})
				if g := out.grant; g.Role == cache.Lead {
					known[k] = max(known[k], g.Fence)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if result := porcupine.CheckOperationsTimeout(writeModel, history, time.Minute); result != porcupine.Ok {
		t.Errorf("%d steps of %d callers are not linearizable: %v", len(history), callers, result)
	}
}
