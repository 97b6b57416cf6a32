package cachetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"oncegate/cache"
)

func manyClaim(f *fixture) {
	for round := range byte(8) {
		var wg sync.WaitGroup
		grants := make([]cache.Grant, 64)
		start := make(chan struct{})
		for i := range grants {
			wg.Go(func() {
				<-start
				var err error
				if grants[i], err = f.Store.Claim(f.Context(), explicit(key(round), 1)); err != nil {
					f.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		leaders := 0
		for _, g := range grants {
			switch {
			case g.Role == cache.Lead:
				leaders++
			case g.Role != cache.Follow || g.Fence != grants[0].Fence:
				f.Errorf("one got %+v, another %+v", g, grants[0])
			}
		}
		if leaders != 1 {
			f.Errorf("%d lead", leaders)
		}
	}
}

func manyDebts(f *fixture) {
	h := f.leads(derived(key(1), cache.Always))
	s := whole("one")
	s.Result.Cut = true // so that nothing but a debt is a reason to share
	for range 4 {
		s.Owed = append(s.Owed, f.now())
	}
	f.settle(h, s)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { f.owe(h, debt) })
	}
	wg.Wait()
	roles := make([]cache.Grant, 64)
	for i := range roles {
		wg.Go(func() {
			var err error
			if roles[i], err = f.Store.Claim(f.Context(), derived(key(1), cache.Retries)); err != nil {
				f.Error(err)
			}
		})
	}
	wg.Wait()
	count := map[cache.Role]int{}
	for _, g := range roles {
		count[g.Role]++
		if g.Role == cache.Replay && text(g.Result.Frames) != "one" {
			f.Errorf("the answer is %q", text(g.Result.Frames))
		}
	}
	if count[cache.Replay] != 8 || count[cache.Lead] != 1 || count[cache.Twin] != 55 {
		f.Errorf("by role: %v, want 8 replays, 1 leader, 55 twins", count)
	}
}

// What linearizable checks: a key's record as its callers see it.
type (
	input struct {
		key   byte
		step  string // claim, settle, release, owe; take: see History
		retry bool   // claim
		fence cache.Fence
		text  string // settle
	}
	output struct {
		role   cache.Role
		share  cache.Share
		fence  cache.Fence
		text   string
		fenced bool
	}
	state struct {
		state cache.State
		fence cache.Fence // the last one given out
		text  string
		owed  int
	}
)

var model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[byte][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(input).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{state{}} },
	Step: func(st, in, out any) []any {
		s, i := st.(state), in.(input)
		if i.step == "take" {
			if s.owed == 0 {
				return []any{s}
			}
			less := s
			less.owed--
			return []any{s, less}
		}
		if ok, next := step(s, i, out.(output)); ok {
			return []any{next}
		}
		return nil
	},
	Equal: func(a, b any) bool { return a.(state) == b.(state) },
}).ToModel()

func step(s state, i input, o output) (bool, state) {
	holds := s.state == cache.Dispatched && s.fence == i.fence
	switch i.step {
	case "claim":
		d := cache.Decide(cache.Claim{Mode: cache.Duplicates, Retry: i.retry}, cache.View{State: s.state, Owed: s.owed > 0})
		if d.Role != o.role || d.Share != o.share {
			return false, s
		}
		if d.TakeDebt {
			s.owed--
		}
		switch d.Role {
		case cache.Lead:
			return o.fence > s.fence, state{state: cache.Dispatched, fence: o.fence}
		case cache.Replay:
			return o.fence == s.fence && o.text == s.text, s
		}
		return o.fence == s.fence, s
	case "settle":
		if holds {
			s.state, s.text = cache.Completed, i.text
		}
		return o.fenced == !holds, s
	case "release":
		if holds {
			s.state, s.owed = cache.Released, 0
		}
		return o.fenced == !holds, s
	}
	if s.fence == i.fence && s.state != cache.Released {
		s.owed++
	}
	return true, s
}

func linearizable(f *fixture) { History(f.T, 60, f.Store) }

// History has many callers take steps on few keys, over all stores, which are
// one and the same behind, and checks that what they were told is
// linearizable. A step that the store did not answer is sent again, with its
// nonce, until it does.
//
// One effect may be had in vain: a claim took a debt, its answer was lost, and
// the record was claimed anew before it was sent again. It is then decided
// anew, for the result it was to replay is gone. So a claim that was sent
// again may have taken a debt, as a step of its own.
func History(t *testing.T, steps int, stores ...cache.Store) {
	t.Helper()
	var (
		mu      sync.Mutex
		history []porcupine.Operation
		wg      sync.WaitGroup
	)
	var tick int64 // orders what a virtual clock can't
	now := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		tick++
		return tick
	}
	again := func(do func() error) (resent bool) {
		for begin := time.Now(); ; resent = true {
			err := do()
			if !errors.Is(err, cache.ErrAway) {
				return resent
			}
			if time.Since(begin) > 30*time.Second {
				t.Errorf("for half a minute: %v", err)
				return resent
			}
			time.Sleep(time.Millisecond) // it may be away
		}
	}
	const callers, keys = 8, 3
	for caller := range callers {
		wg.Go(func() {
			store := stores[caller%len(stores)]
			rnd := rand.New(rand.NewPCG(uint64(caller), 1))
			note := func(in input, out output, call, end int64) {
				mu.Lock()
				defer mu.Unlock()
				history = append(history, porcupine.Operation{ClientId: caller, Input: in, Call: call, Output: out, Return: end})
			}
			do := func(in input, run func() output) {
				call := now()
				out := run()
				note(in, out, call, now())
			}
			settle := func(h cache.Hold, s cache.Settlement) (o output) {
				again(func() error {
					err := store.Settle(t.Context(), h, s)
					if o.fenced = errors.Is(err, cache.ErrFenced); err != nil && !o.fenced && !errors.Is(err, cache.ErrAway) {
						t.Error(err)
					}
					return err
				})
				return o
			}
			var known [keys]cache.Fence
			for n := range steps {
				k := byte(rnd.IntN(keys))
				h := cache.Hold{Key: key(k), Fence: known[k]}
				in := input{key: k, fence: h.Fence}
				switch action := rnd.IntN(10); {
				case action < 5 || h.Fence == 0:
					in.step, in.retry, in.fence = "claim", rnd.IntN(2) == 0, 0
					do(in, func() output {
						c := derived(key(k), cache.Duplicates)
						c.Retry = in.retry
						var g cache.Grant
						call := now()
						resent := again(func() (err error) {
							if g, err = store.Claim(t.Context(), c); err != nil && !errors.Is(err, cache.ErrAway) {
								t.Error(err)
							}
							return err
						})
						if resent {
							note(input{key: k, step: "take"}, output{}, call, now())
						}
						known[k] = g.Fence
						o := output{role: g.Role, share: g.Share, fence: g.Fence}
						if g.Result != nil {
							o.text = text(g.Result.Frames)
						}
						return o
					})
				case action < 8: // of others' claims too: they name the fence
					in.step, in.text = "settle", fmt.Sprint(caller, " ", n)
					do(in, func() output {
						s := whole(in.text)
						s.Disk = n%2 == 0
						return settle(h, s)
					})
				case action < 9:
					in.step = "release"
					do(in, func() output {
						return settle(h, cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}})
					})
				default:
					in.step = "owe"
					do(in, func() output {
						nonce := cache.NewNonce()
						again(func() error {
							err := store.Owe(t.Context(), h, nonce, debt)
							if err != nil && !errors.Is(err, cache.ErrAway) {
								t.Error(err)
							}
							return err
						})
						return output{}
					})
				}
			}
		})
	}
	wg.Wait()
	if !porcupine.CheckOperations(model, history) {
		t.Errorf("%d steps of %d callers are not linearizable", len(history), callers)
	}
}

// lostAcknowledgements plays callers that send each step again until it is
// answered, over a store that loses one step in three, and checks after each
// what must always hold.
func lostAcknowledgements(f *fixture) {
	rnd := rand.New(rand.NewPCG(3, 5))
	lose := func(string) bool { return rnd.IntN(3) == 0 }
	truth := f.Store
	for when, faulty := range []*Faulty{
		{Store: truth, Before: lose},
		{Store: truth, After: lose},
		{Store: truth, Before: lose, After: lose},
	} {
		name := []string{"lost before", "lost after", "lost before or after"}[when]
		settledAs := map[cache.Fence]string{}
		check := func(k cache.Key) {
			f.Helper()
			// A marked retry has no effect but on an absent record.
			c := explicit(k, 1)
			g, err := truth.Claim(f.Context(), c)
			if err != nil {
				f.Fatal(err)
			}
			switch g.Role {
			case cache.Replay:
				got := text(g.Result.Frames)
				if want, ok := settledAs[g.Fence]; ok && got != want {
					f.Fatalf("%s: fence %d was settled as %q and is %q", name, g.Fence, want, got)
				}
				settledAs[g.Fence] = got
				if want := fmt.Sprintf("%x %d", k[:2], g.Fence); got != want {
					f.Fatalf("%s: key %x has the answer %q, want %q", name, k[:2], got, want)
				}
			case cache.Lead: // it was absent: leave it so
				f.settle(cache.Hold{Key: k, Fence: g.Fence}, cache.Settlement{Nonce: cache.NewNonce(), Result: cache.Result{State: cache.Released}})
			}
		}
		for n := range 40 {
			k := cache.Key{byte(n), byte(when)}
			c := explicit(k, 1)
			again := func(do func() error) {
				f.Helper()
				for range 100 {
					err := do()
					if err == nil {
						return
					}
					if !errors.Is(err, cache.ErrAway) {
						f.Fatalf("%s: %v", name, err)
					}
				}
				f.Fatalf("%s: never answered", name)
			}
			var g cache.Grant
			again(func() (err error) { g, err = faulty.Claim(f.Context(), c); return err })
			if g.Role != cache.Lead {
				f.Fatalf("%s: a first claim got %+v", name, g)
			}
			h := cache.Hold{Key: k, Fence: g.Fence}
			check(k)
			if g := f.claim(explicit(k, 1)); g.Role != cache.Follow || g.Fence != h.Fence {
				f.Fatalf("%s: beside the leader another got %+v", name, g)
			}
			again(func() error { _, err := faulty.Renew(f.Context(), h, lease); return err })
			again(func() error { return faulty.Append(f.Context(), h, 0, body("part")) })
			if frames, _, err := truth.Read(f.Context(), h, 0); err != nil || text(frames) != "part" {
				f.Fatalf("%s: the log has %q, %v", name, text(frames), err)
			}
			check(k)
			s := whole(fmt.Sprintf("%x %d", k[:2], h.Fence))
			s.Disk = n%2 == 0
			again(func() error { return faulty.Settle(f.Context(), h, s) })
			f.is(explicit(k, 1), cache.Replay, cache.ByKey)
			check(k)
			nonce := cache.NewNonce()
			again(func() error { return faulty.Owe(f.Context(), h, nonce, debt) })
			f.fenced("settle", truth.Settle(f.Context(), h, whole("another")))
			check(k)
			// The debt was noted once, however often it was sent.
			owed := derived(k, cache.Retries)
			owed.Fingerprint = [32]byte{1}
			again(func() (err error) { g, err = faulty.Claim(f.Context(), owed); return err })
			if g.Share != cache.ByDebt {
				f.Fatalf("%s: the debt gave %+v", name, g)
			}
			f.leads(derived(k, cache.Retries))
		}
	}
}
