package cachetest

import (
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"oncegate/cache"
)

const (
	// memory is how long the key of a write that completed is remembered.
	memory = time.Hour
	// long is longer than anything is kept that has an end.
	long = 3 * time.Hour
)

// payments is what the writes of the suite are, unless a case says otherwise.
var payments = cache.About{
	Tool: "payments", Method: "POST", Path: "/v1/payments%2Fx", Principal: "research", User: "u/1", Probe: "/v1/payments?ref=1",
}

// write is a claim of a write with these params.
func write(k cache.Key, params byte) cache.Claim {
	c := explicit(k, params)
	c.Write = &cache.Write{About: payments}
	return c
}

// knowingly is one that says that it runs an unknown outcome again.
func knowingly(k cache.Key) cache.Claim {
	c := write(k, 1)
	c.Write.Knowingly = true
	return c
}

// again is one whose upstream deduplicates for so long.
func again(k cache.Key, d time.Duration) cache.Claim {
	c := write(k, 1)
	c.Write.Again = d
	return c
}

// done is a settlement of a write that completed.
func done(s string) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Keep: keep, Memory: memory, Disk: true,
		Result: cache.Result{State: cache.Completed, Frames: body(s), Status: 201, Size: int64(len(s)), Sum: sha256.Sum256([]byte(s))},
	}
}

// undone is one of a write that was not executed.
func undone() cache.Settlement {
	return cache.Settlement{Nonce: cache.NewNonce(), Disk: true, Result: cache.Result{State: cache.Released}}
}

// unclear is one of a write of which nobody knows whether it was.
func unclear(status int) cache.Settlement {
	return cache.Settlement{
		Nonce: cache.NewNonce(), Disk: true,
		Result: cache.Result{State: cache.Unknown, Frames: body("nobody knows"), Status: status},
	}
}

// begins claims and must lead a new operation.
func (f *fixture) begins(c cache.Claim) cache.Hold {
	f.Helper()
	g := f.claim(c)
	if g.Role != cache.Lead || g.Fence == 0 || g.Lapsed {
		f.Fatalf("got %+v, want to lead", g)
	}
	if g.Origin != g.Fence {
		f.Fatalf("a new operation has the origin %d and the fence %d", g.Origin, g.Fence)
	}
	return cache.Hold{Key: c.Key, Fence: g.Fence}
}

// reruns claims and must lead an operation again that began with origin.
// lapsed: it may be the first to find that a lease ran out; the engine may have.
func (f *fixture) reruns(c cache.Claim, origin cache.Hold, lapsed bool) cache.Hold {
	f.Helper()
	g := f.claim(c)
	if g.Role != cache.Lead || g.Fence <= origin.Fence || g.Lapsed && !lapsed {
		f.Fatalf("got %+v, want to lead again, lapsed %v", g, lapsed)
	}
	if g.Origin != origin.Fence {
		f.Fatalf("run again, it has the origin %d, want %d", g.Origin, origin.Fence)
	}
	return cache.Hold{Key: c.Key, Fence: g.Fence}
}

func (f *fixture) dispatch(h cache.Hold) error {
	return f.Store.Dispatch(f.Context(), h, cache.NewNonce())
}

func (f *fixture) dispatches(h cache.Hold) cache.Hold {
	f.Helper()
	if err := f.dispatch(h); err != nil {
		f.Fatalf("dispatch: %v", err)
	}
	return h
}

// sends begins a write and dispatches it.
func (f *fixture) sends(c cache.Claim) cache.Hold {
	f.Helper()
	return f.dispatches(f.begins(c))
}

func (f *fixture) withdraw(h cache.Hold) error {
	return f.Store.Withdraw(f.Context(), h, cache.NewNonce())
}

func (f *fixture) withdraws(h cache.Hold) {
	f.Helper()
	if err := f.withdraw(h); err != nil {
		f.Fatalf("withdraw: %v", err)
	}
}

// unsure claims and must be told that nobody knows. found: it may be the first
// to find that a lease ran out.
func (f *fixture) unsure(c cache.Claim, h cache.Hold, found bool) *cache.Result {
	f.Helper()
	g := f.is(c, cache.InDoubt, "")
	if g.Fence != h.Fence || g.Lapsed && !found || g.Result.State != cache.Unknown {
		f.Fatalf("got %+v of %+v, want fence %d, found out by it %v", g, g.Result, h.Fence, found)
	}
	return g.Result
}

// gone claims and must be told that the answer is not kept, and what is known.
func (f *fixture) gone(c cache.Claim, answer string) {
	f.Helper()
	g := f.is(c, cache.Gone, cache.ByKey)
	want := done(answer).Result
	if r := g.Result; r.State != cache.Completed || r.Status != want.Status || r.Size != want.Size || r.Sum != want.Sum || r.Frames != nil {
		f.Fatalf("it is gone with %+v, want %+v without frames", r, want)
	}
}

// record reads a record, which must be in this state.
func (f *fixture) record(k cache.Key, want cache.State) cache.Record {
	f.Helper()
	r, err := f.Store.Record(f.Context(), k)
	if err != nil {
		f.Fatalf("record: %v", err)
	}
	if r.State != want || r.Key != k {
		f.Fatalf("it is %+v, want state %d", r, want)
	}
	return r
}

func (f *fixture) none(k cache.Key) {
	f.Helper()
	if r, err := f.Store.Record(f.Context(), k); !errors.Is(err, cache.ErrNone) {
		f.Fatalf("there is %+v, %v, want none", r, err)
	}
}

// trail checks what a record's trail says, in words.
func (f *fixture) trail(r cache.Record, want ...string) {
	f.Helper()
	var got []string
	for n, s := range r.Trail {
		got = append(got, s.What)
		if s.At.IsZero() || s.At.After(f.now()) || n > 0 && s.At.Before(r.Trail[n-1].At) {
			f.Errorf("step %d of the trail was at %v", n, s.At)
		}
		if s.Fence == 0 || s.Fence > r.Fence || n > 0 && s.Fence < r.Trail[n-1].Fence {
			f.Errorf("step %d of the trail is of fence %d, the record of %d", n, s.Fence, r.Fence)
		}
	}
	if !slices.Equal(got, want) {
		f.Errorf("the trail is %q, want %q", got, want)
	}
}

// near says that a moment is at most so long ago, give or take a second.
func (f *fixture) near(what string, at time.Time, ago time.Duration) {
	f.Helper()
	if off := f.now().Sub(at) - ago; off < -time.Second || off > time.Second {
		f.Errorf("%s was at %v, %v ago, want %v ago", what, at, f.now().Sub(at), ago)
	}
}

// refused checks that a hold may take no step any more.
func (f *fixture) refused(h cache.Hold) {
	f.Helper()
	f.fenced("dispatch", f.dispatch(h))
	f.fenced("withdraw", f.withdraw(h))
	f.fenced("renew", f.renew(h))
	f.fenced("append", f.Store.Append(f.Context(), h, 0, body("stale")))
	for _, s := range []cache.Settlement{done("stale"), undone(), unclear(500)} {
		f.fenced("settle", f.Store.Settle(f.Context(), h, s))
	}
	_, _, err := f.Store.Read(f.Context(), h, 0)
	f.fenced("read", err)
}
